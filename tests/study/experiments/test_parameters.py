"""Parameters in place of a profile's are of its kind; a chapter's are those of the experiments that it runs."""

import re

import pytest

from gpumf_study import chapters, experiments
from gpumf_study.experiments import _parameters
from support import ROOT

nbformat = pytest.importorskip("nbformat")

FITTED = [
    ("repeats", 3, 10, 3), ("updates", 2e6, 1_000_000, 2_000_000), ("share", 1, 0.02, 1), ("seed", 0, 4, 0),
    ("share", 2, 1.0, ValueError), ("share", 0.5, 1.0, 0.5),
    ("seeds", 0, 4, ValueError), ("seed", 0, 0, 0), ("seed", -1, 0, ValueError), ("epochs", 2.5, 20, ValueError),
    ("epochs", True, 20, ValueError), ("measure", 1, False, ValueError), ("measure", True, False, True),
    ("device", 3, "cpu", ValueError), ("factors", 8, [16, 64], [8]), ("factors", [8, 9], [16], [8, 9]),
    ("factors", ["a"], [16], ValueError), ("factors", 32, [[16, 32]], [[32]]),
    ("fits", [["SGD", 8]], [["ALS", "cumf_cg", 16]], [["SGD", 8]]), ("densities", [0.5, 1], [1, 0.1], [0.5, 1]),
    ("epochs", 5, {"ALS": 8, "SGD": 20}, {"ALS": 5, "SGD": 5}),
    ("epochs", {"ALS": 5}, {"ALS": 8, "SGD": 20}, {"ALS": 5}), ("epochs", "5", {"ALS": 8, "SGD": 20}, ValueError),
    ("schemes", ["fast"], None, ["fast"]), ("data", "ml-100k", ["jester-1"], ["ml-100k"]),
    ("data", "hugewiki-small-synthetic", "ml-100k", "hugewiki-small-synthetic"),
    ("data", "ml-7", ["jester-1"], ValueError), ("data", {"ml-7": [1]}, {"ml-100k-synthetic": [1, 0.1]}, ValueError),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "default", "expected"), FITTED)
def test_a_value_takes_the_form_of_the_one_that_it_replaces(name, value, default, expected):
    if expected is ValueError:
        with pytest.raises(ValueError, match=f"^{name} must be .*, not "):
            _parameters.fitted(name, value, default)
    else:
        found = _parameters.fitted(name, value, default)
        assert found == expected and type(found) is type(expected)


@pytest.mark.parametrize("profile", ["smoke", "quick", "full"])
@pytest.mark.parametrize("name", experiments.names())
def test_every_profile_is_of_a_kind_with_itself(name, profile):
    defaults = experiments.module(name).PROFILES[profile]
    assert experiments.parameters(name, {"profile": profile, **defaults}) == defaults


def test_of_a_page_an_experiment_takes_what_it_has():
    found = experiments.parameters("rating_counts", {"profile": "quick", "points": 7, "repeats": 3}, data="ml-100k")
    assert found == {"data": ["ml-100k"], "points": 7}
    of_one = {"profile": "quick", "rating_counts.points": 8, "points": 7, "speedups.data": "jester-1"}
    assert experiments.parameters("rating_counts", of_one)["points"] == 8
    assert experiments.parameters("rating_counts", of_one)["data"] != ["jester-1"]
    with pytest.raises(TypeError, match="no parameters"):
        experiments.parameters("rating_counts", "quick", repeats=3)


def test_a_misspelled_name_is_told_with_those_like_it():
    assert experiments.why_unknown("als_netflix") is None
    assert experiments.why_unknown("xyz") == "there is no experiment 'xyz'"
    assert experiments.why_unknown("als_netflx").startswith(
        "there is no experiment 'als_netflx'; did you mean als_netflix "
    )


def test_the_experiments_of_a_chapter_are_those_that_get_its_profile():
    code = (
        "result = results.load('ceilings')\nexperiments.run('speedups', profile)\nexperiments.run('startup', 'quick')"
    )
    assert chapters.run_by(code) == ["speedups"]
    loop = "for name in ('data_sets', 'speedups'):\n    reports.found(name, profile)\nresults.recorded('ceilings')"
    assert chapters.run_by(loop) == ["data_sets", "speedups"]


@pytest.mark.parametrize("path", sorted(ROOT.glob("book/**/*.ipynb")), ids=lambda path: path.stem)
def test_what_a_chapter_runs_is_found(path):
    cells = nbformat.read(path, as_version=4).cells
    code = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
    assert bool(chapters.run_by(code)) == (bool(re.search(r"(run|show)\(.*profile\)", code)) or "found(name" in code)
