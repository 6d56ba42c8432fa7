"""The statistics of the thesis's Tables 6.1 and 6.2, of sets at hand and as published."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

    from gpumf.ratings.ratings import Ratings

_COLUMNS = [
    *("users", "items", "ratings", "density"),
    *("user_min", "user_mean", "user_max", "item_min", "item_mean", "item_max"),
    *("scale_min", "scale_max", "mean"),
]

_UNKNOWN = np.nan
_PUBLISHED = {  # users, items, ratings, (fewest, most) of a user, (fewest, most) of an item, scale, mean rating
    "douban": (129_490, 58_541, 16_830_839, (1, 6_328), (1, 49_504), (1, 5), _UNKNOWN),
    "jester": (73_421, 100, 4_136_360, (15, 100), (18_505, 73_413), (1, 5), _UNKNOWN),
    "ml-100k": (943, 1_682, 100_000, (20, 737), (1, 583), (1, 5), 3.53),
    "ml-1m": (6_040, 3_706, 1_000_209, (20, 2_314), (1, 3_428), (1, 5), 3.58),
    "ml-10m": (69_878, 10_677, 10_000_054, (20, 7_359), (1, 34_864), (0.5, 5), 3.51),
    "ml-20m": (138_493, 26_744, 20_000_263, (20, 9_254), (1, 67_310), (0.5, 5), 3.53),
    "netflix": (480_189, 17_770, 100_480_507, (1, 17_653), (3, 232_944), (1, 5), 3.60),
    "yahoomusic": (1_000_990, 624_961, 256_804_235, (20, _UNKNOWN), (_UNKNOWN, _UNKNOWN), (0, 100), _UNKNOWN),
    "hugewiki": (50_082_603, 39_780, 3_101_144_313, (_UNKNOWN,) * 2, (_UNKNOWN,) * 2, (_UNKNOWN,) * 2, _UNKNOWN),
}

COUNTS = {name: row[:3] for name, row in _PUBLISHED.items()}
"""The published (users, items, ratings) of each set."""


def describe(*ratings: Ratings) -> pd.DataFrame:
    """Statistics of rating sets, one row a set, indexed by name.

    >>> from gpumf.ratings import describe, synthetic_ratings
    >>> int(describe(synthetic_ratings("ml-100k")).users.iloc[0])
    943

    Parameters
    ----------
    ratings : Ratings

    Returns
    -------
    DataFrame with users, items, ratings; density, the filled fraction of the matrix (the thesis's sparsity);
    user_min, user_mean, user_max and item_min, item_mean, item_max, of the ratings per user and per item;
    scale_min, scale_max, the possible ratings (NaN where unknown); mean, of the ratings.
    """
    import pandas as pd

    rows = {}
    for r in ratings:
        by_user = np.bincount(r.users, minlength=r.n_users)
        by_item = np.bincount(r.items, minlength=r.n_items)
        spread = ((counts.min(), counts.mean(), counts.max()) for counts in (by_user, by_item))
        scale = r.scale or (_UNKNOWN, _UNKNOWN)
        rows[r.name] = (r.n_users, r.n_items, r.nnz, r.density, *next(spread), *next(spread), *scale, r.mean)
    return pd.DataFrame.from_dict(rows, orient="index", columns=_COLUMNS)


def published_shapes() -> pd.DataFrame:
    """The statistics that are published, as `describe` gives them; NaN where a number is not.

    >>> int(published_shapes().loc["netflix", "users"])
    480189

    Douban and Jester: the thesis, section 6.1. MovieLens: GroupLens's descriptions of the sets. Netflix,
    Yahoo! Music (with their test sets) and Hugewiki: Tan et al. 2018, Table 2, and the sets' descriptions. The mean
    counts and densities follow from the numbers of users, items and ratings.
    """
    import pandas as pd

    rows = {
        name: (m, n, nnz, nnz / (m * n), user[0], nnz / m, user[1], item[0], nnz / n, item[1], *scale, mean)
        for name, (m, n, nnz, user, item, scale, mean) in _PUBLISHED.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index", columns=_COLUMNS)
