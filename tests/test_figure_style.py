"""What figures have in common, and what is drawn and summed up of frames of known numbers."""

import numpy as np
import pandas as pd
import pytest

from gpumf import figure_style as style
from gpumf.experiments.cu2rec import sgd_cu2rec
from gpumf.experiments.cumf import als_hugewiki, als_netflix, implicit_quality
from gpumf.experiments.gpumf import (
    ceilings,
    kernel_counters,
    kernel_limits,
    kernel_resources,
    race_steps,
    rating_counts,
    rbm_features,
    sgd_limits,
    sgd_ml100k,
)
from gpumf.experiments.thesis import data_sets, first_comparison, rbm_tuning, theoretical_flops


def lines(axis):
    """What is drawn under each label: (x, y)."""
    return {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in axis.lines}


def test_an_axis_of_convergence_has_the_medians_of_each_scheme_in_its_look():
    rows = [
        ("a", "ALS", kernel, repeat, epoch, epoch * seconds * (1 + repeat), 1 / (epoch + repeat))
        for kernel, seconds in (("sequential", 4.0), ("tensor_core", 1.0))
        for repeat in (0, 1, 2)
        for epoch in (1, 2)
    ]
    frame = pd.DataFrame(rows, columns=["data", "model", "kernel", "repeat", "epoch", "seconds", "mae"])
    by_epoch, by_time = first_comparison.figure(frame).axes
    assert lines(by_epoch)["ALS, one core"] == ([1, 2], [1 / 2, 1 / 3])
    assert lines(by_time)["ALS, tensor cores"] == ([2, 4], [1 / 2, 1 / 3])
    look = style.LOOKS["ALS", "sequential"]
    assert by_epoch.lines[0].get_color() == style.COLOURS[look.colour] and by_epoch.lines[0].get_linestyle() == "--"
    assert by_time.get_xscale() == "log" and "MAE on a" in by_epoch.get_ylabel()


def test_dots_are_drawn_from_top_to_bottom():
    (axis,) = style.dots(pd.Series([3.0, 5.0], index=["one", ("two", 2)]), "things", log=False).axes
    assert [label.get_text() for label in axis.get_yticklabels()] == ["one", "two, 2"]
    assert list(axis.lines[0].get_xdata()) == [3, 5] and list(axis.lines[0].get_ydata()) == [1, 0]
    assert axis.get_xlabel() == "things"


def test_iterations_on_hugewiki_are_summed_up_and_drawn_by_their_halves():
    rows = [
        ("h", i, step, s, 1 / i if step == "iteration" else np.nan, 100 + i)
        for i in (1, 2)
        for step, s in (("users", 1.0 * i), ("items", 2.0 * i), ("iteration", 3.0 * i))
    ]
    rows.append(("h", 0, "generate", 9.0, np.nan, 50))
    frame = pd.DataFrame(rows, columns=["data", "iteration", "step", "seconds", "rmse", "held_bytes"])
    table = als_hugewiki.summary(frame)
    assert (
        list(table["iteration"]) == [3, 6] and list(table.rmse) == [1, 0.5] and list(table.held_bytes) == [101, 102]
    )
    left, right = als_hugewiki.figure(frame).axes
    assert [[bar.get_height() for bar in bars] for bars in left.containers] == [[1, 2], [2, 4]]
    assert [bar.get_y() for bar in left.containers[1]] == [1, 2]
    assert list(right.lines[0].get_ydata()) == [1, 0.5]


def test_an_iteration_at_netflix_is_the_median_of_what_epochs_add():
    rows = [
        (kernel, repeat, epoch, seconds, 1 - epoch / 10, 0.5)
        for kernel, times in (("a", (0, 1, 4)), ("b", (0, 2, 4)))
        for repeat in (0, 1)
        for epoch, seconds in enumerate(np.array(times) * (1 + repeat))
    ]
    frame = pd.DataFrame(rows, columns=["kernel", "repeat", "epoch", "seconds", "rmse", "mae"])
    table = als_netflix.summary(frame).set_index("kernel")
    assert list(table.seconds) == [3, 3] and list(table.spread) == [2, 2] and list(table.rmse) == [0.8, 0.8]


def test_ceilings_counters_and_limits_stand_side_by_side():
    rows = [
        ("cpu", "copy_bytes_per_second", 1.0),
        ("cpu", "fp32_flops", 2.0),
        ("cuda", "copy_bytes_per_second", 30.0),
    ]
    frame = pd.DataFrame(rows, columns=["device", "ceiling", "value"])
    assert ceilings.summary(frame).loc["copy_bytes_per_second"].to_dict() == {"cpu": 1, "cuda": 30}
    left, right = ceilings.figure(frame).axes
    assert list(left.lines[0].get_xdata()) == [1, 30] and list(right.lines[0].get_xdata()) == [2]

    rows = [
        ("k", side, m, u, v) for side in ("users", "items") for m, u, v in (("L2", "%", 40.0), ("duration", "ns", 7))
    ]
    frame = pd.DataFrame(rows, columns=["kernel", "side", "metric", "unit", "value"])
    assert kernel_counters.summary(frame)["k", "items"].to_dict() == {"L2": 40, "duration": 7}
    assert lines(kernel_counters.figure(frame).axes[0])["k, users"] == ([40], ["L2"])

    rows = [("a", "k", "epoch", s, 1.0, 1 / s) for s in (2.0, 4.0, 5.0)]
    frame = pd.DataFrame(rows, columns=["data", "kernel", "step", "seconds", "limit_seconds", "fraction_of_limit"])
    assert kernel_limits.summary(frame).loc[("a", "k", "epoch")].to_list() == [4, 1, 0.25]


def test_registers_are_those_of_one_architecture():
    rows = [(90, "s.cu", "k", 16, 32, 0, 8), (90, "s.cu", "k", 100, 64, 4, 8), (75, "s.cu", "k", 16, 99, 0, 8)]
    columns = ["architecture", "source", "kernel", "factors", "registers", "spill_store_bytes", "static_shared_bytes"]
    frame = pd.DataFrame(rows, columns=columns)
    assert kernel_resources.summary(frame).loc[(90, "s.cu", "k")].to_list() == [64, 4, 8]
    (axis,) = kernel_resources.figure(frame).axes
    assert list(axis.lines[0].get_xdata()) == [64] and "capability 9" in axis.get_xlabel()
    (axis,) = kernel_resources.figure(frame[frame.architecture == 75]).axes
    assert list(axis.lines[0].get_xdata()) == [99]


def test_steps_and_epochs_of_sgd_are_summed_up_and_drawn():
    rows = [(f, 10, 100, s * f, r) for f in (50, 300) for r, s in ((0.9, 1.0), (0.8, 3.0), (0.7, 2.0))]
    frame = pd.DataFrame(rows, columns=["factors", "steps", "updates", "seconds", "rmse"])
    table = sgd_cu2rec.summary(frame)
    assert list(table.seconds) == [100, 600] and list(table.spread) == [100, 600] and list(table.rmse) == [0.9, 0.9]
    assert lines(sgd_cu2rec.figure(frame).axes[0])["median"] == ([50, 300], [100, 600])

    columns = ["data", "kernel", "nnz", "runs", "seconds", "limit_seconds", "fraction_of_limit", "row_bytes"]
    rows = [("a", k, 100, 50, s, 1.0, 1 / s, 800, 3.0) for k, s in (("cumf_sgd", 4.0), ("fast", 2.0))]
    (axis,) = sgd_limits.figure(pd.DataFrame(rows, columns=[*columns, "gather_seconds"])).axes
    assert lines(axis)["measured (median)"][0] == [2, 4] and lines(axis)["limit"][0] == [1, 1]
    assert [label.get_text() for label in axis.get_yticklabels()] == ["fast", "CuMF_SGD"]

    rows = [(f, "test", s, 0.9 + f / 10, 0.7) for f in (0, 1) for s in (0, 1)] + [(0, "choice", 0, 0.1, 0.1)]
    figure = sgd_ml100k.figure(pd.DataFrame(rows, columns=["fold", "step", "seed", "rmse", "mae"]))
    assert lines(figure.axes[0])["a seed"] == ([0.9, 0.9, 1.0, 1.0], [0, 0, 1, 1])


def test_twins_are_compared_with_what_is_published():
    published = dict.fromkeys(data_sets.COUNTS, 100.0) | {"user_max": np.nan}
    rows = [
        {"data": "a", "source": "published", "density": 0.1, **published},
        {"data": "a", "source": "twin", "density": 0.2, **published, "user_max": 7, "items": 90},
        {"data": "b", "source": "real", "density": 0.3, **published},
    ]
    frame = pd.DataFrame(rows)
    table = data_sets.summary(frame)
    assert list(table.index) == ["a"] and table.loc["a", "items"] == pytest.approx(-0.1)
    assert table.loc["a", "ratings"] == 0 and np.isnan(table.loc["a", "user_max"])
    drawn = lines(data_sets.figure(frame).axes[0])
    assert drawn["twin"] == ([100], [20]) and drawn["real"] == ([100], [30])


def test_small_summaries_are_what_their_names_say():
    single = pd.DataFrame(
        [(y, kind, "single", g) for y, kind, g in ((1, "GPU", 8), (1, "CPU", 2), (2, "GPU", 6), (2, "CPU", 4))],
        columns=["year", "kind", "precision", "gflops"],
    )
    assert list(theoretical_flops.summary(single).lead) == [4, 2], "the fastest so far, not of the year"
    outcomes = pd.DataFrame({"seed": [0, 0, 1, 2, 3], "outcome": ["b", "b", "a", "b", "b"]})
    assert race_steps.summary(outcomes).to_dict() == {"a": 0.25, "b": 0.75}
    counts = pd.DataFrame({"data": "a", "side": "users", "count": [1, 2, 9], "rank": [0.3, 0.6, 1.0]})
    assert rating_counts.summary(counts).loc[("a", "users")].to_list() == [1, 2, 9]
    ranks = pd.DataFrame(
        [("a", "k", e, e, e, e, e) for e in (1, 2)],
        columns=["data", "kernel", "epoch", "precision", "recall", "map", "ndcg"],
    )
    assert implicit_quality.summary(ranks).loc[("a", "k")].to_list() == [2] * 4
    rows = [("a", unit, end, c, 0.2) for unit, end, c in ((0, "most", 0.5), (0, "least", 0.1), (1, "most", 0.3))]
    features = pd.DataFrame(rows, columns=["data", "unit", "end", "correlation", "correlation_of_all"])
    row = rbm_features.summary(features).loc["a"]
    assert row.share == pytest.approx(2 / 3) and row.correlation == pytest.approx(0.3)
    drawn = lines(rbm_features.figure(features).axes[0])
    assert drawn["a list"] == ([0.5, 0.1, 0.3], ["unit 0", "unit 0", "unit 1"]) and drawn["all items"][0] == [
        0.2,
        0.2,
    ]


def test_the_tuned_machine_is_told_from_the_thesiss_by_means_over_seeds():
    rows = [
        (data, "test", setting, seed, error + seed / 10, error, 0.5)
        for data in ("a", "b")
        for setting, error in (("thesis", 1.0), ("tuned", 0.8))
        for seed in (0, 1)
    ]
    frame = pd.DataFrame(rows, columns=["data", "step", "setting", "seed", "rmse", "mae", "accuracy"])
    frame = frame.assign(**rbm_tuning.IN_FRAMES, epoch=7)
    row = rbm_tuning.summary(frame).set_index(["data", "setting"]).loc[("b", "tuned")]
    assert row.rmse == pytest.approx(0.85) and row.rmse_deviation == pytest.approx(np.std([0, 0.1], ddof=1))
    assert row.mae_deviation == 0 and row.epoch == 7 and row.hidden == 128
