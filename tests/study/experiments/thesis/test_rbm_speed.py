"""The speed of an RBM's versions, whole epochs and their updates."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import same_color

from gpumf import RBM
from gpumf.solvers.rbm_divergence import batch_order
from gpumf_study import figure_style as style
from gpumf_study import schema
from gpumf_study.experiments.thesis import rbm_speed
from outcomes import labelled
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


@pytest.fixture
def speeds():
    """Epochs of every version, and the updates of the thesis's."""
    rows = []
    for kernel, weights, batches, seconds, share in (
        ("sequential", "device", "device", 40.0, 0.1),
        ("thesis", "transfer", "transfer", 20.0, 0.5),
        ("thesis", "device", "transfer", 12.0, 0.5),
        ("thesis", "device", "device", 10.0, 1.0),
        ("fast", "device", "device", 0.5, 1.0),
    ):
        parts = {"prepare": 3.0, "epoch": seconds}
        if kernel == "thesis":
            parts |= {part: seconds / 4 for part in (*rbm_speed.UPDATES, rbm_speed.BATCHES)}
        device = "cpu" if kernel == "sequential" else "cuda"
        for part, of_epoch in parts.items():
            for repeat in (0, 1, 2):
                limit = 0.1 if part == "epoch" else np.nan
                time = of_epoch + (repeat - 1) / 100
                version = "a", kernel, weights, batches, device, 128
                rows.append((*version, part, repeat, share, time * share, time, limit, limit / time))
    columns = [
        "data",
        "solver",
        "x_weights",
        "x_batches",
        "device",
        "factors",
        "x_part",
        "repeat",
        "x_share",
        "seconds",
    ]
    columns += ["x_epoch_seconds", "x_limit_seconds", "x_fraction_of_limit"]
    return schema.validated(pd.DataFrame(rows, columns=columns))


def test_versions_are_summed_up_against_the_thesis_with_weights_on_the_device(speeds):
    table = rbm_speed.summary(speeds).set_index("version")
    assert list(table.speedup) == pytest.approx([0.25, 0.5, 10 / 12, 1, 20])
    assert list(table.share) == [0.1, 0.5, 0.5, 1, 1]
    assert list(table.index) == ["sequential", "thesis, transfer", "thesis, batches", "thesis", "fast"]
    assert table.loc["thesis, transfer", list(rbm_speed.UPDATES)].tolist() == [5, 5, 5]
    assert table.spread.to_numpy() == pytest.approx(0.02) and pd.isna(table["weight update"]["fast"])


def test_epochs_and_updates_are_drawn_and_what_is_extrapolated_is_hollow(speeds, stored):
    figure = style.save(rbm_speed.figure_updates(speeds), stored(speeds))
    moved, kept = figure.axes[0].collections
    assert moved.get_offsets()[:, 0].tolist() == [20, 5, 5, 5, 5] and kept.get_offsets()[0, 0] == 12
    assert labelled(figure)
    figure = style.save(rbm_speed.figure(speeds), stored(speeds))
    _, measured, limits = figure.axes[0].collections
    assert measured.get_offsets()[:, 0].tolist() == [0.5, 10, 12, 20, 40]
    assert [same_color(face, "white") for face in measured.get_facecolor()] == [False, False, True, True, True]
    assert limits.get_offsets()[:, 0].tolist() == pytest.approx([0.1] * 5) and labelled(figure)


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
