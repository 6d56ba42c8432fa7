"""The speed of an RBM's versions, whole epochs and their updates."""

import numpy as np
import pandas as pd
import pytest

from gpumf import RBM
from gpumf.solvers.rbm_divergence import batch_order
from gpumf_study.experiments.thesis import rbm_speed
from support import ragged_ratings

PLAIN = {f"x_{name}": name for name in ("part", "share", "epoch_seconds", "limit_seconds", "fraction_of_limit")}
CEILINGS = {"copy_bytes_per_second": 1e9, "fp32_flops": 1e9}


def test_the_least_work_of_an_epoch_is_that_of_its_batches():
    ratings, model = ragged_ratings(seed=0), RBM(6, biases=False, batch=7, gibbs_steps=2, solver="sequential")
    model.fit(ratings, 0)
    trainer = model.make_solver(ratings)
    order = batch_order(0, 0, len(trainer.batches))
    items = sum(len(np.unique(trainer.batches[int(b)].items)) for b in order)
    share, moved, flops = rbm_speed._work(trainer.batches, order, ratings.nnz, model)
    rated = len(np.unique(ratings.items))
    assert rated < items, "the weights of an item count once an epoch, whatever batches it is in"
    assert share == 1 and moved == 5 * ratings.nnz + 8 * rated * 5 * 7
    assert flops == 6 * (ratings.nnz * (3 + 20 + 11) + 2 * items * 5)
    parts = [rbm_speed._work(trainer.batches, order[k : k + 1], ratings.nnz, model) for k in range(len(order))]
    np.testing.assert_allclose(np.sum(parts, axis=0), [share, moved, flops])


@pytest.mark.parametrize("version", ["sequential", "thesis", "thesis, batches", "thesis, transfer", "fast"])
def test_versions_are_timed_whole_and_by_updates(version, host):
    kernel, of = RBM.versions()[version]
    slow = version in ("thesis, batches", "thesis, transfer")
    ratings = ragged_ratings(12, 9, 6, seed=1)
    device = "cpu" if kernel == "sequential" else "emulator"
    model = RBM(4, biases=False, batch=5, solver=kernel, device=device, **of.options)
    rows = pd.DataFrame(rbm_speed._timings(model, ratings, 1, slow, 3, CEILINGS)).rename(columns=PLAIN)
    updates = {*rbm_speed.UPDATES, rbm_speed.BATCHES} if kernel == "thesis" else set()
    assert set(rows.part) == {"prepare", "epoch"} | updates
    epochs = rows[rows.part == "epoch"]
    assert len(epochs) == (1 if slow else 3)
    assert (epochs.share < 1).all() == slow
    np.testing.assert_allclose(rows.epoch_seconds * rows.share, rows.seconds)
    np.testing.assert_allclose(epochs.fraction_of_limit * epochs.epoch_seconds, epochs.limit_seconds)
    assert (rows.seconds > 0).all() and rows.limit_seconds[rows.part != "epoch"].isna().all()


def test_seconds_of_an_update_are_the_sum_over_all_batches_and_steps():
    """By a clock whose ticks double, a sum says which calls are in it."""
    ticks, calls, batches, steps = iter(2.0 ** np.arange(50)), [], 3, 2

    def timed(work, repeats, warmup):
        work()
        calls[-1] += (next(ticks),)
        return [calls[-1][1]]

    class Solver:
        def __getattr__(self, name):
            return lambda *_, **__: calls.append((name,))

        def keys(self, epoch, number):
            return [(0, 0)] * steps

    seconds = rbm_speed._updates(Solver(), np.arange(batches), timed)
    names = {rbm_speed.BATCHES: "take", **dict(zip(rbm_speed.UPDATES, HOOKS, strict=True))}
    for part, name in names.items():
        assert seconds[part] == sum(tick for called, tick in calls if called == name), part
    assert [called for called, _ in calls].count("visible_update") == batches * steps
    assert [called for called, _ in calls].count("hidden_update") == batches * (steps + 1)


HOOKS = "hidden_update", "visible_update", "weight_update"
