"""Where SGD is sooner than ALS."""

import pandas as pd
import pytest

from gpumf import figure_style as style
from gpumf.experiments.thesis import crossover
from outcomes import assert_drawn, word


def mapped():
    """Two parts of a set: with few ratings of a row SGD is sooner from 16 factors on, with many from 64."""
    rows = []
    for nnz, first in ((1000, 16), (10_000, 64)):
        for factors in (8, 16, 32, 64):
            for model in ("ALS", "SGD"):
                seconds = 1.0 if model == "ALS" else 2.0 if factors < first else 0.5
                rows.append(("a", nnz / 1e4, 50, 50, nnz, "fastest", model, factors, 0, seconds, 0.7))
    columns = ["data", "density", "n_users", "n_items", "nnz", "pair", "model", "factors", "repeat", "seconds"]
    return pd.DataFrame(rows, columns=[*columns, "mae"])


def test_the_crossover_is_where_sgd_stays_ahead():
    table = crossover.summary(mapped())
    assert list(table.ratio) == [2, 0.5, 0.5, 0.5, 2, 2, 2, 0.5] and set(table.row_ratings) == {10, 100}
    assert list(crossover.crossings(mapped(), "fastest").factors) == [16, 64]


def test_settings_with_few_ratings_of_a_row_are_timed_to_the_same_error():
    grid = {"factors": [4], "regularization": [0.1], "learning_rate": [0.02], "epochs": {"ALS": 3, "SGD": 10}}
    frame = crossover.run({"ml-100k-twin": [0.05]}, **grid, repeats=1)
    assert set(frame.model) == {"ALS", "SGD"} and frame.level.nunique() == 1
    assert frame.seconds.notna().any() and (frame.mae <= frame.level)[frame.seconds.notna()].all()


def test_a_figure_of_a_live_result_is_not_saved(store, repository):
    for live in (True, False):
        result = store("crossover", mapped(), live=live)
        style.save(crossover.figure(result.frame), result)
        assert (repository / "figures/thesis/crossover.svg").exists() is not live


@pytest.mark.parametrize(
    ("name", "frame", "expected"),
    [
        ("thesis-sgd-or-als", mapped(), "answered"),
    ],
)
def test_a_word_follows_from_the_numbers(name, frame, expected):
    assert word(name, frame) == expected


def test_the_figure_says_where_it_was_measured_and_what_its_axes_are(store):
    result = store("crossover", mapped())
    assert_drawn(crossover.figure(result.frame), result, 1)
