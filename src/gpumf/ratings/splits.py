"""Splits of ratings beside random ones: the newest of all, and one of each user."""

import numpy as np

from gpumf._util.counter_rng import random_order
from gpumf._util.validation import MAX_SEED, brief, integer
from gpumf.ratings.checks import DataError


def held_out(test, nnz):
    """How many of so many ratings a share is; ValueError where it is none, or leaves an empty set."""
    if not isinstance(test, float | np.floating) or not 0 < test < 1:
        raise ValueError(f"test must lie between 0 and 1, not {brief(test)}")
    n_test = round(test * nnz)
    if not 0 < n_test < nnz:
        raise ValueError(f"a test share of {test} leaves an empty set of {nnz} ratings")
    return n_test


def by_time(ratings, test=0.2):
    """(train, test): the newest ratings are the test set, equal times by their order; `Ratings.split_by_time`."""
    n_test = held_out(test, ratings.nnz)
    newest = np.zeros(ratings.nnz, bool)
    newest[np.argsort(_times(ratings), kind="stable")[-n_test:]] = True
    return ratings.select(~newest), ratings.select(newest)


def leave_one_out(ratings, seed=0, newest=False):
    """(train, test): one rating of each user who has several is in the test set; `Ratings.leave_one_out`."""
    seed = integer("seed", seed, 0, MAX_SEED)
    order = np.argsort(_times(ratings), kind="stable") if newest else random_order(ratings.nnz, seed)
    order = order[np.argsort(ratings.users[order], kind="stable")]
    users = ratings.users[order]
    last = np.append(users[1:] != users[:-1], True) & (ratings.user_counts[users] > 1)
    if not last.any():
        raise ValueError("no user has two ratings, of which one could be left out")
    left_out = np.zeros(ratings.nnz, bool)
    left_out[order[last]] = True
    return ratings.select(~left_out), ratings.select(left_out)


def _times(ratings):
    if ratings.times is None:
        raise DataError(
            f"{ratings.name} does not say when its ratings were given; read them with time=, or set "
            "dataclasses.replace(ratings, times=..), say to gpumf.ratings.rating_times(name)"
        )
    return ratings.times
