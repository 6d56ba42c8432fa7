"""What models accept: their parameters, training sets and positions; and the errors that are theirs alone."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import numpy as np

from gpumf.ratings import Ratings

_SOME = 1000
"""Ratings that are looked at first, before all."""


class NotFittedError(RuntimeError):
    """The model has learned nothing yet.

    >>> from gpumf import ALS
    >>> ALS(2, device="cpu").predict(0, 0)
    Traceback (most recent call last):
        ...
    gpumf.models.checks.NotFittedError: this ALS has not been fitted; call fit() first
    """


class NothingHeldOut(ValueError):
    """All test ratings are of items that lists leave out, because their users rated them before.

    >>> from gpumf import ALS
    >>> columns = ["ann", "ann", "bob", "eve"], ["alien", "heat", "alien", "up"], [5, 2, 4, 3]
    >>> model = ALS(2, device="cpu").fit(columns, epochs=3)
    >>> try:
    ...     model.evaluate_ranking(columns)
    ... except ValueError as error:
    ...     print(type(error).__name__)
    NothingHeldOut
    """


class DivergedError(ArithmeticError):
    """Training left the finite numbers, or its first step would shrink all factors to 0.

    The model keeps the factors and the history of the last epoch before.

    Attributes
    ----------
    epoch : int, after which something was not finite, counted as in the history

    >>> from gpumf import SGD, DivergedError
    >>> columns = ["ann", "ann", "bob", "eve"], ["alien", "heat", "alien", "up"], [5, 2, 4, 3]
    >>> try:
    ...     SGD(2, learning_rate=1e30, biases=False, solver="sequential").fit(columns, epochs=3)
    ... except DivergedError as error:
    ...     print(error.epoch)
    1
    """

    def __init__(
        self, epoch: int, remedy: str, problem: str = "ended with factors or errors that are not finite"
    ) -> None:
        super().__init__(f"epoch {epoch} {problem}; {remedy}")
        self.epoch = epoch


def warn_of_clicks(model: str, train: Ratings) -> None:
    """Warn where all ratings are 1, as those of clicks: a model of ratings, named `model`, learns nothing of them."""
    values = train.values
    if not isinstance(values, np.ndarray) or (values[:_SOME] != 1).any() or (values != 1).any():
        return
    level, frame = 1, inspect.currentframe()
    while frame and frame.f_globals["__name__"].startswith("gpumf."):  # up to where the package was called
        level, frame = level + 1, frame.f_back
    warnings.warn(
        f"all ratings are 1, so {model} has nothing to predict; for clicks and purchases take ImplicitALS",
        RuntimeWarning,
        stacklevel=level,
    )


def check_training(train: Any, validation: Any) -> None:
    """Raise TypeError or ValueError where these are no sets to train on and to validate with."""
    for name, ratings in (("train", train), ("validation", validation)):
        if ratings is None and name == "validation":
            continue
        if not isinstance(ratings, Ratings):
            raise TypeError(f"{name} must be Ratings (see gpumf.ratings), not {type(ratings).__name__}")
        if ratings.nnz == 0:
            raise ValueError(f"the {'training' if name == 'train' else name} set is empty")
    if validation is not None and (validation.n_users, validation.n_items) != (train.n_users, train.n_items):
        raise ValueError("the validation set has other users or items than the training set")


def check_finite(train: Ratings, validation: Ratings | None) -> None:
    """Raise ValueError where a rating of one of the sets, wherever they are, is no finite number."""
    for name, ratings in (("train", train), ("validation", validation)):
        if ratings is None:
            continue
        with np.errstate(invalid="ignore"):
            mean = ratings.mean  # which is wanted later anyway; a sum of float32 in float64 is finite where all are
        if not np.isfinite(mean):
            row = int(ratings.xp.flatnonzero(~ratings.xp.isfinite(ratings.values))[0])
            raise ValueError(f"{name}: rating {row} is {float(ratings.values[row])}; remove it or give its value")


def positions(values: Any, n: int, what: str) -> np.ndarray:
    """Positions of users or items as an integer array; TypeError for others, IndexError for one outside 0..n-1."""
    values = np.asarray(values)
    if values.dtype.kind not in "iu":
        raise TypeError(f"{what} positions must be integers, not {values.dtype}")
    if values.size and not (values.min() >= 0 and values.max() < n):
        raise IndexError(f"{what} positions must lie in 0..{n - 1}")
    return values
