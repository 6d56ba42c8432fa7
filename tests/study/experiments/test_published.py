"""The published values."""

from pathlib import Path

import pandas as pd

from gpumf_study import experiments
from gpumf_study.experiments import _published


def test_published_values_are_found_for_parts_and_synthetic_sets():
    assert _published.value("Table 6.3", "speed-up", "jester-synthetic", "ALS") == 131.3
    assert _published.threshold("douban-synthetic") == 0.5732 and _published.threshold("ml-100k") is None


def test_published_values_are_told_apart_and_of_all_five_sources():
    table = experiments._published.table()
    assert set(table.source) == set(experiments.SOURCES) - {"gpumf"}
    assert not table.duplicated(["source", "figure_or_table", "data", "model", "quantity"]).any()
    assert table[["source", "figure_or_table", "section", "value"]].notna().all(axis=None)
    value = experiments._published.value
    assert value("Table 2", "least error", "ml-1m", source="esgd") == 0.8991
    assert value("Table 4", "time to the acceptable error", "hugewiki", "cuMF_ALS, Pascal", "cumf") == 68


def test_a_second_transcription_has_the_same_values():
    """`published_again.csv` was compared with the texts of the publications by itself: a slip in one file shows."""
    again = pd.read_csv(Path(__file__).with_name("published_again.csv"))
    pd.testing.assert_frame_equal(_published.table()[list(again)], again)
