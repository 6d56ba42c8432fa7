"""What a run leaves for the next: large data sets, and the pieces that were measured when it was stopped."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from gpumf import ALS, SGD
from gpumf.ratings import Ratings, synthetic_ratings
from gpumf.solvers.schedules import Power
from gpumf_study import experiments, results, sweep
from gpumf_study.experiments import _kept


class Once:
    """Makes a number, and counts how often."""

    def __init__(self):
        self.made = 0

    def __call__(self):
        self.made += 1
        return self.made


@pytest.fixture
def machine(repository, monkeypatch):
    """A function that sets facts of provenance; the tree is clean at first."""

    def of(**facts):
        known = {"commit": "c0ffee", "clean": True, "started": "1", "gpu": "one"} | facts
        monkeypatch.setattr(results, "provenance", lambda: known)

    of()
    return of


def stopped(make, keys="ab", parameters=None):
    """What a run measures of some pieces before it is stopped."""
    with pytest.raises(KeyboardInterrupt), _kept.measured("name", parameters):
        found = [_kept.once(key, make) for key in keys]
        raise KeyboardInterrupt
    return found


def test_a_stopped_run_goes_on_and_leaves_nothing_when_it_is_done(machine, repository):
    make = Once()
    assert stopped(make) == [1, 2] and stopped(make, "abc") == [1, 2, 3]
    with _kept.measured("name", None):
        assert [_kept.once(key, make) for key in "abcd"] == [1, 2, 3, 4]
    assert not list(repository.rglob("*.pkl")) and stopped(make, "a") == [5]


def test_what_other_code_parameters_or_machines_measured_is_not_taken(machine, monkeypatch):
    make = Once()
    assert stopped(make) == [1, 2] and stopped(make, parameters={"factors": 8}) == [3, 4]
    machine(commit="decade")
    assert stopped(make) == [1, 2], "a commit that changes a page alone"
    machine(gpu="another")
    assert stopped(make) == [5, 6]
    machine()
    monkeypatch.setattr(_kept, "_texts", lambda paths: "other code")
    assert stopped(make) == [7, 8]
    machine(clean=False)
    assert stopped(make) == [9, 10] and stopped(make) == [11, 12]


def test_a_result_of_several_runs_says_so(machine):
    make = Once()
    with _kept.measured("other", None):
        _kept.once("a", make)
        assert _kept.origins() == {}
    stopped(make, "a")
    machine(commit="decade", started="2")
    stopped(make, "ab")
    machine(commit="facade", started="3")
    with _kept.measured("name", None):
        assert [_kept.once(key, make) for key in "abc"] == [2, 3, 4]
        assert _kept.origins() == {"pieces": {"runs": 3, "first": "1", "commits": ["c0ffee", "decade", "facade"]}}
    assert _kept.origins() == {}


def test_half_a_piece_is_measured_again(machine, repository, monkeypatch):
    make = Once()
    monkeypatch.setattr(_kept.pickle, "dumps", lambda made: None)  # which no file can hold
    with pytest.raises(TypeError), _kept.measured("name", None):
        _kept.once("a", make)
    monkeypatch.undo()
    monkeypatch.setattr(results, "repository", lambda: repository)
    machine()
    assert stopped(make, "a") == [2]


def test_a_stopped_sweep_goes_on_with_the_next_training(machine, monkeypatch):
    fits, fit = [], sweep.trained

    def trained(model, *arguments, **options):
        if len(fits) == at_most:
            raise KeyboardInterrupt
        fits.append(model.seed)
        return fit(model, *arguments, **options)

    def models(train, repeat):
        yield {}, SGD(4, solver="ordered", device="cpu", seed=repeat, schedule=Power(0.1))
        yield {}, ALS(4, solver="sequential", device="cpu", seed=repeat)

    def run():
        with _kept.measured("name", None):
            return sweep.sweep(models, ["ml-100k-synthetic"], 2, 2, held_out=0.2)

    monkeypatch.setattr(sweep, "trained", trained)
    at_most = 3
    with pytest.raises(KeyboardInterrupt):
        run()
    at_most = 100
    found = run()
    assert fits == [0, 0, 1, 1, 1], "one of the second process warms up"
    whole = run()
    assert fits[5:] == [0, 0, 1, 1] and found.columns.equals(whole.columns)
    pd.testing.assert_frame_equal(found.drop(columns="seconds"), whole.drop(columns="seconds"))


def test_a_large_synthetic_set_is_drawn_once(repository, monkeypatch):
    drawn, loading = [], experiments.load_dataset
    monkeypatch.setattr(experiments, "_KEPT_RATINGS", 100_000)
    monkeypatch.setattr(experiments, "load_dataset", lambda name: drawn.append(name) or loading(name))
    first, second = (experiments.load_ratings("ml-100k-synthetic") for _ in range(2))
    assert drawn == ["ml-100k-synthetic"]
    for ratings in (first, second):
        assert all(getattr(ratings, fact) == getattr(first, fact) for fact in _kept._FACTS)
        assert all(np.array_equal(getattr(ratings, name), getattr(first, name)) for name in _kept._ARRAYS)
        assert experiments.identity(ratings)["sha256"] == synthetic_ratings("ml-100k").sha256
    monkeypatch.setattr(_kept, "_code", lambda: ["other code"])
    experiments.load_ratings("ml-100k-synthetic")
    monkeypatch.setattr(experiments, "_KEPT_RATINGS", 100_001)
    experiments.load_ratings("ml-100k-synthetic")
    assert len(drawn) == 3


def test_a_set_with_a_test_set_of_its_own_keeps_it(repository):
    ratings = synthetic_ratings("ml-100k")
    mask = np.arange(ratings.nnz) % 5 == 0
    for _ in range(2):
        of = _kept.drawn("name", lambda: replace(ratings, test_mask=mask))
        assert np.array_equal(of.test_mask, mask)


def test_of_two_processes_that_draw_at_a_time_both_have_it(repository):
    other = Ratings([0, 1], [1, 0], [3, 4], 2, 2, scale=(1, 5))
    drawn = _kept.drawn("small", lambda: _kept.drawn("small", lambda: other))
    (kept,) = (repository / "build" / "drawn").iterdir()
    assert drawn is other and _kept.drawn("small", None).values.tolist() == [3, 4] and (kept / "facts.json").is_file()
