"""cu2rec against the processor."""

import pandas as pd
import pytest

from gpumf_study.experiments.cu2rec import cu2rec_training as experiment
from outcomes import assert_drawn


def trained(ours=1.0, drawn=20.0, once=10.0, end=0.9):
    """Seconds of an epoch of three schemes that end at RMSE 0.9, cu2rec at `end`, after ten epochs of two sets."""
    schemes = {"sequential": (drawn, 0.9), "ordered": (once, 0.9), experiment.OURS: (ours, end)}
    rows = [
        {"data": data, "nnz": nnz, "scheme": scheme, "repeat": repeat, "epoch": epoch, "seconds": epoch * seconds,
         "rmse": lowest + (10 - epoch) / 10, "diverged": False, "prepare": 1.0, "transfer": 1.0, "compile": 5.0,
         "train": 10 * seconds, "wall": 7 + 10 * seconds}
        for data, nnz in (("small", 10), ("large", 20))
        for scheme, (seconds, lowest) in schemes.items()
        for repeat in (0, 1) for epoch in range(11)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_the_level_is_one_that_all_reach_and_the_wall_is_without_compiling():
    frame = trained(end=1.2)
    assert experiment.levels(frame)["large"] == pytest.approx(1.005 * 1.2)
    first = experiment.reached(frame).set_index(["data", "scheme", "repeat"]).loc["large", "ordered", 0]
    assert first.epoch == 7 and first.train == 70 and first.wall == pytest.approx(2 + 70)


def test_courses_are_drawn(store):
    result = store("cu2rec_training", trained())
    assert_drawn(experiment.figure(result.frame), result, 2)
    assert experiment.summary(trained()).epochs["small", "cu2rec"] == 10
