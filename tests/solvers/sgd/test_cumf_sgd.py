"""CuMF_SGD: which updates are lost, and which options go together."""

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

from gpumf import SGD
from support import ragged_ratings, to_numpy


@pytest.mark.parametrize("seed", range(3))
def test_the_wavefront_update_loses_nothing_where_batch_hogwild_does(launcher, seed):
    # An item's bias takes a step of 1, nearly, with every rating: it counts the updates that were not lost.
    ratings = ragged_ratings(n_users=16, n_items=9, longest=7, seed=seed)
    ratings = replace(ratings, values=np.full(ratings.nnz, 2.0**14))
    wanted, lost = np.bincount(ratings.items, minlength=9), {}
    for update in ("wavefront", "batch_hogwild"):
        options = {"update": update, "threads": 64} | ({"side": 8} if update == "wavefront" else {"run": 4})
        model = SGD(2, 0, learning_rate=2.0**-14, biases=True, solver="cumf_sgd", device=launcher.name, **options)
        p, q = (np.zeros((rows, 4), np.float32) for rows in (16, 9))
        p[:, -1] = q[:, -2] = 1
        with launcher.shuffled(seed) if launcher.name == "emulator" else nullcontext():
            trainer = model.make_solver(ratings, p, q)
            for epoch in range(2):
                trainer.epoch(epoch)
        _, q = to_numpy(launcher.name, *trainer.factors())
        lost[update] = 2 * wanted - q[:, -1]
    assert np.abs(lost["wavefront"]).max() < 0.3
    assert lost["batch_hogwild"].max() > 0.9 or launcher.name != "emulator"  # where it depends on timing


def test_cumf_sgd_refuses_options_of_another_update(host):
    # side=1024 alone once meant blocks; batch-Hogwild has none.
    for options in ({"side": 1024}, {"update": "wavefront", "run": 4}, {"update": "blocked", "run": 4}):
        with pytest.raises(ValueError, match="has no meaning with update="):
            SGD(16, solver="cumf_sgd", device="emulator", biases=False, **options)
