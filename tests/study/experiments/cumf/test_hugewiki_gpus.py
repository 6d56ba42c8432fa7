"""Iterations on several GPUs: when the last worker has ended, what more GPUs gain, and what a worker keeps."""

import numpy as np
import pytest

from gpumf.ratings import synthetic_device
from gpumf_study.experiments.cumf import hugewiki_gpus


@pytest.mark.emulator
def test_workers_keep_their_rows_and_their_part_of_the_test(host):
    made = synthetic_device.synthetic_ratings("hugewiki-small-synthetic", device="emulator")
    part = slice(100, 180)
    kept = hugewiki_gpus._rows(made.train.by_user, part, 2.0)
    for k, user in enumerate(range(100, 180)):
        of, whole = (slice(*rows.indptr[n : n + 2]) for rows, n in ((kept, k), (made.train.by_user, user)))
        assert np.array_equal(kept.indices[of], made.train.by_user.indices[whole])
        assert np.array_equal(kept.values[of], made.train.by_user.values[whole] - np.float32(2))
    test = hugewiki_gpus.of_users(made.test, part)
    chosen = (made.test.users >= 100) & (made.test.users < 180)
    assert chosen.any() and np.array_equal(test.values, made.test.values[chosen])


@pytest.mark.slow
@pytest.mark.emulator
def test_two_workers_learn_what_one_does(host):
    if why := hugewiki_gpus.why_unavailable():
        pytest.skip(why)
    frame = hugewiki_gpus.run(**hugewiki_gpus.PROFILES["quick"] | {"factors": 4, "iterations": 2})
    errors = frame.groupby(["x_workers", "x_iteration"]).value.agg(["min", "max"])
    assert np.allclose(errors.loc[1], errors.loc[2], rtol=1e-5)
    assert frame.groupby("x_workers").x_rank.unique().map(sorted).to_dict() == {1: [0], 2: [0, 1]}
    assert (frame.seconds > 0).all() and frame.attrs["gpus"] == 1
    for _, steps in frame.groupby(["x_workers", "x_rank", "x_iteration"]):
        ends = (steps.x_begin + steps.seconds).to_numpy()
        assert steps.x_begin.iloc[0] >= 0, "from where all have begun"
        assert (steps.x_begin.to_numpy()[1:] >= ends[:-1]).all(), "one after another"
