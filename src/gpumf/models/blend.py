"""Several models' predictions in one: a convex combination whose weights are fitted on held-out ratings."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

import numpy as np

from gpumf._util.threads import obeys_threads
from gpumf._util.validation import brief, flag, integer
from gpumf.models import bayesian, rbm, sgd  # noqa: F401 - with them `load` knows all models
from gpumf.models.checks import NotFittedError
from gpumf.models.estimator import Model
from gpumf.models.factorization import Factorization, joined
from gpumf.models.ids import Identified, skips_unknown
from gpumf.models.once import Once
from gpumf.models.ranking import PredictedRanking
from gpumf.models.recommender import Recommender
from gpumf.models.solver_choice import check_device
from gpumf.models.storage import damage_of, read, write
from gpumf.ratings import CompressedRows, Ratings
from gpumf.ratings.convert import check_ids

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from gpumf.models.ids import Ids, Unknown
    from gpumf.models.solver_choice import Device
    from gpumf.ratings.convert import RatingsLike

    Metric: TypeAlias = Literal["rmse", "mae"]


class Blend(Recommender, Identified):
    """Predicts the weighted mean of what fitted models predict; the weights are not negative and sum to one.

    For predicting ratings; for top-N lists take `ImplicitALS`.

    Where models err differently, their mean errs less than any of them: the reason why restricted Boltzmann machines
    were combined with factorizations (thesis, sections 1 and 7.1). A blend of `ALS`, `SGD` and `ImplicitALS` alone
    ranks as one model with as many factors as all together, on their device if it is one. These are kept beside the
    models, whose factors must not be written from then on. Others rank on the CPU, more slowly. A user whom none of
    the models knows gets the items with the most training ratings first, and a new one, by `recommend(ratings=..)`,
    what the models predict who have each learned of these ratings. Lists are in the order of means of what no model
    has clipped; the ratings beside them are those of `predict`, and may be in another order. What users rated is left
    out where all models know the same of it, as those that were fitted to one data frame; else pass `seen`.

    Parameters
    ----------
    *models : fitted models, or, but for `recommend` and `evaluate_ranking`, anything with their `predict`
    weights : one of each model, not negative, of sum one, where they are known, say from a blend of models that were
        trained on fewer ratings; else `fit` finds them
    threads : the most threads on which the blend's methods run, see `gpumf._util.threads`; all threads by default

    Attributes
    ----------
    weights : float64 (models,), or None before `fit`

    Raises
    ------
    TypeError : something that predicts nothing
    ValueError : no model; weights that are negative, do not sum to one or are not as many

    >>> from gpumf import ALS, SGD, Blend
    >>> columns = ["ann", "ann", "bob", "eve"], ["alien", "heat", "alien", "up"], [5, 2, 4, 3]
    >>> models = [model.fit(columns, epochs=2) for model in (ALS(2, device="cpu"), SGD(2, solver="sequential"))]
    >>> blend = Blend(*models, weights=[0.75, 0.25])
    >>> items, _ = blend.recommend(ratings={"alien": 5})
    >>> sorted(items)
    ['heat', 'up']
    """

    device = "cpu"  # where items are ranked, but those of factor models alone
    _scores_predict = False  # scores are means of what the models have not clipped

    def __init__(self, *models: Any, weights: ArrayLike | None = None, threads: int | None = None) -> None:
        self.models, self.weights = models, weights
        self.threads = None if threads is None else integer("threads", threads, 1)
        self._forget_indexes()
        self._common, self._one = Once(), Once()
        self._check_parts()

    def __repr__(self):
        return f"Blend({', '.join(map(repr, self.models))}, weights={self.weights})"

    def _check_parts(self):
        """Raise where models, or weights, cannot be blended: they may have been assigned since the constructor."""
        models, weights = self.models, self.weights
        if not isinstance(models, tuple | list) or not models:
            raise ValueError("a blend needs at least one model")
        if isinstance(models[0], tuple | list):
            raise TypeError("a blend takes its models one by one, as in Blend(first, second), not as a list")
        for model in models:
            if isinstance(model, Blend):
                raise TypeError("a blend is of models, not of another blend; give it the models of that one")
            if not callable(getattr(model, "predict", None)):
                raise TypeError(f"a blend is of models, which have the method predict, not of {type(model).__name__}")
        if weights is not None:
            wanted = f"weights must be {len(models)} numbers from 0 of sum 1, not {weights}"
            try:
                weights = np.asarray(weights, np.float64)
            except (TypeError, ValueError) as error:
                raise ValueError(wanted) from error
            if weights.shape != (len(models),) or not (weights.min() >= 0 and np.isclose(weights.sum(), 1)):
                raise ValueError(wanted)
        self.weights = weights

    @obeys_threads
    def fit(self, held_out: RatingsLike, metric: Metric = "rmse") -> Self:
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
        NotFittedError : a model has learned nothing
        ValueError : no ratings, predictions or ratings that are not finite

        >>> from gpumf import ALS, Blend
        >>> columns = ["ann", "ann", "bob", "eve"], ["alien", "heat", "alien", "up"], [5, 2, 4, 3]
        >>> models = [ALS(2, ridge, device="cpu").fit(columns, epochs=2) for ridge in (0.1, 1)]
        >>> blend = Blend(*models).fit((["bob", "eve"], ["heat", "alien"], [2, 4]))
        >>> blend.weights.shape, round(float(blend.weights.sum()), 6)
        ((2,), 1.0)
        """
        self._check_parts()
        self._check_learned()
        if not isinstance(held_out, Ratings):
            held_out = self._like(held_out, "held_out")
        self._check_models(held_out)
        predictions = [_predicted(model, held_out.users, held_out.items) for model in self.models]
        self.weights = convex_weights(np.stack(predictions, axis=1), held_out.values, metric)
        return self

    @obeys_threads
    def predict(self, users: Ids, items: Ids, *, ids: bool | None = None) -> np.ndarray:
        """Predicted ratings, float32, for users and items (broadcast against each other).

        ids : whether they are ids; by default as of the models, which have to have the same

        Raises
        ------
        NotFittedError : the weights are not known

        >>> from gpumf import ALS, Blend
        >>> columns = ["ann", "ann", "bob", "eve"], ["alien", "heat", "alien", "up"], [5, 2, 4, 3]
        >>> models = [ALS(2, ridge, device="cpu").fit(columns, epochs=2) for ridge in (0.1, 1)]
        >>> Blend(*models, weights=[0.5, 0.5]).predict("ann", ["alien", "up"]).shape
        (2,)
        >>> Blend(*models).predict("ann", "up")
        Traceback (most recent call last):
            ...
        gpumf.models.checks.NotFittedError: this Blend has no weights; call fit() first
        """
        self._check_fitted()
        if self._speaks(ids):
            users, items = self._positions(users, "user", True), self._positions(items, "item", True)
        return self._predict_at(users, items)

    def _predict_at(self, users, items):
        parts = (w * _predicted(model, users, items) for w, model in zip(self.weights, self.models, strict=True))
        return np.asarray(sum(parts), np.float32)

    def _scores_at(self, users, items):
        parts = (
            w * scores(users, items) for w, scores in zip(self.weights, self._of_models("_scores_at"), strict=True)
        )
        return np.asarray(sum(parts), np.float32)

    def _check_fitted(self):
        self._check_parts()
        if self.weights is None:
            raise NotFittedError("this Blend has no weights; call fit() first")
        self._check_learned()

    def _check_learned(self):
        for model in self.models:
            if isinstance(model, Model):
                model._check_fitted()

    def _check_models(self, ratings):
        """Raise where a fitted model of gpumf has other users or items than the ratings."""
        for model in self.models:
            if isinstance(model, Model):
                model._check_shape(ratings)
                check_ids(ratings, "the set", model.user_ids, model.item_ids)

    @obeys_threads
    def score(self, ratings: RatingsLike, *, unknown: Unknown = "error") -> dict[str, float]:
        """Errors on a set of ratings, as {"rmse": ..., "mae": ...} in rating units; ValueError if there are none.

        unknown : 'error', raise where an id is not of the training set; 'skip', leave its ratings out

        >>> from gpumf import ALS, Blend
        >>> columns = ["ann", "ann", "bob", "eve"], ["alien", "heat", "alien", "up"], [5, 2, 4, 3]
        >>> models = [ALS(2, ridge, device="cpu").fit(columns, epochs=2) for ridge in (0.1, 1)]
        >>> list(Blend(*models, weights=[0.5, 0.5]).score((["bob"], ["up"], [4])))
        ['rmse', 'mae']
        """
        self._check_fitted()
        if not isinstance(ratings, Ratings):
            ratings = self._like(ratings, "the set", unknown, skips=True)
        else:
            skips_unknown(unknown)
        self._check_models(ratings)
        if ratings.nnz == 0:
            raise ValueError("there are no ratings to score on")
        errors = self._predict_at(ratings.users, ratings.items).astype(np.float64) - ratings.values
        return {"rmse": float(np.sqrt(np.mean(errors**2))), "mae": float(np.abs(errors).mean())}

    def save(self, path: str | PathLike, *, seen: bool = False) -> None:
        """Write weights and models to one file, as `Model.save` does one model.

        What users rated is left out of a loaded blend's recommendations where all its models have the same of it.

        Raises
        ------
        TypeError : something else than models of gpumf
        ValueError : as of `Model.save`

        >>> from gpumf import ALS, Blend
        >>> columns = ["ann", "ann", "bob", "eve"], ["alien", "heat", "alien", "up"], [5, 2, 4, 3]
        >>> models = [ALS(2, ridge, device="cpu").fit(columns, epochs=2) for ridge in (0.1, 1)]
        >>> Blend(*models, weights=[0.5, 0.5]).save("blend.npz", seen=True)
        >>> items, _ = Blend.load("blend.npz", device="cpu").recommend("ann")
        >>> items.tolist()
        ['up']
        """
        self._check_fitted()
        self._check_alike()
        contents = [model._checked_content(seen) for model in self.models]
        header = {
            "model": "Blend",
            "weights": np.asarray(self.weights).tolist(),
            "models": [header for header, _ in contents],
        }
        arrays = {f"{k}.{name}": array for k, (_, found) in enumerate(contents) for name, array in found.items()}
        write(path, header, arrays)

    @classmethod
    def load(cls, path: str | PathLike, device: Device = "auto", *, mmap: bool = False) -> Self:
        """Read a blend that `save` wrote; device and mmap as of `Model.load`.

        Raises
        ------
        ValueError : the file is no saved blend, or what it holds does not go together

        >>> from gpumf import ALS, Blend
        >>> columns = ["ann", "ann", "bob", "eve"], ["alien", "heat", "alien", "up"], [5, 2, 4, 3]
        >>> models = [ALS(2, ridge, device="cpu").fit(columns, epochs=2) for ridge in (0.1, 1)]
        >>> Blend(*models, weights=[0.5, 0.5]).save("blend.npz")
        >>> Blend.load("blend.npz", device="cpu").weights
        array([0.5, 0.5])
        """
        check_device(device)
        header, arrays = read(path, "Blend", flag("mmap", mmap))
        with damage_of(path):
            return cls._of_content(header, arrays, device, not mmap)

    @classmethod
    def _of_content(cls, header, arrays, device, numbers=True):
        """The blend of the models whose headers and arrays these are."""
        models = []
        for k, of_model in enumerate(header["models"]):
            start = f"{k}."
            own = {name.removeprefix(start): arrays.pop(name) for name in list(arrays) if name.startswith(start)}
            models.append(model_named(of_model["model"])._of_content(of_model, own, device, numbers))
        if arrays:
            raise ValueError(f"it has arrays of no model: {sorted(arrays)}")
        made = cls(*models, weights=header["weights"])
        made._check_alike()
        return made

    def _check_alike(self):
        """Raise unless all are models of gpumf, of the same users and items."""
        _ = self._shape, self.user_ids, self.item_ids

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

    @property
    def _seen_rows(self):
        """What users rated, where all models know the same of it, each by its training set or from its file."""
        trainings, rows = self._of_models("_training"), self._of_models("_seen_rows")
        known = [one if training is None else training for training, one in zip(trainings, rows, strict=True)]
        return None if any(one is None for one in known) else self._common(lambda: _common(known), *known)

    def _personalized(self):
        return self._known_to_parts(self.weights)

    def _known_to_parts(self, weights):
        """Of which users a part with a weight above zero knows something that tells items apart."""
        parts = zip(self._of_models("_personalized"), weights, strict=True)
        return np.any([personalized() for personalized, weight in parts if weight > 0], axis=0)

    def _with_users(self, users, named):
        folded = (fold(users, named) for fold in self._of_models("_with_users"))
        return Blend(*folded, weights=self.weights, threads=self.threads)

    @property
    def ids(self) -> bool:
        return any(model.ids for model in self.models if isinstance(model, Model))

    @property
    def user_ids(self) -> np.ndarray | None:
        return self._ids_of_models("user_ids")

    @property
    def item_ids(self) -> np.ndarray | None:
        return self._ids_of_models("item_ids")

    def _ids_of_models(self, name):
        first, *others = self._of_models(name)
        if any((other is None) != (first is None) or not np.array_equal(other, first) for other in others):
            raise ValueError(f"the models have other {name} than each other; fit them on splits of the same Ratings")
        return first

    def _joined(self):
        """One factor model that ranks as the blend, kept until something changes; None where a part is none."""
        if not all(isinstance(model, Factorization) for model in self.models):
            return None
        facts = []
        for model in self.models:
            for array in model._learned:
                array.flags.writeable = False  # a change would not be seen in the joined factors
            facts += *model._learned, model._user_known, model._item_counts, model.mean, model.device
        weights = self.weights.copy()  # another thread may assign others meanwhile

        def made():
            one = joined(self.models, weights)
            one._user_known, one._item_counts = self._known_to_parts(weights), self._item_counts
            return one, weights

        found, of = self._one(made, *facts)
        if not np.array_equal(of, weights):
            self._one.forget()
            return self._joined()
        return found

    def _rows(self, ratings, k=None):
        one = None if k is None else self._joined()
        return super()._rows(ratings) if one is None else one._rows(ratings, k)

    def _ranking_within(self, k, seen, allowed):
        one = self._joined()
        return super()._ranking_within(k, seen, allowed) if one is None else one._ranking_within(k, seen, allowed)

    def _ranking_without(self, seen, k, candidates):
        return PredictedRanking(self._scores_at, self._shape, candidates, seen)


def _common(known):
    """The rows of users, of `Ratings` or rows of theirs that have the same items in all of them; else None."""
    first, *others = (one if isinstance(one, CompressedRows) else one.on_host().by_user for one in known)
    same = all(
        np.array_equal(other.indptr, first.indptr) and np.array_equal(other.indices, first.indices)
        for other in others
    )
    return first if same else None


def model_named(name: str) -> type[Model]:
    """The model class of this name, which a file says; ValueError where there is none."""
    known = {kind.__name__: kind for kind in _subclasses(Model)}
    if name not in known:
        raise ValueError(f"there is no model {name!r}; there are {', '.join(sorted(known))}")
    return known[name]


def _subclasses(kind):
    """All classes below one."""
    return [found for one in kind.__subclasses__() for found in (one, *_subclasses(one))]


def _predicted(model, users, items):
    """Predictions for positions, of models and of anything else that predicts."""
    if isinstance(model, Model):
        return model.predict(users, items, ids=False)
    found, shape = np.asarray(model.predict(users, items)), np.broadcast_shapes(np.shape(users), np.shape(items))
    if found.shape != shape or not np.isfinite(found).all():
        raise ValueError(f"{type(model).__name__}.predict must give {shape} finite numbers, not {brief(found)}")
    return found


def convex_weights(predictions: ArrayLike, values: ArrayLike, metric: Metric = "rmse") -> np.ndarray:
    """The w >= 0 of sum 1 with the least error of predictions w, exactly.

    predictions : (n, models)
    values : (n,)
    metric : 'rmse' or 'mae'
    Returns float64 (models,)
    Raises ValueError: another metric; no ratings or models, arrays of other shapes, numbers that are not finite
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
