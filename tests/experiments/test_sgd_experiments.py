"""What the experiments on schemes of SGD make of what they measure."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gpumf import SGD, results
from gpumf import figure_style as style
from gpumf.experiments.esgd import sgd_conflicts
from gpumf.experiments.gpumf import sgd_assignment, sgd_limits, sgd_ml100k, sgd_schemes, sgd_spread
from gpumf.experiments.thesis import sgd_douban
from gpumf.models.sgd.fast import Fast
from gpumf.models.sgd.partition import tiled
from support import ragged_ratings


def result_of(name, frame):
    """A result measured somewhere."""
    return results.Result(
        Path(f"a-gpu/gpumf/{name}.csv"),
        frame,
        {"gpu": "a", "started": "2020-01-01", "commit": "b", "clean": True},
        live=True,
    )


def labelled(figure):
    return all(axis.get_xlabel() for axis in figure.axes) and figure.get_supxlabel()


def test_schemes_are_summed_up_by_speed_and_by_their_gap_to_sequential():
    rows = [
        ("a", scheme, "cpu", repeat, epoch, epoch * seconds, epoch * 100, rmse - 0.1 * epoch + 0.01 * repeat, 0.5)
        for scheme, seconds, rmse in (("sequential", 2.0, 1.0), ("fast", 0.5, 0.95))
        for repeat in (0, 1)
        for epoch in (0, 1, 2)
    ]
    columns = ["data", "scheme", "device", "repeat", "epoch", "seconds", "updates", "rmse", "mae"]
    table = sgd_schemes.summary(pd.DataFrame(rows, columns=columns)).set_index("scheme")
    assert list(table.updates_per_second) == [50, 200]
    assert list(table.last_rmse) == pytest.approx([0.805, 0.755]) and list(table.gap) == pytest.approx([0, -0.05])
    assert list(table.spread) == pytest.approx([np.std([0, 0.01], ddof=1)] * 2)


def test_the_figure_of_schemes_has_a_line_each():
    rows = [("a", scheme, epoch, epoch + 1.0, 1 / epoch) for scheme in sgd_schemes.SCHEMES for epoch in (1, 2, 3)]
    frame = pd.DataFrame(rows, columns=["data", "scheme", "epoch", "seconds", "rmse"])
    result = result_of("sgd_schemes", frame)
    figure = style.save(sgd_schemes.figure(frame), result)
    assert [len(axis.lines) for axis in figure.axes] == [len(sgd_schemes.SCHEMES)] * 2
    assert len({(line.get_color(), line.get_linestyle()) for line in figure.axes[0].lines}) == len(
        sgd_schemes.SCHEMES
    )
    assert labelled(figure) and "RMSE" in figure.axes[0].get_ylabel()
    few = sgd_schemes.figure(frame, labels=["fast", "hogwild"])
    assert sorted(line.get_label() for line in few.axes[0].lines) == ["Hogwild", "fast"]


def test_every_label_of_a_scheme_is_a_kernel_with_options_that_it_has():
    for kernel, options in sgd_schemes.SCHEMES.values():
        assert set(options) <= set(sgd_schemes.SGD.schemes()[kernel].options)
    assert {kernel for kernel, _ in sgd_schemes.SCHEMES.values()} == set(sgd_schemes.SGD.kernels())


def test_parameters_are_chosen_on_held_out_training_ratings_alone():
    grid = {"factors": [4], "regularization": [0.1], "bias_regularization": [0.02], "learning_rate": [0.02, 1e-5]}
    frame = sgd_ml100k.run("ml-100k-twin", "sequential", **grid, beta=[0.05], epochs=3, seeds=2)
    for _, fold in frame.groupby("fold"):
        choices, tests = (fold[fold.step == step] for step in ("choice", "test"))
        best = choices.loc[choices.rmse.idxmin()]
        assert len(choices) == 2 and len(tests) == 2 and best.learning_rate == 0.02
        assert (tests.learning_rate == best.learning_rate).all() and (tests.epochs == best.epochs).all()
    table = sgd_ml100k.summary(frame).set_index("measure")
    assert table.loc["rmse", "mean"] == pytest.approx(frame[frame.step == "test"].rmse.mean())
    assert (table.spread > 0).all()


def test_popular_rows_meet_more_often_than_the_formula_says(host):
    frame = sgd_conflicts.run(["ml-100k-twin"], [2, 8, 32], draws=2000, seeds=1, traced=600)
    share = frame.pivot_table(index="at_once", columns="how", values="share")
    assert (share["drawn"] > 1.25 * share["true shape"]).all() and share.drawn.is_monotonic_increasing
    # In a matrix of about as many users as items, both counts are about the same.
    assert np.allclose(share["published"], share["true shape"], rtol=0.2)
    assert share.overwritten.between(0, 1).all() and share.overwritten[32] > 0


# Who takes which rating


@pytest.mark.parametrize("seed", range(5))
def test_in_a_turn_everybody_makes_one_update_and_an_epoch_takes_every_rating(seed):
    frame = sgd_assignment.run(n_users=9, n_items=5, nnz=37, seed=seed)
    assert not frame.duplicated(["scheme", "block", "member", "turn"]).any()
    assert frame.block.isin([0, 1]).all() and frame.member.isin([0, 1]).all()
    for scheme, updates in frame.groupby("scheme"):
        if scheme not in ("hogwild", "cu2rec"):
            assert len(updates) == 37 and not updates.duplicated(["user", "item"]).any(), scheme
        # ESGD's last block passes over the places of its permutation for which there are no ratings left.
        assert scheme == "esgd" or set(updates.turn) == set(range(updates.turn.max() + 1)), scheme
    drawn = frame[frame.scheme == "cu2rec"]
    assert len(drawn) == drawn.user.nunique() * round(37 / 9)
    assert not drawn[drawn.moves == "both"].duplicated(["turn", "item"]).any()


def test_schemes_without_conflicts_meet_nobody_and_owners_share_no_items():
    frame = sgd_assignment.run(n_users=9, n_items=5, nnz=40, seed=1)
    table = sgd_assignment.summary(frame).set_index("scheme")
    assert (table.meets[["kato_hosino", "gpusgd", "newgpusgd", "cu2rec"]] == 0).all()
    assert (table.meets[["hogwild", "bsgd", "esgd", "cumf_sgd"]] > 0).all() and (table.busy <= 1).all()
    fast = frame[frame.scheme == "fast"]
    assert (fast.groupby("item").block.nunique() == 1).all() and fast.block.nunique() == 2
    kato = frame[frame.scheme == "kato_hosino"]
    assert (kato.groupby("user")[["block", "member"]].nunique() == 1).all(axis=None) and (kato.moves == "user").all()


def test_meetings_are_counted_for_the_vectors_that_move():
    rows = [("a", 0, 0, 0, 1, 5, "both"), ("a", 0, 1, 0, 2, 5, "both"), ("a", 0, 0, 1, 1, 5, "both")]
    rows += [("b", 0, 0, 0, 1, 5, "both"), ("b", 0, 1, 0, 2, 5, "user"), ("b", 1, 1, 0, 1, 6, "user")]
    frame = pd.DataFrame(rows, columns=["scheme", "block", "member", "turn", "user", "item", "moves"])
    table = sgd_assignment.summary(frame).set_index("scheme")
    assert table.meets["a"] == pytest.approx(2 / 3) and table.meets["b"] == pytest.approx(2 / 3)
    assert list(table.turns) == [2, 1] and list(table.busy) == [3 / 8, 3 / 4]


def test_the_diagram_has_a_square_a_rating_and_colours_them_by_who_takes_them():
    frame = sgd_assignment.run(**sgd_assignment.PROFILES["quick"])
    figure = sgd_assignment.figure(frame)
    assert [axis.get_title() for axis in figure.axes] == list(frame.scheme.unique()) and labelled(figure)
    assert "not measured" in figure.get_supxlabel()
    for axis, (_, updates) in zip(figure.axes, frame.groupby("scheme", sort=False), strict=True):
        taken = updates.drop_duplicates(["user", "item"])
        colours = {text.get_position(): square.get_edgecolor() for text, square in _squares(axis)}
        assert len(axis.patches) == 30 + len(taken) and len(colours) == len(taken)
        of_worker = {}
        for row in taken.itertuples():
            of_worker.setdefault((row.block, row.member), set()).add(colours[row.item + 0.5, row.user + 0.54])
        assert all(len(of) == 1 for of in of_worker.values())
        assert len(set.union(*of_worker.values())) == len(of_worker)


def _squares(axis):
    """Every number with its square, the last one drawn there."""
    at = {(round(p.get_x() - 0.06), round(p.get_y() - 0.06)): p for p in axis.patches}
    for text in axis.texts:
        x, y = text.get_position()
        yield text, at[round(x - 0.5), round(y - 0.54)]


# The others


def test_only_a_gpu_repeats_and_training_ends_at_the_error_that_counts(monkeypatch):
    monkeypatch.setattr(sgd_douban.gpu, "available", lambda: True)
    assert list(sgd_douban._runs(["sequential", "fast"], 2)) == [("sequential", 0), ("fast", 0), ("fast", 1)]
    monkeypatch.setattr(sgd_douban.gpu, "available", lambda: False)
    parameters = sgd_douban.PROFILES["quick"] | {"data": "ml-100k-twin", "epochs": 30}
    frame = sgd_douban.run(**parameters)
    assert set(frame.kernel) == {"sequential", "parallel"}
    for _, run in frame.groupby("kernel"):
        assert run.mae.iloc[-1] <= 0.76 < run.mae.iloc[-2] and len(run) < 30


def test_the_plan_of_fast_fetches_a_row_for_every_run_and_that_of_hogwild_for_every_update(host):
    train = ragged_ratings(seed=3)
    model = SGD(6, kernel="fast", device="host", parts=2, tiles=5)
    _, _, n_tiles, most, n_parts = Fast.shape(model, train, host)
    tiles = tiled(train, n_tiles, most, n_parts, model.options["longest"], model.seed)
    runs = set()
    for k, (first, end) in enumerate(zip(tiles.tile_segments[:-1], tiles.tile_segments[1:], strict=True)):
        here = tiles.order[tiles.segments[first] : tiles.segments[end]]
        runs |= {(k, user) for user in train.users[here]}
    assert sgd_limits.plan(model, train) == (len(runs), 4 * 6 * len(runs) + 8 * 6 * 40 * 2)
    for kernel, bytes_of_a_factor in (("cumf_sgd", 2), ("hogwild", 4)):
        other = SGD(6, kernel=kernel, device="host")
        assert sgd_limits.plan(other, train) == (train.nnz, 2 * 2 * 6 * bytes_of_a_factor * train.nnz)


def test_limits_are_summed_up_an_update():
    columns = [
        "kernel",
        "nnz",
        "runs",
        "seconds",
        "limit_seconds",
        "fraction_of_limit",
        "row_bytes",
        "gather_seconds",
    ]
    rows = [("fast", 100, 50, s, 1, 1 / s, 800, 3) for s in (2, 4, 5)]
    (row,) = sgd_limits.summary(pd.DataFrame(rows, columns=columns)).itertuples()
    assert (row.seconds, row.updates_per_second, row.fraction_of_limit) == (4, 25, 0.25)
    assert (row.ratings_a_run, row.bytes_an_update) == (2, 20)


def spread_frame():
    rows = [
        (scheme, fold, seed, 0.9 + fold / 10 + seed / 100 + gap * (1 + seed), 0.7)
        for scheme, gap in (("sequential", 0), ("fast", 0.001))
        for fold in (0, 1)
        for seed in (0, 1)
    ]
    return pd.DataFrame(rows, columns=["scheme", "fold", "seed", "rmse", "mae"])


def test_gaps_are_to_sequential_from_the_same_seed():
    table = sgd_spread.summary(spread_frame()).set_index("scheme")
    assert list(table.gap) == pytest.approx([0, 0.0015]) and list(table.largest_gap) == pytest.approx([0, 0.002])
    assert list(table.rmse) == pytest.approx([0.955, 0.9565])
    assert list(table.spread) == pytest.approx([np.std([0, 0.01], ddof=1), np.std([0, 0.011], ddof=1)])
    figure = style.save(sgd_spread.figure(spread_frame()), result_of("sgd_spread", spread_frame()))
    seeds, means = figure.axes[0].lines
    assert len(seeds.get_xdata()) == 4 and sorted(means.get_xdata()) == pytest.approx([0, 0.0015])
    assert [t.get_text() for t in figure.axes[0].get_yticklabels()] == ["fast", "sequential"] and labelled(figure)


def test_speeds_and_conflicts_are_drawn_a_set_each():
    columns = ["data", "scheme", "device", "repeat", "epoch", "seconds", "updates", "rmse", "mae"]
    rows = [
        (data, scheme, device, 0, epoch, epoch * seconds, epoch * 100, 1, 1)
        for data in ("a", "b")
        for scheme, device, seconds in (("sequential", "cpu", 2.0), ("fast", "cuda", 0.5))
        for epoch in (0, 1, 2)
    ]
    figure = style.save(
        sgd_schemes.figure_updates(pd.DataFrame(rows, columns=columns)), result_of("sgd_schemes", None)
    )
    speeds = {line.get_label(): list(line.get_xdata()) for line in figure.axes[0].lines}
    assert speeds == {"GPU": [200], "CPU": [50]} and len(figure.axes) == 2 and labelled(figure)

    hows = {"published": 0.1, "true shape": 0.2, "drawn": 0.3, "overwritten": 0.0}
    rows = [("a", n, how, seed, share * n) for n in (2, 4) for how, share in hows.items() for seed in (0, 1)]
    frame = pd.DataFrame(rows, columns=["data", "at_once", "how", "seed", "share"])
    figure = style.save(sgd_conflicts.figure(frame), result_of("sgd_conflicts", frame))
    drawn = {line.get_label(): list(line.get_ydata()) for line in figure.axes[0].lines}
    assert drawn["ratings drawn"] == [0.6, 1.2] and np.isnan(drawn["writes overwritten"]).all() and labelled(figure)
