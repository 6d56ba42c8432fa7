"""Fits on several workers beside plain ones: epochs, whole fits, and their words."""

import pandas as pd
import pytest

from gpumf_study.experiments import _fits
from gpumf_study.experiments.cumf import several_gpus
from outcomes import promise_words, word

COLUMNS = ["model", "solver", "workers", "repeat", "epoch", "seconds", "rmse", *_fits.TIMES, "diverged"]


def fits(model, workers, seconds, wall, rmse=0.9):
    solver = {"ALS": "tensor_core", "SGD": "fast"}[model]
    return [
        (
            model,
            solver,
            workers,
            repeat,
            epoch,
            epoch * seconds,
            2 - epoch * (2 - rmse) / 2,
            0,
            0,
            0,
            0.5,
            wall + 0.5,
            False,
        )
        for repeat in (1, 2, 3)
        for epoch in (0, 1, 2)
    ]


def frame(als=0.02, sgd=0.01, over=1.0, gap=0.0):
    """Plain fits, on one worker, and on four with so many seconds of an epoch; `over` a plain fit's wall on one."""
    rows = [*fits("ALS", 0, 0.02, 2.0), *fits("ALS", 1, 0.02, 2.0 + over), *fits("ALS", 4, als, 4.0)]
    return [*rows, *fits("SGD", 0, 0.04, 3.0), *fits("SGD", 4, sgd, 5.0, 0.9 + gap)]


def test_epochs_and_fits_are_held_beside_plain_ones():
    table = several_gpus.summary(pd.DataFrame(frame(als=0.005, gap=0.25), columns=COLUMNS))
    assert table.seconds.round(9).to_dict() == {
        ("ALS", 0): 0.02, ("ALS", 1): 0.02, ("ALS", 4): 0.005, ("SGD", 0): 0.04, ("SGD", 4): 0.01
    }  # fmt: skip
    assert table.wall.loc["ALS"].to_dict() == {0: 2.0, 1: 3.0, 4: 4.0}
    assert table.speedup.round(6).loc["ALS"].to_dict() == {0: 1, 1: 1, 4: 4}
    assert table.gap.round(6).loc["SGD"].to_dict() == {0: 0, 4: 0.25}
    left, right = several_gpus.figure(pd.DataFrame(frame(als=0.005), columns=COLUMNS)).axes
    lines = {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in left.lines[::2]}
    assert [x for x, _ in lines.values()] == [[1, 4], [4]]
    assert [round(y, 9) for _, ys in lines.values() for y in ys] == [0.02, 0.005, 0.01]
    assert list(right.lines[0].get_ydata()) == [3.0, 4.0] and list(right.lines[1].get_ydata()) == [2.0, 2.0]


def test_two_workers_are_shown_as_four_are():
    rows = [*fits("ALS", 0, 0.02, 2.0), *fits("ALS", 1, 0.02, 3.0), *fits("ALS", 2, 0.0125, 4.0)]
    rows += [*fits("SGD", 0, 0.04, 3.0), *fits("SGD", 1, 0.04, 4.0), *fits("SGD", 2, 0.02, 5.0)]
    of_two = pd.DataFrame(rows, columns=COLUMNS)
    assert several_gpus.summary(of_two).speedup.round(6).to_dict() == {
        ("ALS", 0): 1, ("ALS", 1): 1, ("ALS", 2): 1.6, ("SGD", 0): 1, ("SGD", 1): 1, ("SGD", 2): 2
    }  # fmt: skip
    assert [tick.get_text() for tick in several_gpus.figure(of_two).axes[0].get_xticklabels()] == ["1", "2"]
    assert word("distributed-wall", of_two) == "target"


@pytest.mark.parametrize(
    ("id", "made", "expected"),
    [
        ("als-netflix-4gpu-seconds", {"als": 0.005}, "stretch"),
        ("als-netflix-4gpu-seconds", {"als": 0.0065}, "target"),
        ("als-netflix-4gpu-seconds", {"als": 0.009}, "short"),
        ("distributed-wall", {"over": 0.4}, "stretch"),
        ("distributed-wall", {"over": 2.0}, "short"),
        ("sgd-netflix-4gpu-speedup", {}, "answered"),
        ("sgd-netflix-4gpu-gap", {"gap": -0.0005}, "target"),
        ("sgd-netflix-4gpu-gap", {"gap": 0.002}, "short"),
    ],
)
def test_four_cards_are_held_to_what_was_promised(id, made, expected):
    assert promise_words(id, COLUMNS, frame(**made)) == expected
