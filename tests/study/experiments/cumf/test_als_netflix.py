"""ALS at the twin of Netflix."""

import numpy as np
import pandas as pd

from gpumf_study import figure_style as style
from gpumf_study.experiments.cumf import als_netflix
from outcomes import labelled, word


def test_netflix_is_drawn_by_iterations_and_by_seconds(stored):
    speeds = {"cumf_cholesky": 4, "tensor_core": 1}
    rows = [(k, "cuda", r, e, e * s, 1 / (e + 1), 1) for k, s in speeds.items() for r in (0, 1) for e in (0, 1, 2)]
    result = stored(rows, ["kernel", "device", "repeat", "epoch", "seconds", "rmse", "mae"])
    figure = style.save(als_netflix.figure(result.frame), result)
    assert [list(line.get_xdata()) for line in figure.axes[0].lines] == [[1, 2]] * 2
    assert [list(line.get_xdata()) for line in figure.axes[1].lines] == [[4, 8], [1, 2]] and labelled(figure)


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


def test_the_time_of_an_iteration_and_the_gap_of_errors_are_of_the_tensor_cores():
    def frame(fast, gap, exact="cumf_cholesky"):
        kernels = {exact: (4.0, 0.88), "tensor_core": (fast, 0.88 + gap)}
        return pd.DataFrame(
            [(k, r, e, e * s, rmse, 1) for k, (s, rmse) in kernels.items() for r in (0, 1) for e in range(11)],
            columns=["kernel", "repeat", "epoch", "seconds", "rmse", "mae"],
        )

    times = {0.0115: "stretch", 0.0175: "target", 0.019: "short"}
    assert {s: word("als-explicit-seconds", frame(s, 0)) for s in times} == times
    gaps = {-0.0001: "stretch", 0.0005: "target", -0.0005: "target", 0.002: "short"}
    assert {gap: word("als-explicit-rmse-gap", frame(1, gap)) for gap in gaps} == gaps
    assert word("als-explicit-rmse-gap", frame(1, 0, exact="parallel")) == "missing"
