"""Implicit ALS beside the package implicit."""

import pandas as pd
import pytest

from gpumf import figure_style as style
from gpumf.experiments.gpumf import peers_als as experiment
from outcomes import labelled, promise_words

COLUMNS = ["program", "device", "factors", "iterations", "repeat", "wall"]


def rows(ours, theirs=2.0, apart=0.0):
    """Fits of two numbers of iterations that all begin with 7 s of preparing."""
    return [
        (program, "cuda", f, n, repeat, 7 + n * seconds * (1 + apart * repeat))
        for f in (64, 128)
        for program, seconds in (("implicit, GPU", theirs), ("gpumf, GPU", ours))
        for repeat in (0, 1)
        for n in (5, 10)
    ]


def test_an_iteration_is_what_more_of_them_take_more_and_faster_is_beyond_the_spread():
    for ours, apart, expected in ((1.0, 0.0, "reproduced"), (3.0, 0.0, "contradicted"), (1.9, 0.5, "tie")):
        assert promise_words("peers-als-gpu-64", COLUMNS, rows(ours, apart=apart)) == expected
    assert promise_words("peers-als-cores-64", COLUMNS, rows(1.0)) == "missing"


def test_the_summary_has_the_iteration_and_the_wall_of_the_longest_fit(stored):
    frame = pd.DataFrame(rows(0.5), columns=COLUMNS)
    row = experiment.summary(frame).loc[(64, "implicit, GPU")]
    assert (row.iteration, row.wall, row.iterations) == (pytest.approx(2), 27, 10)
    assert labelled(style.save(experiment.figure(frame), stored(frame)))
