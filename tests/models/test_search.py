"""Parameters are read, changed and compared; training ends early with the best epoch kept."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import coo_array

from gpumf import ALS, RBM, SGD, ImplicitALS, cross_validate
from gpumf.models.early_stopping import Ending
from gpumf.ratings import Ratings
from gpumf.solvers import schedules
from support import ragged_ratings

RATINGS = ragged_ratings(n_users=30, n_items=20, longest=12, seed=4)
MODELS = [
    ALS(3, regularization=0.2, device="cpu"),
    ImplicitALS(alpha=2.0, device="cpu"),
    SGD(4, schedule=schedules.Power(0.3, 0.7), device="cpu"),
    SGD(4, solver="ordered", device="cpu", seed=3),
    RBM(5, gibbs_steps=((0, 1), (2, 3)), device="cpu"),
]
EACH = pytest.mark.parametrize("model", MODELS, ids=repr)


@EACH
def test_parameters_make_an_equal_model(model):
    parameters = model.get_params()
    again = type(model)(**parameters)
    assert all(again.get_params()[name] is value for name, value in parameters.items())
    assert again._parameters == model._parameters and repr(again).startswith(type(model).__name__)
    assert eval(repr(model), vars(schedules) | {type(model).__name__: type(model)})._parameters == model._parameters


def test_parameters_are_changed_or_refused_as_a_whole():
    model = ALS(3, device="cpu").fit(RATINGS, 1)
    with pytest.raises(ValueError, match="factors"):
        model.set_params(regularization=0.5, factors=0)
    with pytest.raises(TypeError, match="size"):
        model.set_params(size=3)
    assert model.factors == 3 and model.history is not None
    assert model.set_params(factors=5) is model and model.factors == 5 and model.history is None
    assert repr(model) == "ALS(factors=5, device='cpu')"


def test_no_seed_is_a_fresh_one_that_is_known():
    a, b = (ALS(3, seed=None, device="cpu") for _ in range(2))
    assert a.seed != b.seed and a.get_params()["seed"] is None
    same = ALS(3, seed=a.seed, device="cpu").fit(RATINGS, 1)
    assert np.array_equal(a.fit(RATINGS, 1).user_factors, same.user_factors)


def test_training_ends_after_epochs_without_a_better_one():
    train, test = RATINGS.split(0.3, seed=1)
    rows, model = [], SGD(8, 0, learning_rate=0.1, solver="sequential", device="cpu")
    model.fit(train, 99, test, keep="best", patience=3, callbacks=[lambda _, row: rows.append(row)])
    assert [row["epoch"] for row in rows] == model.history.epoch.to_list()[1:] and len(rows) < 99
    assert model.history.epoch.iloc[-1] - max(model.epoch, 1) == 3
    assert model.score(test)["rmse"] == pytest.approx(model.history.rmse.min(), rel=1e-6)


def test_every_rating_is_judged_once_and_the_model_stays():
    model = ALS(2, device="cpu")
    found = cross_validate(model, RATINGS.kfold(3), 2, ranking=True)
    assert found.split.to_list() == [0, 1, 2] and model.history is None
    train, test = next(RATINGS.kfold(3))
    fitted = ALS(2, device="cpu").fit(train, 2)
    assert found.rmse[0] == fitted.score(test)["rmse"] and found.ndcg[0] == fitted.evaluate_ranking(test)["ndcg"]
    assert len(cross_validate(model, RATINGS, 1)) == 5
    frame = pd.DataFrame({"user": RATINGS.users, "item": RATINGS.items, "rating": RATINGS.values})
    matrix = coo_array((RATINGS.values, (RATINGS.users, RATINGS.items)))
    for data, ratings in ((frame, Ratings.from_pandas(frame)), (matrix, Ratings.from_scipy(matrix))):
        assert cross_validate(model, data, 1).rmse.to_list() == cross_validate(model, ratings, 1).rmse.to_list()
    pair = RATINGS.split(0.2)
    assert cross_validate(model, pair, 1).rmse.to_list() == cross_validate(model, [pair], 1).rmse.to_list()


def test_splits_by_time_and_of_one_rating_a_user():
    timed = replace(RATINGS, times=np.random.default_rng(2).permutation(RATINGS.nnz))
    train, test = timed.split_by_time(0.25)
    assert test.nnz == round(0.25 * timed.nnz) and train.times.max() < test.times.min()
    for newest in (False, True):
        train, test = timed.leave_one_out(seed=3, newest=newest)
        assert np.array_equal(test.user_counts, timed.user_counts > 1) and train.nnz + test.nnz == timed.nnz
        if newest:
            last = [timed.times[timed.users == user].max() for user in test.users]
            assert np.array_equal(test.times, last)
    assert not np.array_equal(timed.leave_one_out(1)[1].items, timed.leave_one_out(2)[1].items)
    with pytest.raises(ValueError, match="two ratings"):
        Ratings([0, 1], [0, 1], [1, 2], 2, 2).leave_one_out()


def test_an_error_equal_to_the_least_is_no_improvement():
    ends = Ending(None, 2, (), "best").over
    assert [ends({"rmse": rmse}) for rmse in (1.0, 1.0, 1.0)] == [False, False, True]
    ends = Ending(None, 2, (), "best").over
    assert [ends({"rmse": rmse}) for rmse in (1.0, 1.0, 0.9, 0.9, 0.9)] == [False, False, False, False, True]
