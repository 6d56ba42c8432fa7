"""What is recorded says where it comes from and is whole; figures and tables kept of it are of it."""

import json
import subprocess
import sys

import pandas as pd
import pytest

from gpumf_study import experiments, results
from support import ROOT

RECORDED = sorted((ROOT / "data/results").glob("*/*/*.csv"))
assert RECORDED


def git(*words):
    return subprocess.run(["git", "-C", ROOT, *words], capture_output=True, check=False).stdout


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: f"{path.parent.parent.name}-{path.stem}")
def test_recorded_results_say_where_they_come_from(path):
    device = path.parent.parent.name
    result = results.load(path.stem, device)
    facts = result.provenance
    assert result.source == path.parent.name == experiments.names()[path.stem]
    assert len(result.frame) and facts["commit"] and isinstance(facts["clean"], bool)
    assert git("cat-file", "-t", facts["commit"]).strip() == b"commit"
    of_gpu = ("gpu", "cuda_driver", "cupy") if device != "cpu" else ()
    for key in (*of_gpu, "cpu", "packages", "parameters", "datasets", "started", "command", "csv_sha256"):
        assert key in facts, key


# Experiments that count, and what they measure besides.
COUNTED = {"cumf_setting": {"measure": False}, "theoretical_flops": {}}


@pytest.mark.parametrize("path", [path for path in RECORDED if path.stem in COUNTED], ids=lambda path: path.parts[-3])
def test_what_is_counted_is_what_was_recorded(path):
    experiment, stored = experiments.module(path.stem), results.load(path.stem, path.parts[-3]).frame
    counted = experiment.run(**experiment.PROFILES["full"] | COUNTED[path.stem])
    stored = stored[stored.task.isin(counted.task)]
    pd.testing.assert_frame_equal(stored[list(counted)], counted, check_dtype=False, rtol=1e-8)


def test_recorded_sanitizer_runs_found_nothing():
    paths = sorted((ROOT / "data/results").glob("*/gpu_sanitize*.json"))
    assert paths
    for path in paths:
        for tool, outcome in json.loads(path.read_text())["tools"].items():
            assert outcome["passed"] and not outcome["runs_that_failed"] and not outcome["findings"], (path, tool)


def test_recorded_gpu_tests_passed():
    paths = sorted((ROOT / "data/results").glob("*/gpu_tests.json"))
    assert paths
    for path in paths:
        facts = json.loads(path.read_text())
        assert facts["passed"] > 0 and facts["failed"] == 0, path


def drawn_anew_by(name):
    """The commands that draw the figures of an experiment's newest result."""
    pytest.importorskip("IPython")
    from gpumf_study import chapters

    page = chapters.pages().get(name)
    run = f"`make notebook NB={page}`" if page else "`make figures`"
    return f"older than its result: run {run}, and commit figures/"


FIGURES = sorted(path for path in (ROOT / "figures").glob("*/*.svg") if path.parent.name != "drawings")


@pytest.mark.parametrize("path", FIGURES, ids=lambda path: path.stem)
def test_kept_figures_are_of_the_recorded_results(path):
    name = max((name for name in experiments.names() if path.stem.startswith(name)), key=len)
    assert path.parent.name == experiments.names()[name]
    text = path.read_text(encoding="utf-8")
    places = [results.load(name, found.parent.parent.name).where for found in RECORDED if found.stem == name]
    assert any(where in text for where in [*places, "not measured"]), drawn_anew_by(name)


def test_readme_is_current():
    done = subprocess.run([sys.executable, ROOT / "book/readme.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, f"run `make readme`: {done.stdout}{done.stderr}"
