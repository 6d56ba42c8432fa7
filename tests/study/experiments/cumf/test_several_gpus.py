"""Fits on several workers beside plain ones: epochs, and whole fits."""

import pandas as pd
import pytest

from gpumf_study import schema
from gpumf_study.experiments.cumf import several_gpus
from outcomes import word


def fits(model, workers, seconds, whole, rmse=0.9):
    """Three repeats of two epochs, a hundredth apart in seconds."""
    rows = []
    for repeat in (1, 2, 3):
        of_epoch = seconds * (1 + 0.01 * (repeat - 2))
        labels = {
            "model": model, "x_workers": workers, "repeat": repeat, "data": "a", "task": "fit", "device": "cuda",
        }  # fmt: skip
        for epoch in (0, 1, 2):
            value = 2 - epoch * (2 - rmse) / 2
            row = {"epoch": epoch, "phase": "train", "seconds": epoch * of_epoch, "metric": "rmse", "value": value}
            rows.append(labels | row)
        rows += [
            labels | {"phase": phase, "seconds": s} for phase, s in (("compile", 0.5), ("end_to_end", whole + 0.5))
        ]
    return rows


def frame(*more):
    plain = [*fits("ALS", 0, 0.02, 2.0), *fits("ALS", 1, 0.02, 3.0), *fits("SGD", 0, 0.04, 3.0)]
    return schema.validated(pd.DataFrame([*plain, *(row for part in more for row in part)]))


def test_epochs_and_fits_are_compared_with_plain_ones():
    made = frame(fits("ALS", 4, 0.005, 4.0), fits("SGD", 4, 0.01, 5.0, 1.15))
    table = several_gpus.summary(made)
    assert table.seconds["ALS", 4] == pytest.approx(0.005) and table.end_to_end["ALS"].to_list() == [2, 3, 4]
    assert table.speed_up["ALS", 4] == pytest.approx(4) and table.gap["SGD", 4] == pytest.approx(0.25)
    for name in ("distributed-wall", "als-netflix-4gpu-speedup", "sgd-netflix-4gpu-speedup"):
        assert word(name, made) == "measured"


def test_two_workers_are_shown_as_four_are():
    made = frame(fits("ALS", 2, 0.0125, 4.0), fits("SGD", 1, 0.04, 4.0), fits("SGD", 2, 0.02, 5.0))
    assert several_gpus.summary(made).speed_up["SGD", 2] == pytest.approx(2)
