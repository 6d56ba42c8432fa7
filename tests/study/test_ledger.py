"""What is printed and kept of claims: the table and the counts."""

import subprocess

import numpy as np
import pandas as pd
import pytest

from gpumf_study import claims, experiments, ledger
from support import ROOT

STORED = pd.read_csv(ROOT / "data/results/claims.csv")
CLAIMED = experiments.claims()


def test_all_claims_are_recorded():
    assert list(STORED) == claims.COLUMNS and list(STORED.id) == [of.id for _, of in CLAIMED], "run `make claims`"
    assert set(STORED.verdict) <= set(claims.VERDICTS)


@pytest.mark.parametrize("name", sorted({name for name, _ in CLAIMED}))
def test_the_recorded_claims_of_an_experiment_are_current(name):
    of = [pair for pair in CLAIMED if pair[0] == name]
    stored = STORED[STORED.id.isin([claim.id for _, claim in of])]
    assert ledger.as_csv(stored) == ledger.as_csv(claims.table(of)), "run `make claims`"


def test_coverage_counts_figures_and_tables_and_not_claims():
    rows = [("thesis", "Figure 6.7", "inconclusive"), ("thesis", "Figure 6.7", "replicated")]
    rows += [("thesis", "Figure 6.8", "replicated"), ("thesis", "Figure 6.8", "missing")]
    rows += [("thesis", "Table 6.1", "not evidence"), ("esgd", "Table 2", "not testable")]
    rows += [("esgd", "Table 1", "measured"), ("esgd", "Figure 5", "missing"), ("esgd", "Section 7", "replicated")]
    counts = ledger.coverage(pd.DataFrame(rows, columns=["publication", "figure_or_table", "verdict"]))
    assert counts.measured.to_dict() == {"thesis": 1, "cu2rec": 0, "cumf": 0, "newgpusgd": 0, "esgd": 1}
    assert counts.partly.to_dict() == {"thesis": 1, "cu2rec": 0, "cumf": 0, "newgpusgd": 0, "esgd": 0}
    assert counts.listed.to_dict() == {"thesis": 21, "cu2rec": 4, "cumf": 10, "newgpusgd": 5, "esgd": 4}


def test_claims_that_two_releases_measured_are_compared(tmp_path, monkeypatch):
    def rows(commit, *intervals):
        named = [("same", commit), ("moved", commit), ("open", commit), ("not again", "old"), ("other", commit)]
        frame = pd.DataFrame(named, columns=["id", "commit"]).assign(low=1.0, high=2.0, statement="A claim.")
        frame.loc[1, ["low", "high"]] = intervals
        frame.loc[2, "high"] = np.nan
        frame.loc[4, "statement"] = f"As of {commit}."
        return frame

    folder = tmp_path / "data/results"
    folder.mkdir(parents=True)
    monkeypatch.setattr(ledger.results, "repository", lambda: tmp_path)
    rows("old", 1.0, 2.0).to_csv(folder / f"claims-{ledger.BEFORE}.csv", index=False)
    for intervals, apart in (((1.9, 3.0), False), ((2.1, 3.0), True), ((0.1, 0.9), True)):
        rows("new", *intervals).to_csv(folder / "claims.csv", index=False)
        found = ledger.repeated().set_index("id")
        assert found.apart.to_dict() == {"same": False, "moved": apart}
        assert (found.low_before == 1.0).all() and found.low["moved"] == intervals[0]


def test_make_records_one_experiment_or_all():
    def commands(*arguments):
        make = ["make", "--dry-run", "PYTHON=python3", *arguments]
        return subprocess.run(make, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert "-m gpumf_study.experiments als_netflix --profile full --record" in commands("record", "NAME=als_netflix")
    assert "-m gpumf_study.release --minutes 9" in commands("record", "ARGS=--minutes 9")
