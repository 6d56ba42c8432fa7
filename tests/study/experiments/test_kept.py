"""What a run leaves for the next on the same machine: large data sets, and what was measured when it was stopped."""

from dataclasses import replace

import numpy as np
import pytest

from gpumf.ratings import Ratings, synthetic_ratings
from gpumf_study import experiments, results
from gpumf_study.experiments import _kept


class Once:
    """Makes a number, and counts how often."""

    def __init__(self):
        self.made = 0

    def __call__(self):
        self.made += 1
        return self.made


@pytest.fixture
def commit(repository, monkeypatch):
    """A function that sets what provenance says of the commit, a clean one at first."""

    def of(commit, clean=True):
        monkeypatch.setattr(results, "provenance", lambda: {"commit": commit, "clean": clean})

    of("c0ffee")
    return of


def stopped(make, keys="ab", parameters=None):
    """What a run measures of some parts before it is stopped."""
    with pytest.raises(KeyboardInterrupt), _kept.measured("name", parameters) as once:
        found = [once(key, make) for key in keys]
        raise KeyboardInterrupt
    return found


def test_a_stopped_run_goes_on_and_leaves_nothing_when_it_is_done(commit, repository):
    make = Once()
    assert stopped(make) == [1, 2] and stopped(make, "abc") == [1, 2, 3]
    with _kept.measured("name", None) as once:
        assert [once(key, make) for key in "abcd"] == [1, 2, 3, 4]
    assert not list(repository.rglob("*.pkl")) and stopped(make, "a") == [5]


def test_what_another_commit_or_another_parameter_measured_is_not_taken(commit):
    make = Once()
    assert stopped(make) == [1, 2] and stopped(make, parameters={"factors": 8}) == [3, 4]
    commit("decade")
    assert stopped(make) == [5, 6]
    commit("c0ffee", clean=False)
    assert stopped(make) == [7, 8] and stopped(make) == [9, 10]


def test_half_a_part_is_measured_again(commit, repository, monkeypatch):
    make = Once()
    monkeypatch.setattr(_kept.pickle, "dumps", lambda made: None)  # which no file can hold
    with pytest.raises(TypeError), _kept.measured("name", None) as once:
        once("a", make)
    monkeypatch.undo()
    monkeypatch.setattr(results, "repository", lambda: repository)
    commit("c0ffee")
    assert stopped(make, "a") == [2]


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
