"""A model as an estimator of scikit-learn, which `Pipeline`, `GridSearchCV` and its other tools take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from gpumf.ratings.checks import array_of

try:
    from sklearn.base import BaseEstimator, RegressorMixin, clone
    from sklearn.utils.validation import check_is_fitted
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "gpumf.sklearn needs scikit-learn; install it with: pip install scikit-learn", name=error.name
    ) from error

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from gpumf.models import Model


class RatingRegressor(RegressorMixin, BaseEstimator):
    """Predicts the ratings y of pairs X of a user and an item, by a model of gpumf.

    Methods are as scikit-learn has them: `fit(X, y)`, `predict(X)`, and `score(X, y)`, which is R^2. Those of the
    model stay: its `fit` takes ratings, its `score` gives errors. Its parameters are `model__factors` and so on.

    Parameters
    ----------
    model : Model, not fitted; it stays as it is
    epochs : int, by default that of the model's `fit`

    Attributes
    ----------
    model_ : the fitted copy of the model, which recommends

    >>> from gpumf import ALS
    >>> from gpumf.sklearn import RatingRegressor
    >>> pairs, ratings = [["ann", "up"], ["ann", "heat"], ["bob", "up"], ["eve", "heat"]], [5, 2, 4, 3]
    >>> estimator = RatingRegressor(ALS(2, device="cpu"), epochs=3).fit(pairs, ratings)
    >>> estimator.predict([["bob", "heat"], ["stranger", "heat"]]).shape
    (2,)
    """

    def __init__(self, model: Model, epochs: int | None = None) -> None:
        self.model, self.epochs = model, epochs

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train on pairs X, (n, 2), or a data frame of two columns, and ratings y, (n,).

        Raises
        ------
        ValueError : X of another shape; otherwise as of `gpumf.models.Model.fit`
        """
        model = clone(self.model)
        self.model_ = model.fit((*_columns(X), array_of(y, "y")), model._epochs_or_default(self.epochs))
        return self

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Predicted ratings, float32 (n,), of pairs X; the mean of the training ratings where one is not known."""
        check_is_fitted(self)
        model, places = self.model_, []
        for side, given, count in zip(("user", "item"), _columns(X), self.model_._shape, strict=True):
            places.append(model._places(given, getattr(model, f"{side}_ids"), count, side))
        known = (places[0] >= 0) & (places[1] >= 0)
        predicted = np.full(len(known), model.mean, np.float32)
        predicted[known] = model.predict(*(side[known] for side in places), ids=False)
        return predicted


def _columns(pairs: Any) -> list[np.ndarray]:
    """(users, items) of an (n, 2) array or a data frame."""
    frame = hasattr(pairs, "iloc")
    if not (frame or isinstance(pairs, np.ndarray)):
        pairs = np.asarray(pairs, object)  # as an array of str, [7, "up"] would have the id "7"
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise ValueError(f"X must be pairs of a user and an item, (n, 2), not {pairs.shape}")
    columns = [(pairs.iloc[:, k] if frame else pairs[:, k]) for k in range(2)]
    return [column.to_numpy() if frame else column for column in columns]
