"""What is printed and kept of findings: the table and the counts."""

import subprocess

import pandas as pd

from gpumf_study import claims, experiments, findings, reports, results
from gpumf_study.claims import Claim
from support import ROOT


def test_the_recorded_table_is_current():
    stored = pd.read_csv(ROOT / "data/results/findings.csv")
    computed = findings.table(experiments.findings())
    assert list(stored) == findings.COLUMNS
    assert reports.as_csv(stored) == reports.as_csv(computed), "run `make findings`"
    assert set(stored.word) <= set(findings.WORDS)
    words = stored.set_index("id").word
    for experiment, of in experiments.findings():
        if words[of.id] == "not testable":
            continue
        if isinstance(of, Claim):
            continue
        found = [experiment and results.recorded(experiment, device) for device in of.devices or [None]]
        measured = all(found) and pd.notna(of.value(*(result.frame for result in found))[0])
        assert (words[of.id] != findings.MISSING) == bool(measured), of.id


def test_the_recorded_claims_are_current():
    stored = pd.read_csv(ROOT / "data/results/claims.csv")
    assert list(stored) == claims.COLUMNS
    assert reports.as_csv(stored) == reports.as_csv(claims.table(reports.claimed())), "run `make findings`"
    assert set(stored.verdict) <= set(claims.VERDICTS)


def test_coverage_counts_artefacts_and_not_findings():
    frame = pd.DataFrame(
        [("thesis", "Figure 6.7", "tie"), ("thesis", "Figure 6.7", "short"), ("esgd", "Table 2", "missing")],
        columns=["source", "artefact", "word"],
    )
    counts = reports.coverage(frame)
    assert counts.measured.to_dict() == {"thesis": 1, "cu2rec": 0, "cumf": 0, "newgpusgd": 0, "esgd": 0}
    assert counts.artefacts.to_dict() == {"thesis": 21, "cu2rec": 4, "cumf": 10, "newgpusgd": 5, "esgd": 4}


def test_make_records_one_experiment_or_all():
    def commands(*arguments):
        make = ["make", "--dry-run", "PYTHON=python3", *arguments]
        return subprocess.run(make, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert "-m gpumf_study.experiments als_netflix --profile full --record" in commands("record", "NAME=als_netflix")
    assert "-m gpumf_study.release --minutes 9" in commands("record", "ARGS=--minutes 9")


def test_what_cannot_be_tested_is_not_measured():
    rows = [("esgd", "Table 1", "reproduced"), ("esgd", "Table 2", "not testable"), ("esgd", "Figure 5", "missing")]
    counts = reports.coverage(pd.DataFrame(rows, columns=["source", "artefact", "word"]))
    assert counts.measured["esgd"] == 1 and counts.artefacts["esgd"] == 4


def test_an_experiment_is_shown_recorded_and_live_as_far_as_there_is_either(monkeypatch):
    monkeypatch.setattr(reports.results, "recorded", lambda name: {"both": "recorded"}.get(name))
    monkeypatch.setattr(reports.experiments, "why_unavailable", lambda name: "no GPU" if name == "none" else None)
    monkeypatch.setattr(reports.experiments, "run", lambda name, profile: f"live {profile}")
    assert reports.found("both", "quick") == ["recorded", "live quick"]
    assert reports.found("live", "smoke") == ["live smoke"] and reports.found("none", "quick") == []


def test_a_rating_and_what_has_no_unit_are_shown_without_one():
    row = {"value": 2.0, "low": 2.0, "high": 2.0, "published": 3.0, "target": None, "stretch": None, "word": "tie"}
    for unit, shown in (("rating", "2"), (None, "2"), (float("nan"), "2"), ("s", "2 s")):
        texts = reports.formatted(pd.Series({**row, "unit": unit}))
        assert texts == {"measured": shown, "promised": "published 3", "word": "tie"}
