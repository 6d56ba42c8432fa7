"""The decade of speed-ups is that of the tables that it is taken from."""

import pytest

from gpumf_study import results
from gpumf_study.experiments.thesis import _decade, speedups


@pytest.fixture
def frame():
    return results.load("speedups").frame


def test_what_is_published_and_measured_is_that_of_the_table(frame):
    summary = _decade.summary(frame).set_index(["data", "model"])
    table = speedups.table(frame).set_index(["data", "column", "mae"]).sort_index()
    assert summary.index.tolist() == [(data, model) for data in _decade.DATA for model in ("ALS", "SGD")]
    for (data, model), row in summary.iterrows():
        of_table = table.loc[data, "SGD, 128/128" if model == "SGD" else model].loc[row["mae"]]
        assert (row.published, row.same) == (of_table.published, of_table.speedup)
        assert row.ours >= row.same


def test_page_one_says_what_the_figure_shows(frame):
    summary = _decade.summary(frame).set_index(["model", "data"])
    assert (summary.same < summary.published).all()
    behind = summary[summary.ours < summary.published]
    assert behind.index.tolist() == [("SGD", "jester-synthetic")] and behind.version.tolist() == ["SGD, fast"]
    assert (behind.ours > behind.same).all()


def test_a_faster_version_becomes_ours(frame):
    before = _decade.summary(frame)
    of = (frame.data == "jester-synthetic") & (frame.version == "SGD, fast")
    frame.loc[of, "seconds"] /= 1000
    after = _decade.summary(frame)
    assert after.version.tolist() == [*before.version[:-1], "SGD, fast"]
    assert after.ours.iloc[-1] > 100 * before.ours.iloc[-1]
    assert after.drop(columns=["version", "ours"]).equals(before.drop(columns=["version", "ours"]))
