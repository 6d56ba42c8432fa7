"""Models in the hands of scikit-learn."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from gpumf import ALS, RBM, SGD, BayesianMF, ImplicitALS
from gpumf.sklearn import RatingRegressor
from support import planted, ragged_ratings

TRAIN, TEST = planted(30, 20, 0.1)
FOLDS = KFold(3, shuffle=True, random_state=0)
X, Y = np.stack([TRAIN.users, TRAIN.items], axis=1), TRAIN.values


def test_search_and_pipelines_train_models():
    estimator = RatingRegressor(ALS(2, device="cpu"), epochs=3)
    found = GridSearchCV(estimator, {"model__factors": [1, 3], "epochs": [1, 8]}, cv=FOLDS).fit(X, Y)
    assert found.best_params_ == {"epochs": 8, "model__factors": 3} and found.best_score_ > 0.5
    assert estimator.model.history is None and found.best_estimator_.model_.factors == 3
    pipe = Pipeline([("model", estimator)]).fit(X, Y)
    assert pipe.score(X, Y) > 0.5
    assert (cross_val_score(estimator, X, Y, cv=FOLDS, scoring="neg_root_mean_squared_error") < 0).all()


def test_predictions_are_those_of_the_model():
    names = np.array([f"i{k:02}" for k in range(20)], object)
    frame = pd.DataFrame({"who": TRAIN.users + 7, "what": names[TRAIN.items]})
    estimator = RatingRegressor(SGD(2, solver="sequential"), 2).fit(frame, Y)
    wanted = estimator.model_.predict([7, 8], ["i00", "i01"])
    pairs = pd.DataFrame({"who": [7, 8, 7, 999], "what": ["i00", "i01", "none", "i00"]})
    found = estimator.predict(pairs)
    assert found[:2].tolist() == wanted.tolist() and found[2:] == pytest.approx(Y.mean())
    assert estimator.predict(pairs.values.tolist()).tolist() == found.tolist(), "7 stays a number beside a name"
    with pytest.raises(ValueError, match="pairs"):
        estimator.predict([[1, 2, 3]])


@pytest.mark.parametrize("kind", [ALS, ImplicitALS, SGD, RBM, BayesianMF])
def test_models_are_cloned_and_checked(kind):
    model = kind(4, device="cpu", seed=2)
    copy = clone(model)
    assert copy is not model and copy.get_params() == model.get_params()
    for unfitted in (model, RatingRegressor(model)):
        with pytest.raises(NotFittedError):
            check_is_fitted(unfitted)
    check_is_fitted(model.fit(ragged_ratings(seed=1), 1))


def test_without_scikit_learn_the_error_says_what_to_install():
    code = "import sys; sys.modules['sklearn'] = None; import gpumf.sklearn"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1 and "ModuleNotFoundError: gpumf.sklearn needs scikit-learn; install" in done.stderr


def test_strings_of_numpys_own_type_are_those_of_fit():
    pairs = np.array([["ann", "up"], ["ann", "heat"], ["bob", "up"], ["eve", "heat"]], dtype=np.dtypes.StringDType())
    made = RatingRegressor(ALS(2, device="cpu"), 3).fit(pairs, [5, 2, 4, 3])
    assert np.ptp(made.predict(pairs)) > 0
    assert np.array_equal(made.predict(pairs), made.predict(pairs.astype(object)))


def test_masked_ratings_are_refused():
    with pytest.raises(ValueError, match="y are masked"):
        RatingRegressor(ALS(2, device="cpu"), 1).fit([["a", "x"], ["b", "y"]], np.ma.array([1, 999], mask=[0, 1]))
