"""The first comparison: errors and seconds of each solver."""

import pandas as pd

from gpumf_study import figure_style as style
from gpumf_study import schema
from gpumf_study.experiments.thesis import first_comparison
from outcomes import lines


def test_an_axis_of_convergence_has_the_medians_of_each_solver_in_its_look():
    rows = [
        ("a", "fit", "ALS", solver, "cpu", repeat, epoch, "train", epoch * seconds, "mae", 1 / (epoch + repeat))
        for solver, seconds in (("sequential", 4.0), ("tensor_core", 1.0))
        for repeat in (0, 1, 2)
        for epoch in (1, 2)
    ]
    columns = ["data", "task", "model", "solver", "device", "repeat", "epoch", "phase", "seconds", "metric", "value"]
    frame = schema.validated(pd.DataFrame(rows, columns=columns))
    by_epoch, by_time = first_comparison.figure(frame).axes
    assert lines(by_epoch)["ALS, one core"] == ([1, 2], [1 / 2, 1 / 3])
    assert lines(by_time)["ALS, tensor cores"] == ([1, 2], [1 / 2, 1 / 3])
    look = style.LOOKS["ALS", "sequential"]
    assert by_epoch.lines[0].get_color() == style.COLOURS[look.colour] and by_epoch.lines[0].get_linestyle() == "--"
    assert by_time.get_xscale() == "log" and "MAE on a" in by_epoch.get_ylabel()
    table = first_comparison.summary(frame).set_index("solver")
    assert table.mae["sequential"] == 1 / 3 and table.seconds.to_dict() == {"sequential": 4, "tensor_core": 1}
