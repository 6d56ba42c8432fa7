"""Biases are columns of the factors, learned or given."""

import numpy as np
import pytest

from gpumf import SGD
from gpumf.models.sgd import baseline_predictors
from gpumf.ratings import Ratings
from support import kernels_on, ragged_ratings


def test_biases_are_columns_of_the_factors(device):
    train, test = ragged_ratings(n_users=60, longest=30, seed=3).split(0.2)
    for kernel in kernels_on(SGD, device)[:1] if device == "cpu" else ["hogwild", "fast"]:
        fitted = SGD(6, biases=True, solver=kernel, device=device).fit(train, 3, test)
        p, q = fitted.user_factors, fitted.item_factors
        assert p.shape[1] == q.shape[1] == fitted.columns == 8
        assert (p[:, -1] == 1).all() and (q[:, -2] == 1).all()
        u, i = train.users[:50], train.items[:50]
        rating = train.mean + fitted.user_biases[u] + fitted.item_biases[i] + (p[u, :-2] * q[i, :-2]).sum(1)
        assert np.allclose(fitted.predict(u, i), rating, atol=1e-5)
        error = fitted.predict(test.users, test.items) - test.values
        assert fitted.history.mae.iloc[-1] == pytest.approx(np.abs(error).mean(), rel=1e-5)


def test_learned_biases_find_what_was_planted():
    rng = np.random.default_rng(0)
    of_user, of_item = rng.standard_normal(80), rng.standard_normal(60)
    users, items = (a.ravel() for a in np.indices((80, 60)))
    ratings = Ratings(users, items, 3 + of_user[users] + of_item[items], 80, 60)
    fitted = SGD(1, 0.001, biases=True, solver="sequential").fit(ratings, 60)
    assert np.corrcoef(fitted.user_biases, of_user)[0, 1] > 0.999
    assert np.corrcoef(fitted.item_biases, of_item)[0, 1] > 0.999


def test_baseline_predictors_are_the_published_means():
    ratings = ragged_ratings(n_users=9, n_items=7, longest=5, seed=2)
    of_user, of_item = baseline_predictors(ratings)
    rest = ratings.values - ratings.mean
    for u in range(9):
        assert of_user[u] == pytest.approx(rest[ratings.users == u].mean() if (ratings.users == u).any() else 0)
    rest = rest - of_user[ratings.users]
    for i in range(7):
        assert of_item[i] == pytest.approx(rest[ratings.items == i].mean() if (ratings.items == i).any() else 0)
    fitted = SGD(3, biases="baseline", solver="sequential").fit(ratings, 4)
    assert np.allclose(fitted.user_biases, of_user) and np.allclose(fitted.item_biases, of_item)
