"""Training that goes on: with new ratings, from a file, from another model."""

from dataclasses import replace

import numpy as np
import pytest

from gpumf import ALS, SGD
from gpumf.models import NotFittedError
from support import planted


def test_partial_fit_learns_new_ratings_users_and_items(device):
    kernel = "sequential" if device == "cpu" else "kato_hosino"
    (all_train, _) = planted(60, 50, 0.1)
    old = (all_train.users < 50) & (all_train.items < 45)
    before = all_train.select(old)
    before = replace(before, n_users=50, n_items=45, user_ids=None, item_ids=None)
    model = SGD(4, 0.01, biases=True, solver=kernel, device=device).fit(before, 8)
    new = all_train.select(~old)
    first, known = model.user_factors.copy(), all_train.select(old)
    error = SGD(4, 0.01, biases=True, solver=kernel, device=device).fit(new, 8).score(known)["rmse"]
    model.partial_fit(new, 8)
    assert model.user_factors.shape == (60, 6) and model.item_factors.shape == (50, 6)
    assert model.history.epoch.iloc[-1] == 16 and model.mean == before.mean
    assert model.score(new)["rmse"] < 0.6 * new.values.std() and model.score(known)["rmse"] < error
    without_new = np.setdiff1d(np.arange(50), new.users)
    assert np.array_equal(model.user_factors[without_new], first[without_new])
    seen = set(new.items[new.users == 3]) | set(before.items[before.users == 3])
    assert not seen & set(model.recommend(3, k=1000)[0])
    with pytest.raises(ValueError, match="only"):
        model.partial_fit(before)
    with pytest.raises(NotFittedError):
        SGD(4, solver="sequential", biases=False).partial_fit(new)


def test_sgd_goes_on_from_als():
    train, test = planted(60, 50, 0.3)
    als = ALS(4, 0.02, solver="sequential", biases=False).fit(train, 3, test)
    model = SGD.from_model(als, regularization=0.01, solver="sequential")
    assert model.score(test) == als.score(test)
    model.partial_fit(train, 3, test)
    assert list(model.history.epoch) == list(range(7)) and model.history.rmse.iloc[-1] < 1.1 * als.history.rmse.min()
    with pytest.raises(ValueError, match="biases"):
        SGD.from_model(als, biases=True, solver="sequential")


def test_biases_go_on_with_the_factors():
    train, test = planted(60, 50, 0.3)
    als = ALS(4, 0.02, biases=True, solver="sequential").fit(train, 3, test)
    model = SGD.from_model(als, solver="sequential")
    assert model.biases and model.score(test) == als.score(test)
    with pytest.raises(ValueError, match="biases"):
        SGD.from_model(als, biases=False, solver="sequential")
