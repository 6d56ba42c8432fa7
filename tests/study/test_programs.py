"""The table of other programs: both numbers from one result, their ratio, and what is not measured yet."""

import numpy as np
import pandas as pd
import pytest

from gpumf_study import benchmarks, experiments, programs, results
from gpumf_study.programs import Comparison

TIMES = pd.DataFrame(
    {"model": ["theirs"] * 3 + ["ours"] * 3, "seconds": [8.0, 8.0, 8.0, 1.0, 2.0, 4.0], "repeat": [0, 1, 2] * 2}
)


def made(experiment):
    return Comparison("it", "fit", "some", *programs._both(experiment, {"model": "theirs"}, {"model": "ours"}))


@pytest.fixture
def timing(store, monkeypatch):
    monkeypatch.setattr(results, "reference", lambda name: results.REFERENCES[0])
    store("timing", TIMES)


def test_a_row_has_both_numbers_their_ratio_and_its_interval(timing):
    row = made("timing").row()
    assert (row["theirs"], row["ours"], row["n"], row["on"]) == (8.0, 2.0, 3, "a GPU")
    assert row["ratio"] == pytest.approx(4.0) and row["low"] < 4 < row["high"]
    assert row["experiment"] == "timing"


def test_what_is_not_recorded_is_in_the_other_table(timing, monkeypatch):
    monkeypatch.setattr(programs, "ROWS", [made("timing"), made("never")])
    table = programs.table()
    assert np.array_equal(table.ratio.isna(), [False, True])
    shown = programs.shown(table).data
    assert shown["theirs / ours"].str.match(r"4 \(\d.* to \d.*\)").tolist() == [True, False]
    one = programs.shown(table.assign(low=np.nan, high=np.nan)).data
    assert one["theirs / ours"].tolist() == ["4", "not measured"], "one repeat has no interval"
    assert shown.ours.tolist() == ["2.00 s", ""] and shown.on[1] == ""


def test_rows_are_of_experiments_that_there_are():
    for row in programs.ROWS:
        assert row.theirs.experiment == row.ours.experiment and row.ours.experiment in experiments.names()
        assert row.theirs.table is None or hasattr(experiments.module(row.ours.experiment), row.theirs.table)
    labels = [(row.program, row.task) for row in programs.ROWS]
    assert len(set(labels)) == len(labels)


def test_what_is_recorded_has_rows_of_both():
    """No row asks a stored result for something that it has not."""
    table = programs.table()
    assert table.ratio.notna().any() and (table.dropna(subset="ratio").ours > 0).all()


def test_a_table_without_rows_is_as_good_as_no_result(store, monkeypatch):
    monkeypatch.setattr(results, "reference", lambda name: results.REFERENCES[0])
    store("peers_als", TIMES.assign(device="cuda", factors=64, solver="cg", x_iterations=1))
    with pytest.raises(results.NoResult, match="of_equal_steps"):
        benchmarks.Stored("peers_als", "seconds", table="of_equal_steps").values()
