"""Implicit ALS beside the package implicit."""

import sys
from contextlib import nullcontext
from types import SimpleNamespace

import pandas as pd
import pytest

from gpumf_study import figure_style as style
from gpumf_study.experiments.gpumf import peers_als as experiment
from outcomes import labelled, promise_words
from support import ragged_ratings

COLUMNS = ["program", "device", "factors", "iterations", "repeat", "wall"]


def rows(ours, theirs=2.0, apart=0.0, repeats=2, before=7):
    """Fits of two numbers of iterations that all begin with so many seconds of preparing."""
    return [
        (program, "cuda", f, n, repeat, before + n * seconds * (1 + apart * repeat))
        for f in (64, 128)
        for program, seconds in (("implicit, GPU", theirs), ("gpumf, GPU", ours))
        for repeat in range(repeats)
        for n in (5, 10)
    ]


def test_an_iteration_is_what_more_of_them_take_more_and_faster_is_beyond_the_spread():
    for ours, apart, expected in ((1.0, 0.0, "reproduced"), (3.0, 0.0, "contradicted"), (1.9, 0.5, "tie")):
        assert promise_words("peers-als-gpu-64", COLUMNS, rows(ours, apart=apart)) == expected
    assert promise_words("peers-als-cores-64", COLUMNS, rows(1.0)) == "missing"


def test_a_whole_fit_is_judged_by_three_repeats_of_the_longest():
    def word(name="peers-als-gpu-wall-64", **made):
        return promise_words(name, COLUMNS, rows(**{"repeats": 3} | made))

    assert word(ours=1.0) == "reproduced" and word(ours=3.0) == "contradicted"
    assert word(ours=1.9, apart=0.5) == "tie" == word(ours=2.0)
    assert word(ours=1.0, repeats=2) == "missing" == word("peers-als-cores-wall-64", ours=1.0)
    # With 10 iterations (10 + 20) / (10 + 10); with 5 it would be (10 + 10) / (10 + 5).
    (finding,) = (finding for finding in experiment.FINDINGS if finding.id == "peers-als-gpu-wall-128")
    value, spread, unit = finding.value(pd.DataFrame(rows(1.0, repeats=3, before=10), columns=COLUMNS))
    assert (value, spread, unit) == (1.5, 0, "x") and "10 iterations" in finding.statement


def test_all_programs_make_as_many_steps_of_conjugate_gradient(monkeypatch):
    train, made = ragged_ratings(seed=0), []
    of_ours = SimpleNamespace(times=SimpleNamespace(wall=9.0, compile=2.0))

    class Model:
        def __init__(self, factors, regularization, iterations=None, **named):
            made.append((self, factors, regularization, named))
            self.user_factors = self.item_factors = SimpleNamespace(to_numpy=lambda: None)

        def fit(self, matrix, n=None, show_progress=None):
            return of_ours

    module = SimpleNamespace(AlternatingLeastSquares=Model)
    monkeypatch.setitem(sys.modules, "implicit.cpu.als", module)
    monkeypatch.setitem(sys.modules, "implicit.gpu.als", module)
    monkeypatch.setitem(sys.modules, "threadpoolctl", SimpleNamespace(threadpool_limits=lambda *what: nullcontext()))
    monkeypatch.setattr(experiment, "ImplicitALS", Model)
    arguments = train, experiment._confidences(train), 8, 4, 5
    for device in experiment.PEERS.values():
        experiment._peer(device, *arguments)
    for solver, _ in experiment.OURS.values():
        assert experiment._ours(solver, *arguments) == 7
    assert [model.cg_steps for model, *_ in made[:2]] == [5, 5]
    assert [(named["cg_steps"], named["cg_tolerance"]) for *_, named in made[2:]] == [(5, 0), (5, 0)]
    assert {tuple(of) for _, *of, _ in made} == {(8, experiment.REGULARIZATION)}
    assert all(profile["steps"] == 3 for profile in experiment.PROFILES.values())


def test_the_summary_has_the_iteration_and_the_wall_of_the_longest_fit(stored):
    frame = pd.DataFrame(rows(0.5), columns=COLUMNS)
    row = experiment.summary(frame).loc[(64, "implicit, GPU")]
    assert (row.iteration, row.wall, row.iterations) == (pytest.approx(2), 27, 10)
    assert labelled(style.save(experiment.figure(frame), stored(frame)))
