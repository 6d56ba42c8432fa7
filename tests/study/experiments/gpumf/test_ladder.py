"""A decade in seconds."""

import pandas as pd
import pytest

from gpumf_study import results
from gpumf_study.experiments.cumf import cumf_convergence
from gpumf_study.experiments.gpumf import _ladder
from outcomes import assert_whole


def test_rungs_are_what_was_stated_and_what_was_recorded():
    table = _ladder.table()
    assert list(table) == _ladder.COLUMNS and set(table.kind) == set(_ladder.KINDS)
    tasks = table.groupby("task", sort=False)
    assert len(tasks) == 5 and all("published" in set(kinds) and len(set(kinds)) > 1 for _, kinds in tasks.kind)
    netflix = table[table.task == "Netflix, to RMSE 0.92"]
    assert netflix.train[netflix.kind == "published"].to_list() == [28.0, 6.5, 3.3]
    times = cumf_convergence.medians(results.load("cumf_convergence").frame).loc["netflix-synthetic"]
    (same,), (ours,) = (netflix[netflix.kind == kind].itertuples() for kind in ("same", "ours"))
    assert (same.train, same.wall) == tuple(times.loc["ALS", same.who][["train", "wall"]])
    of_ours = times.loc[[("ALS", "tensor_core"), ("SGD", "fast")]].train
    assert ours.train == of_ours.min() and of_ours.idxmin()[1] == ours.who
    assert table.train.gt(0).all() and table.wall.dropna().gt(0).all()


def test_hugewiki_takes_the_iterations_until_the_acceptable_error(monkeypatch, stored):
    rows = [("iteration", k, s, rmse) for k, s, rmse in ((1, 1.0, 0.6), (2, 2.0, 0.52), (3, 4.0, 0.5))]
    frame = pd.DataFrame(rows, columns=["step", "iteration", "seconds", "rmse"])
    monkeypatch.setattr(
        _ladder.als_hugewiki, "summary", lambda f: f.set_index("iteration").assign(iteration=f.seconds.to_numpy())
    )
    result = stored(frame, name="als_hugewiki")
    result.provenance["gpu"] = "a GPU"
    monkeypatch.setattr(results, "recorded", lambda name: result if name == "als_hugewiki" else None)
    table = _ladder.table()
    assert table.train[table.kind == "ours"].to_list() == [3.0] and "same" not in set(table.kind)


def test_the_ladder_is_drawn_with_its_seconds():
    table = _ladder.table()
    figure = _ladder.figure(table)
    assert_whole(figure)
    (axis,) = figure.axes
    assert {text.get_text() for text in axis.get_yticklabels()} == set(table.task)
    drawn = [x for line in axis.lines for x in line.get_xdata()]
    assert sorted(drawn) == pytest.approx(sorted(table.train))
