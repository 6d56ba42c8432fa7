"""What is printed and kept of findings: the table, the counts, what is stale."""

import subprocess

import pandas as pd
import pytest

from gpumf import dependencies, experiments, findings, reports, results
from support import ROOT


def test_the_recorded_table_is_current():
    stored = pd.read_csv(ROOT / "data/results/findings.csv")
    computed = findings.table(experiments.findings())
    assert list(stored) == findings.COLUMNS
    # Whether a result's code has changed depends on the tree, not on the results.
    text = reports.as_csv(computed.drop(columns="current"))
    assert reports.as_csv(stored.drop(columns="current")) == text, "run `make findings`"
    assert set(stored.word) <= set(findings.WORDS)
    words = stored.set_index("id").word
    for experiment, of in experiments.findings():
        found = experiment and all(results.recorded(experiment, device) for device in of.devices)
        assert (words[of.id] != findings.MISSING) == bool(found), of.id


def test_coverage_counts_artefacts_and_not_findings():
    frame = pd.DataFrame(
        [("thesis", "Figure 6.7", "tie"), ("thesis", "Figure 6.7", "short"), ("esgd", "Table 2", "missing")],
        columns=["source", "artefact", "word"],
    )
    counts = reports.coverage(frame)
    assert counts.measured.to_dict() == {"thesis": 1, "cu2rec": 0, "cumf": 0, "newgpusgd": 0, "esgd": 0}
    assert counts.artefacts.to_dict() == {"thesis": 21, "cu2rec": 4, "cumf": 10, "newgpusgd": 5, "esgd": 4}


def test_a_row_is_shown_with_its_spread_its_unit_and_what_was_promised(store):
    store(
        "sgd_cu2rec", pd.DataFrame({"data": "ml-10m-twin", "factors": 50, "steps": 3000, "seconds": [0.1, 0.2, 0.3]})
    )
    row = reports.overview("sgd-cu2rec50").loc["sgd-cu2rec50-seconds"]
    assert row.measured == "0.2 ± 0.1 s" and row.promised == "target 0.3, stretch 0.1" and row.word == "target"
    assert reports.overview(source="esgd", artefact="Table 2").word.to_list() == ["missing"]
    with pytest.raises(ValueError, match="no findings whose ids begin with 'nothing'"):
        reports.overview("nothing")


def test_what_is_stale_is_listed_with_what_has_changed(store, monkeypatch, capsys):
    store("theoretical_flops", pd.DataFrame({"a": [1]}), code={"run": "of another day"})
    reports._changed.cache_clear()
    monkeypatch.setattr(dependencies, "code", lambda name: {"run": "today"})
    assert reports.main(["stale"]) == 0
    assert capsys.readouterr().out == f"data/results/{results.REFERENCE}/thesis/theoretical_flops.csv: run\n"
    monkeypatch.setattr(reports, "stale", lambda: {"many.csv": list("abcdef"), "none.csv": None})
    assert reports.main(["stale"]) == 0
    assert capsys.readouterr().out == "many.csv: a, b, c, d and 2 more\nnone.csv: no one can tell\n"
    reports._changed.cache_clear()
    assert reports.main([]) == 2 and "usage" in capsys.readouterr().err


def test_make_records_one_experiment_or_all():
    def commands(*arguments):
        make = ["make", "--dry-run", "PYTHON=python3", *arguments]
        return subprocess.run(make, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert "-m gpumf.experiments als_netflix --profile full --record" in commands("record", "NAME=als_netflix")
    assert "book/build.py --record" in commands("record")
