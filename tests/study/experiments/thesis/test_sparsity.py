"""ALS on fewer ratings."""

import numpy as np
import pandas as pd
import pytest

from gpumf_study.experiments.thesis import parameter_search, sparsity
from outcomes import assert_drawn, word
from support import ragged_ratings


def thinned(worse=True, apart=0.001):
    """Two repeats of ALS whose best lambda doubles, and whose error grows or shrinks, as the density halves.

    apart : their errors on the test set
    """
    rows = []
    for repeat in (0, 1):
        for k, density in enumerate((0.4, 0.2, 0.1)):
            for regularization in (0.05, 0.1, 0.2):
                off = abs(np.log2(regularization / 0.05) - (k if worse else 0))
                mae = 0.7 + 0.05 * (k if worse else -k) + 0.01 * off + apart * repeat
                run = density, repeat, regularization, 50, 10 + 15 * k
                rows.append(("jester-1", "ALS", "choice", *run, mae - 0.2))
                if off == 0:
                    rows.append(("jester-1", "ALS", "test", *run, mae))
    columns = ["data", "model", "step", "density", "repeat", "regularization", "epochs", "best_epoch", "mae"]
    return pd.DataFrame(rows, columns=columns)


def test_thinning_fills_the_share_that_was_asked_for():
    ratings = ragged_ratings(seed=0)
    part = sparsity.thinned(ratings, 0.1, seed=1)
    assert part.nnz == round(0.1 * ratings.n_users * ratings.n_items) and part.n_users == ratings.n_users
    assert sparsity.thinned(ratings, 0.999) is ratings
    few = parameter_search.first_users(ratings, 10)
    assert few.n_users == 10 and few.nnz == (ratings.users < 10).sum() and few.users.max() < 10


def test_each_repeat_has_a_best_lambda_of_its_own():
    table = sparsity.summary(thinned())
    assert list(table.regularization) == [0.2, 0.1, 0.05] and list(table.mae) == pytest.approx(
        [0.8005, 0.7505, 0.7005]
    )
    assert list(table.share_of_epochs) == pytest.approx([0.8, 0.5, 0.2])
    steep = sparsity.steepness(thinned())
    assert steep["regularization"] == 4 and steep["mae"] > 1 and steep["monotonous"]
    assert not sparsity.steepness(thinned(worse=False))["monotonous"]


@pytest.mark.parametrize(
    ("name", "frame", "expected"),
    [
        ("thesis-fig-6.5", thinned(), "reproduced"),
        ("thesis-fig-6.5", thinned(worse=False), "tie"),
        ("thesis-fig-6.6", thinned(), "reproduced"),
        ("thesis-fig-6.6", thinned(worse=False), "contradicted"),
        ("thesis-fig-6.6", thinned().drop(columns="step"), "missing"),
        ("thesis-fig-6.5-deviation", thinned(), "reproduced"),
        ("thesis-fig-6.6-deviation", thinned(apart=1e-4), "reproduced"),
        ("thesis-fig-6.6-deviation", thinned(apart=0.002), "tie"),
        ("thesis-fig-6.6-deviation", thinned(apart=0.1), "contradicted"),
    ],
)
def test_a_word_follows_from_the_numbers(name, frame, expected):
    assert word(name, frame) == expected


def test_the_figure_says_where_it_was_measured_and_what_its_axes_are(store):
    result = store("sparsity", thinned())
    assert_drawn(sparsity.figure(result.frame), result, 2)
