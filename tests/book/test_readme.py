"""README, and the pages that `make readme` writes: short, current, and in the standard terms."""

import importlib
import re
import sys

import numpy as np
import pandas as pd
import pytest

from gpumf_study import benchmarks
from support import ROOT


@pytest.fixture(scope="module")
def readme():
    sys.path.insert(0, str(ROOT / "book"))
    yield importlib.import_module("readme")
    sys.path.remove(str(ROOT / "book"))
    for name in ("readme", "gains"):
        sys.modules.pop(name)


def test_readme_is_short_and_names_files_that_exist():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 120
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert (ROOT / target).exists(), target


def test_make_targets_that_pages_name_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for name in ("README.md", "CONTRIBUTING.md", "book/intro.md"):
        named = set(re.findall(r"(?:`|^)make ([a-z-]+)", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE))
        assert named <= targets, (name, named - targets)


def test_eight_rows_are_shown_and_measured(readme):
    frame = pd.read_csv(benchmarks.path()).set_index("id")
    shown = [*readme.HEADLINES, *filter(None, readme.HEADLINES.values())]
    assert len(readme.HEADLINES) == 8 and frame.loc[shown].value.notna().all()


def test_a_goal_is_met_missed_or_not_measured():
    frame = pd.read_csv(benchmarks.path())
    frame.loc[frame.id == "import-s", ["value", "low", "high"]] = np.nan
    shown = benchmarks.goals(frame).data.set_axis(frame.id)
    assert set(shown.outcome) <= {
        "goal met",
        "stretch goal met",
        "goal missed",
        "inconclusive",
        "no goal",
        "not measured",
    }
    row = frame.set_index("id").loc["als-f100-ms"]
    assert shown.measured["als-f100-ms"] == benchmarks.with_interval(row) and "ms (" in benchmarks.with_interval(row)
    assert shown.loc["import-s", ["measured", "outcome"]].tolist() == ["", "not measured"]


def test_a_sentence_whose_verdict_turned_is_named(readme):
    sentence = readme.Sentence("a-claim", "replicated", "It is {value:.0f} times as fast.")
    frame = pd.DataFrame({"id": ["a-claim"], "verdict": ["replicated"], "value": [3.0], "published": [2.0]})
    assert sentence.written(frame) == "- It is 3 times as fast."
    for other in (frame.assign(verdict="inconclusive"), frame.iloc[:0]):
        with pytest.raises(ValueError, match=r"a-claim is .* revise 'It is"):
            sentence.written(other)


def test_parts_of_a_page_are_written_where_they_belong(readme, monkeypatch, tmp_path):
    end = "<!-- end of results -->\n"
    text = f"a\n<!-- results of one: x -->\nold\n{end}b\n<!-- results of two: x -->\n{end}"
    (tmp_path / "page.md").write_text(text, encoding="utf-8")
    monkeypatch.setattr(readme, "ROOT", tmp_path)
    monkeypatch.setattr(readme, "TEXTS", {"page.md": lambda: {"one": "first\n", "two": "second\n"}})
    assert readme.main(["--check"]) == 1 and readme.main([]) == 0 and readme.main(["--check"]) == 0
    lines = (tmp_path / "page.md").read_text(encoding="utf-8").splitlines()
    assert [lines[2], lines[6]] == ["first", "second"]
