"""Several models' predictions in one: a convex combination whose weights are fitted on held-out ratings."""

import numpy as np

from gpumf.models.checks import NotFittedError
from gpumf.models.estimator import Model
from gpumf.models.ranking import PredictedRanking
from gpumf.models.recommender import Recommender


class Blend(Recommender):
    """Predicts the weighted mean of what fitted models predict; the weights are not negative and sum to one.

    Where models err differently, their mean errs less than any of them: the reason why restricted Boltzmann machines
    were combined with factorizations (thesis, sections 1 and 7.1). `recommend` and `rank` work on the CPU; a user
    whom none of the models knows gets the items with the most training ratings first.

    Parameters
    ----------
    *models : fitted models, or, but for `recommend` and `rank`, anything with their `predict`
    weights : one of each model, not negative, of sum one, where they are known, say from a blend of models that were
        trained on fewer ratings; else `fit` finds them

    Attributes
    ----------
    weights : float64 (models,), or None before `fit`

    Raises
    ------
    ValueError : no model; weights that are negative, do not sum to one or are not as many
    """

    device = "cpu"  # where items are ranked

    def __init__(self, *models, weights=None):
        if not models:
            raise ValueError("a blend needs at least one model")
        if weights is not None:
            weights = np.asarray(weights, np.float64)
            if weights.shape != (len(models),) or not (weights.min() >= 0 and np.isclose(weights.sum(), 1)):
                raise ValueError(f"weights must be {len(models)} numbers from 0 of sum 1, not {weights}")
        self.models, self.weights = models, weights

    def fit(self, held_out, metric="rmse"):
        """Find the weights with the least error on ratings that the models were not trained on.

        Parameters
        ----------
        held_out : Ratings
        metric : 'rmse' or 'mae'

        Returns
        -------
        self

        Raises
        ------
        ValueError : no ratings, predictions or ratings that are not finite
        """
        predictions = [model.predict(held_out.users, held_out.items) for model in self.models]
        self.weights = convex_weights(np.stack(predictions, axis=1), held_out.values, metric)
        return self

    def predict(self, users, items):
        """Predicted ratings, float32, for positions of users and items (broadcast against each other).

        Raises
        ------
        NotFittedError : the weights are not known
        """
        self._check_fitted()
        parts = (w * model.predict(users, items) for w, model in zip(self.weights, self.models, strict=True))
        return np.asarray(sum(parts), np.float32)

    def _check_fitted(self):
        if self.weights is None:
            raise NotFittedError("this Blend has no weights; call fit() first")

    def score(self, ratings):
        """Errors on a set of ratings, as {"rmse": ..., "mae": ...} in rating units; ValueError if there are none."""
        if ratings.nnz == 0:
            raise ValueError("there are no ratings to score on")
        errors = self.predict(ratings.users, ratings.items).astype(np.float64) - ratings.values
        return {"rmse": float(np.sqrt(np.mean(errors**2))), "mae": float(np.abs(errors).mean())}

    def _of_models(self, name):
        """An attribute of all models."""
        for model in self.models:
            if not isinstance(model, Model):
                raise TypeError(f"items are ranked by models of gpumf alone, not by {type(model).__name__}")
        return [getattr(model, name) for model in self.models]

    @property
    def _shape(self):
        shape, *others = self._of_models("_shape")
        if any(other != shape for other in others):
            raise ValueError(f"the models have other users or items than each other: {[shape, *others]}")
        return shape

    @property
    def _item_counts(self):
        return np.max(self._of_models("_item_counts"), axis=0)

    @property
    def _training(self):
        first, *others = self._of_models("_training")
        return first if all(other is first for other in others) else None

    def _personalized(self):
        return np.any([personalized() for personalized in self._of_models("_personalized")], axis=0)

    def _ranking_without(self, seen, k):
        return PredictedRanking(self.predict, self._shape, self._item_counts > 0, seen)


def convex_weights(predictions, values, metric="rmse"):
    """The w >= 0 of sum 1 with the least error of predictions w, exactly.

    Parameters
    ----------
    predictions : (n, models)
    values : (n,)
    metric : 'rmse' or 'mae'

    Returns
    -------
    float64 (models,)

    Raises
    ------
    ValueError : another metric; no ratings or models, arrays of other shapes, numbers that are not finite
    """
    if metric not in _WEIGHTS:
        raise ValueError(f"metric must be 'rmse' or 'mae', not {metric!r}")
    predictions, values = np.asarray(predictions, np.float64), np.asarray(values, np.float64)
    if predictions.ndim != 2 or values.shape != predictions.shape[:1] or not predictions.size:
        raise ValueError(
            f"weights need (n, models) predictions of n ratings, not {predictions.shape} of {values.shape}"
        )
    errors = predictions - values[:, None]
    if not np.isfinite(errors).all():
        raise ValueError("weights need predictions and ratings that are finite")
    weights = np.maximum(_WEIGHTS[metric](errors), 0)
    return weights / weights.sum()


def _least_squares(errors):
    """The minimum of |E w|, where E are the errors of the models, up to a factor.

    What minimises |E w|^2 + (1 - sum w)^2 over w >= 0 alone solves the same conditions of optimality up to a factor,
    and its sum is never zero: non-negative least squares suffice.
    """
    triangle = np.linalg.qr(errors / np.sqrt(len(errors)), mode="r")  # of the same length for every w
    system = np.vstack([triangle, np.ones(triangle.shape[1])])
    from scipy.optimize import nnls

    return nnls(system, np.append(np.zeros(len(triangle)), 1.0))[0]


def _least_absolute(errors):
    """The minimum of the sum of |E w|: a linear program in w and in bounds t of the absolute errors.

    Solved as its dual, which has one column a rating and only one row a model: the greatest z for which some y in
    [-1, 1] make E^T y >= z for every model. The weights are what its rows are worth.
    """
    from scipy.optimize import linprog

    n, models = errors.shape
    solved = linprog(
        np.append(np.zeros(n), -1.0),
        A_ub=np.hstack([-errors.T, np.ones((models, 1))]),
        b_ub=np.zeros(models),
        bounds=[(-1, 1)] * n + [(None, None)],
        method="highs-ds",
    )
    return -solved.ineqlin.marginals


_WEIGHTS = {"rmse": _least_squares, "mae": _least_absolute}
