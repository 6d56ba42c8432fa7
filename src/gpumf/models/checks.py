"""What models accept: their parameters, training sets and positions; and the errors that are theirs alone."""

import numpy as np

from gpumf.datasets import Ratings

MOST_SEED = 2**64 - 1
_MOST = float(np.finfo(np.float32).max)


class NotFittedError(RuntimeError):
    """The model has learned nothing yet."""


class DivergedError(ArithmeticError):
    """Training left the finite numbers. The model keeps the factors and the history of the last epoch before.

    Attributes
    ----------
    epoch : int, after which something was not finite, counted as in the history
    """

    def __init__(self, epoch, remedy):
        super().__init__(f"epoch {epoch} ended with factors or errors that are not finite; {remedy}")
        self.epoch = epoch


def integer(name, value, least, most=2**31 - 1):
    """The value as an int; ValueError, which names parameter, value and range, unless it is from least to most."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool) and least <= value <= most:
        return int(value)
    raise ValueError(f"{name} must be an integer from {least} to {most}, not {value!r}")


def number(name, value, *, least=None, above=None, below=np.inf, most=None):
    """The value as a float; ValueError, which names parameter, value and range, where it is outside.

    Judged as the float32 that the kernels get: what is not zero may not round to zero or to infinity.

    Parameters
    ----------
    least, above : the lower bound, allowed or not; one of them
    most, below : the upper bound, allowed or not; one of them or none
    """
    numeric = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if numeric and abs(value) <= _MOST:
        single = np.float32(value)
        if (single >= least if above is None else single > above) and (
            single < below if most is None else single <= most
        ):
            return float(value)
    bottom = f"from {least}" if above is None else f"above {above}"
    top = f"up to {most}" if most is not None else "finite" if np.isinf(below) else f"below {below}"
    raise ValueError(f"{name} must be a number {bottom} and {top}, not {value!r}")


def flag(name, value):
    """The value as a bool; ValueError where it is none."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise ValueError(f"{name} must be True or False, not {value!r}")


def check_training(train, validation):
    """Raise TypeError or ValueError where these are no sets to train on and to validate with."""
    for name, ratings in (("train", train), ("validation", validation)):
        if ratings is None and name == "validation":
            continue
        if not isinstance(ratings, Ratings):
            raise TypeError(f"{name} must be Ratings (see gpumf.datasets), not {type(ratings).__name__}")
        if ratings.nnz == 0:
            raise ValueError(f"the {'training' if name == 'train' else name} set is empty")
    if validation is not None and (validation.n_users, validation.n_items) != (train.n_users, train.n_items):
        raise ValueError("the validation set has other users or items than the training set")


def check_finite(train, validation):
    """Raise ValueError where a rating of one of the sets, wherever they are, is no finite number."""
    for name, ratings in (("train", train), ("validation", validation)):
        if ratings is None:
            continue
        finite = ratings.xp.isfinite(ratings.values)
        if not finite.all():
            row = int(ratings.xp.flatnonzero(~finite)[0])
            raise ValueError(f"{name}: rating {row} is {float(ratings.values[row])}; remove it or give its value")


def positions(values, n, what):
    """Positions of users or items as an integer array; TypeError for others, IndexError for one outside 0..n-1."""
    values = np.asarray(values)
    if not np.issubdtype(values.dtype, np.integer):
        raise TypeError(f"{what} positions must be integers, not {values.dtype}")
    if values.size and not (values.min() >= 0 and values.max() < n):
        raise IndexError(f"{what} positions must lie in 0..{n - 1}")
    return values
