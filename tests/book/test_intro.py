"""Page one: its tables have every artefact once, each measured one with its words and the chapter that shows it."""

import importlib
import re
import sys

import pytest

from gpumf_study import experiments, findings, reports
from support import ROOT


@pytest.fixture(scope="module")
def readme():
    sys.path.insert(0, str(ROOT / "book"))
    yield importlib.import_module("readme")
    sys.path.remove(str(ROOT / "book"))
    for name in ("readme", "gains"):
        sys.modules.pop(name)


@pytest.fixture(scope="module")
def frame():
    pairs = experiments.findings()
    return findings.table(pairs).assign(experiment=[name for name, _ in pairs])


ROW = re.compile(
    r"^\| (?:\[(?P<linked>[^\]]+)\]\((?P<page>[\w/]+)\.ipynb\)|(?P<name>[^|]+?)) \| ([^|]+) \| ([^|]+) \|$", re.M
)


def test_every_artefact_has_a_row_with_its_words(readme, frame):
    rows = [m for m in ROW.finditer(readme.artefacts(frame)) if m["name"] != "figure or table" and m["name"] != "---"]
    known = experiments.artefacts()
    assert [m["linked"] or m["name"] for m in rows] == known.artefact.tolist()
    for row, artefact in zip(rows, known.itertuples(), strict=True):
        words = frame[(frame.source == artefact.source) & (frame.artefact == artefact.artefact)].word
        found = re.findall(r"(?:(\d+) )?([a-z ]+?)(?:, |$)", row[5])
        assert sorted(word for count, word in found for _ in range(int(count or 1))) == sorted(words)
        if not (words == findings.MISSING).all():
            assert row["page"], f"{artefact.artefact} is measured, and no chapter shows it"
            assert (ROOT / f"book/{row['page']}.ipynb").is_file()


def test_titles_count_what_is_measured(readme, frame):
    titles = re.findall(r"^:::\{dropdown\} .*: (\d+) of (\d+) measured$", readme.artefacts(frame), re.MULTILINE)
    assert [tuple(map(int, found)) for found in titles] == [tuple(row) for row in reports.coverage(frame).to_numpy()]


def test_parts_of_a_page_are_written_where_they_belong(readme, monkeypatch, tmp_path):
    end = "<!-- end of results -->\n"
    text = f"a\n<!-- results of one: x -->\nold\n{end}b\n<!-- results of two: x -->\n{end}"
    (tmp_path / "page.md").write_text(text, encoding="utf-8")
    monkeypatch.setattr(readme, "ROOT", tmp_path)
    monkeypatch.setattr(readme, "TEXTS", {"page.md": lambda: {"one": "first\n", "two": "second\n"}})
    assert readme.main(["--check"]) == 1 and readme.main([]) == 0 and readme.main(["--check"]) == 0
    lines = (tmp_path / "page.md").read_text(encoding="utf-8").splitlines()
    assert [lines[2], lines[6]] == ["first", "second"]
