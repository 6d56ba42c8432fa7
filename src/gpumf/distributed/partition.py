"""Who has which users and items."""

import numpy as np

from gpumf.ratings.csr import row_offsets


def balanced_bounds(counts, parts):
    """Cut rows into contiguous ranges with about as many ratings each.

    A row stays whole, so a range may have more than its share, by less than its last row's ratings, and, where rows
    are few, none.

    Parameters
    ----------
    counts : int64 (rows,), ratings of each
    parts : int

    Returns
    -------
    int64 (parts + 1,), ascending from 0 to rows: range k has the rows bounds[k] to bounds[k + 1]
    """
    ends = row_offsets(counts)
    wanted = ends[-1] * np.arange(parts + 1, dtype=np.float64) / parts
    after = np.clip(np.searchsorted(ends, wanted), 1, max(len(counts), 1))
    bounds = np.where(wanted - ends[after - 1] <= ends[after] - wanted, after - 1, after)
    bounds[0], bounds[-1] = 0, len(counts)
    return np.maximum.accumulate(bounds)


def owners(positions, bounds, xp=np):
    """The part that each position, int32, is in: int32, where they are, on the host or as arrays of xp."""
    return (xp.searchsorted(xp.asarray(bounds, np.int32), positions, side="right") - 1).astype(np.int32)
