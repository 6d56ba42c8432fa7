"""When solvers reach the error that all of them reach."""

import pandas as pd
import pytest

from gpumf_study import schema
from gpumf_study.experiments.cu2rec import cu2rec_training as experiment

PHASES = {"preprocess": 1.0, "transfer": 2.0, "compile": 5.0, "end_to_end": 99.0}


def trained():
    """Two solvers whose lowest RMSE, not their last, is 0.9 and 1.0; an epoch takes 10 s and 1 s."""
    rows = [
        {"solver": solver, "repeat": repeat, "epoch": epoch, "seconds": epoch * each, "metric": "rmse", "value": rmse}
        for solver, each, lowest in (("ordered", 10.0, 0.9), ("cu2rec", 1.0, 1.0))
        for repeat in (0, 1)
        for epoch, rmse in enumerate((3.0, lowest + 0.1, lowest, 1.5))
    ]
    phases = [
        {"solver": solver, "repeat": repeat, "phase": phase, "seconds": seconds}
        for solver in ("ordered", "cu2rec")
        for repeat in (0, 1)
        for phase, seconds in PHASES.items()
    ]
    return schema.validated(pd.DataFrame(rows + phases).assign(data="small"))


def test_end_to_end_seconds_are_without_compiling_and_later_epochs():
    assert experiment.level(trained()).to_dict() == {"small": pytest.approx(1.005)}
    found = experiment.reached(trained()).set_index(["solver", "repeat"])
    assert found.loc[("ordered", 0), ["epoch", "train", "end_to_end"]].to_list() == [1, 10, 13]
    assert found.loc[("cu2rec", 1), ["epoch", "train", "end_to_end"]].to_list() == [2, 2, 5]
