"""The first comparison: convergence of each scheme."""

import pandas as pd
import pytest

from gpumf import SGD
from gpumf_study import figure_style as style
from gpumf_study.experiments.thesis import first_comparison
from outcomes import lines, promise_words
from support import ragged_ratings


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


COLUMNS = ["data", "model", "kernel", "device", "repeat", "epoch", "seconds", "rmse", "mae", "wall"]
RIGHT = {"ALS": ("sequential", "parallel"), "SGD": ("ordered", "ordered_parallel")}


def trained(model, times, last=0.57, wall=2.0):
    """Two epochs of each kernel: of seconds each that end, but on the processor, with an MAE of `last`."""
    return [
        (
            "douban-synthetic",
            model,
            kernel,
            device,
            0,
            epoch,
            epoch * s,
            1,
            mae,
            wall * s if mae < 0.6 else None,
        )
        for kernel, (device, s) in times.items()
        for epoch, mae in enumerate((0.9, 0.6, 0.57 if device == "cpu" else last))
    ]


def douban(model, fast, one=10.0, every=1.0, **more):
    one_core, all_cores = RIGHT[model]
    cpu = {one_core: ("cpu", one), all_cores: ("cpu", every)}
    return trained(
        model, {"hogwild": ("cpu", 99.0), **cpu, "tensor_core": ("cuda", fast), "fast": ("cuda", fast)}, **more
    )


@pytest.mark.parametrize(("model", "times"), [("ALS", (0.003, 0.005, 0.02)), ("SGD", (0.004, 0.01, 0.03))])
def test_the_speedups_on_douban_are_to_the_same_error(model, times):
    name = f"{model.lower()}-douban-speedup"
    for fast, expected in zip(times, ("stretch", "target", "short"), strict=True):
        assert promise_words(name, COLUMNS, douban(model, fast)) == expected, fast
    assert promise_words(name, COLUMNS, douban(model, 0.001, last=0.58)) == "missing", "it never got there"
    for cores, slower in (("", {"one": 0.5}), ("-all-cores", {"every": 0.5})):
        assert promise_words(f"{name}{cores}-wall", COLUMNS, douban(model, 1.0, **slower)) == "contradicted"
        assert promise_words(f"{name}{cores}-wall", COLUMNS, douban(model, 0.1, **slower)) == "reproduced"
        assert promise_words(f"{name}{cores}-wall", COLUMNS, douban(model, 0.5, **slower)) == "tie"
    assert promise_words(f"{name}-all-cores", COLUMNS, douban(model, 2.0)) == "contradicted"


def test_sgd_is_compared_with_the_core_that_takes_each_rating_once():
    rows = trained("SGD", {"sequential": ("cpu", 100.0), "ordered": ("cpu", 4.0), "hogwild": ("cuda", 1.0)})
    table = first_comparison.summary(pd.DataFrame(rows, columns=COLUMNS)).set_index("kernel")
    assert table.speedup["hogwild"] == table.wall_speedup["hogwild"] == 4 and table.speedup["sequential"] == 0.04
    assert table.over_all_cores.isna().all(), "no run on all cores"
    assert promise_words("sgd-douban-speedup", COLUMNS, rows) == "missing", "there is no fast"


def test_the_wall_is_that_of_a_fit_of_the_epochs_to_the_error():
    train, test = ragged_ratings(60, 40, 30, seed=0).split(0.2)
    model = SGD(4, solver="ordered", biases=True, device="cpu").fit(train, 5, test)
    error = model.history.mae.iloc[3]
    rows = first_comparison.with_wall(model, train, error)
    first = model.history.index[model.history.mae <= error][0]
    assert rows.wall.notna().sum() == 1 and rows.wall[first] > 0 and len(model.history) == 6
    assert first_comparison.with_wall(model, train, 0.0).wall.isna().all()


def test_errors_are_those_of_the_last_epoch_with_the_spread_of_the_repeats():
    columns = ["data", "model", "kernel", "device", "repeat", "epoch", "seconds", "rmse", "mae"]
    rows = [
        ("ml-100k", "ALS", "sequential", "cpu", r, e, e, 0.9 + e / 10 + r / 100, 1) for r in (0, 1) for e in (0, 1)
    ]
    (row,) = first_comparison.summary(pd.DataFrame(rows, columns=columns)).itertuples()
    assert (row.rmse, row.rmse_spread) == pytest.approx((1.005, 0.005))
