"""ALS on fewer ratings."""

import numpy as np
import pandas as pd
import pytest

from gpumf_study.experiments.thesis import parameter_search, sparsity
from outcomes import assert_drawn
from support import ragged_ratings


def thinned(worse=True, apart=0.001):
    """Two repeats of ALS whose best lambda doubles, and whose error grows or shrinks, as the density halves.

    apart : their errors on the test set
    """
    rows = []
    for repeat in (0, 1):
        for k, density in enumerate((0.45, 0.2, 0.01)):
            for regularization in (0.05, 0.1, 0.2):
                off = abs(np.log2(regularization / 0.05) - (k if worse else 0))
                mae = 0.7 + 0.05 * (k if worse else -k) + 0.01 * off + apart * repeat
                run = density, repeat, regularization, 50, 10 + 15 * k
                rows.append(("jester-1", "ALS", "choice", *run, mae - 0.2))
                if off == 0:
                    rows.append(("jester-1", "ALS", "test", *run, mae))
    columns = ["data", "model", "x_step", "x_density", "repeat", "x_regularization", "x_epochs", "epoch", "value"]
    return pd.DataFrame(rows, columns=columns).assign(metric="mae")


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
    found = {claim.id: claim.estimate(thinned()).value for claim in sparsity.CLAIMS}
    assert found == {"thesis-fig-6.5": 4, "thesis-fig-6.6": pytest.approx(0.8005 / 0.7005)}


def test_the_figure_says_where_it_was_measured_and_what_its_axes_are(store):
    result = store("sparsity", thinned())
    assert_drawn(sparsity.figure(result.frame), result, 2)
