"""The first comparison: convergence of each scheme."""

import pandas as pd

from gpumf import figure_style as style
from gpumf.experiments.thesis import first_comparison
from outcomes import lines, promise_words


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


def test_the_speedups_on_douban_are_to_the_same_error():
    columns = ["data", "model", "kernel", "device", "repeat", "epoch", "seconds", "rmse", "mae"]

    def rows(model, fast, last=0.57):
        kernels = (("sequential", "cpu", 10, 0.57), ("tensor_core", "cuda", fast, last), ("fast", "cuda", fast, last))
        return [
            ("douban-twin", model, kernel, device, 0, epoch, epoch * seconds_, 1, mae)
            for kernel, device, seconds_, end in kernels
            for epoch, mae in enumerate((0.9, 0.6, end))
        ]

    for name, model, times in (
        ("als-douban-speedup", "ALS", (0.003, 0.005, 0.02)),
        ("sgd-douban-speedup", "SGD", (0.004, 0.01, 0.03)),
    ):
        for fast, expected in zip(times, ("stretch", "target", "short"), strict=True):
            assert promise_words(name, columns, rows(model, fast)) == expected, (name, fast)
        assert promise_words(name, columns, rows(model, 0.001, last=0.58)) == "missing", "it never got there"
