"""Solvers of ALS, an iteration after another."""

import pandas as pd

from gpumf_study import figure_style as style
from gpumf_study import schema
from gpumf_study.experiments.gpumf import als_convergence
from outcomes import labelled, word


def trainings(off):
    """Three iterations of the exact solver and of another one, whose errors are off."""
    rows = [
        (solver, epoch, metric, 2.0 - epoch / 4 + apart)
        for solver, apart in (("sequential", 0.0), ("tensor_core", off))
        for epoch in range(3)
        for metric in ("rmse", "mae")
    ]
    frame = pd.DataFrame(rows, columns=["solver", "epoch", "metric", "value"])
    return schema.validated(
        frame.assign(data="a", task="fit", model="ALS", phase="train", repeat=0, seconds=frame.epoch)
    )


def test_solvers_are_compared_with_the_exact_one(stored):
    result = stored(trainings(0.25))
    table = als_convergence.differences(result.frame)
    assert table.difference["a", "rmse"].to_dict() == {"sequential": 0, "tensor_core": 0.25}
    figure = style.save(als_convergence.figure(result.frame), result)
    assert [list(line.get_ydata()) for line in figure.axes[1].lines] == [[0.25, 0.25], [1e-3, 1e-3]]
    assert len(figure.axes[0].lines) == 2 and labelled(figure)
    assert [word("als-solvers-agree", trainings(off)) for off in (5e-4, -2e-3)] == ["replicated", "not replicated"]
