"""The page of all claims: every figure and table once, with its verdicts and the page that shows it."""

import importlib
import re
import sys

import pytest

from gpumf_study import experiments, findings
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


def test_every_figure_and_table_has_a_row_with_its_verdicts(readme, frame):
    rows = [m for m in ROW.finditer(readme.artefacts(frame)) if m["name"] != "figure or table" and m["name"] != "---"]
    known = experiments.artefacts()
    assert [m["linked"] or m["name"] for m in rows] == known.artefact.tolist()
    for row, artefact in zip(rows, known.itertuples(), strict=True):
        words = frame[(frame.source == artefact.source) & (frame.artefact == artefact.artefact)].word
        verdicts = words.map(readme.VERDICTS)
        found = re.findall(r"(?:(\d+) )?([a-z ]+?)(?:, |$)", row[5])
        assert sorted(word for count, word in found for _ in range(int(count or 1))) == sorted(verdicts)
        if not (words == findings.MISSING).all():
            assert row["page"], f"{artefact.artefact} is measured, and no chapter shows it"
            assert (ROOT / f"book/{row['page']}.ipynb").is_file()


def test_every_claim_has_a_row_and_no_goal_has_one(readme, frame):
    text = readme.claims(frame)
    claims = frame[frame.word.isin(readme.VERDICTS)]
    assert text.count("\n| ") == len(claims) + 2 * 6 and len(claims) > 200
    for statement in claims.statement:
        assert statement.replace(" | ", ", ") in text


def test_counts_of_verdicts_add_up(readme, frame):
    rows = [line.split("|")[2:-1] for line in readme.counts(frame).splitlines()[2:] if line]
    for row, source in zip(rows, readme.TITLES, strict=True):
        assert sum(map(int, row[1:])) == (frame.source == source).sum()
        assert re.fullmatch(r" (\d+) of (\d+) ", row[0])
