"""Synthetic data sets with the published shape of a real one, the same bit for bit on every machine.

A synthetic data set stands in where the real one may not be shipped or cannot be had any more. It has the published
number of users, items and ratings, heavy-tailed counts per user and per item with the published extremes and means,
and ratings that a factorization can learn as well as, but not better than, the publications report.

Everything is a pure function of (seed, position) through `splitmix64`, computed by integer arithmetic and by
float64 additions, multiplications, divisions and square roots in a fixed order. IEEE 754 fixes each of these to
the last bit; a mathematical library does not fix its `exp` or `log`, a vectorised sum not its order. Hence the
own `exp`, the sequential sums, the normal deviates made of uniform ones, and no `fastmath`.
"""

from __future__ import annotations

import hashlib

import numpy as np

from gpumf._util.counter_rng import random_subset
from gpumf.ratings.checks import DataError
from gpumf.ratings.ratings import Ratings
from gpumf.ratings.synthetic.counts import draw_counts
from gpumf.ratings.synthetic.items import draw_items
from gpumf.ratings.synthetic.numbers import ITEM_COUNTS, TEST, USER_COUNTS, streams_of
from gpumf.ratings.synthetic.recipes import RECIPES, Recipe, check
from gpumf.ratings.synthetic.values import rate

__all__ = ["RECIPES", "Recipe", "generate", "synthetic_ratings"]


def synthetic_ratings(name: str, seed: int = 0) -> Ratings:
    """Generate the synthetic data set of a published set.

    Parameters
    ----------
    name : str, one of `RECIPES`
    seed : int, 0 or more; another seed gives another set of the same shape

    Returns
    -------
    Ratings, ordered by user and then item, named "<name>-synthetic", sha256 that of users, items and values
    (little-endian int32, int32, float32, one array after another); `official_split()` works where the real set
    has an official test set.

    Raises
    ------
    DataError : unknown name; "hugewiki", whose 3.1 billion ratings are generated on a GPU (by
        `gpumf.ratings.synthetic_device`)

    >>> from gpumf.ratings import synthetic_ratings
    >>> ratings = synthetic_ratings("ml-100k")
    >>> ratings.n_users, ratings.n_items, ratings.nnz
    (943, 1682, 100000)
    """
    if name == "hugewiki":
        raise DataError(
            "the synthetic data set of hugewiki has 3,101,144,313 ratings (37 GB): too many to generate on a CPU; "
            "gpumf.ratings.synthetic_device makes it on a GPU"
        )
    if name not in RECIPES:
        raise DataError(f"there is no synthetic data set with the shape of {name!r}; there are {', '.join(RECIPES)}")
    return generate(RECIPES[name], seed, f"{name}-synthetic")


def generate(spec, seed=0, name="synthetic"):
    """Generate the ratings that a `Recipe` describes; as `synthetic_ratings`, for a recipe of one's own.

    The counts of the users are the recipe's, extremes included. Those of the items are approached, as far as the
    distinct items of the users leave room: a short or very full matrix has other extremes.

    Raises
    ------
    DataError : a recipe that no set can have
    """
    check(spec)
    if spec.scale is None or not spec.scale[0] < spec.scale[1] or not spec.step or not spec.step > 0:
        raise DataError(f"scale {spec.scale} and step {spec.step}: a scale (lowest, highest) and a step are needed")
    streams = streams_of(seed)
    user_counts = draw_counts(spec.users, spec.ratings, *spec.user_counts, streams[USER_COUNTS])
    item_counts = draw_counts(spec.items, spec.ratings, *spec.item_counts, streams[ITEM_COUNTS])
    users = np.repeat(np.arange(spec.users, dtype=np.int32), user_counts)
    items = draw_items(spec, streams, user_counts, item_counts)
    values = rate(spec, streams, users, items, user_counts)
    digest = hashlib.sha256()
    for array in (users, items, values):
        digest.update(array.astype(array.dtype.newbyteorder("<"), copy=False))
    return Ratings(
        users,
        items,
        values,
        spec.users,
        spec.items,
        scale=spec.scale,
        name=name,
        sha256=digest.hexdigest(),
        test_mask=random_subset(spec.ratings, spec.test, streams[TEST]) if spec.test else None,
    )
