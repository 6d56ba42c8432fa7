"""Ratings as levels 0..K-1, equally spaced on the rating scale or as frequent as each other, and back."""

import numpy as np

MAX_LEVELS, MAX_HIDDEN = 32, 512
VARIANTS = {"HIDDEN": range(1, MAX_HIDDEN + 1), "LEVELS": range(2, MAX_LEVELS + 1)}  # of the sources of kernels/rbm


def level_values(scale, n_levels):
    """The rating of each level, float32 (n_levels,)."""
    return np.linspace(*scale, n_levels, dtype=np.float32)


def n_levels_of(ratings, scale):
    """The number of levels of ratings that are whole or half steps of their scale.

    Raises ValueError: the ratings are no such steps, or there are more than MAX_LEVELS
    """
    lowest, highest = scale
    for step in (1.0, 0.5):
        last = (highest - lowest) / step
        steps = (ratings.values - np.float64(lowest)) / step
        if last == round(last) and np.array_equal(steps, np.rint(steps)) and last < MAX_LEVELS:
            return round(last) + 1
    raise ValueError(
        f"the ratings of {ratings.name} are not at most {MAX_LEVELS} whole or half steps of {lowest} to {highest}; "
        "say with levels= to how many levels they are to be rounded"
    )


def to_levels(values, scale, n_levels):
    """The nearest level of each rating, uint8; halfway between two of them the one that is even, counted from 1.

    Raises ValueError: a rating off the scale
    """
    lowest, highest = scale
    off = np.flatnonzero((values < np.float32(lowest)) | (values > np.float32(highest)))
    if len(off):
        raise ValueError(f"rating {off[0]} is {values[off[0]]}, off the scale {lowest} to {highest}")
    steps = (values.astype(np.float64) - lowest) / (highest - lowest) * (n_levels - 1)
    return (np.rint(steps + 1) - 1).astype(np.uint8)


def quantile_levels(values, n_levels):
    """(bounds, means) of levels that about as many values have: float32 (K - 1,), ascending, and float32 (K,).

    A value has as many bounds below it or at it as its level says; of a level that none has the mean is 0.
    """
    bounds = np.quantile(values, np.arange(1, n_levels) / n_levels).astype(np.float32)
    levels = np.searchsorted(bounds, values, side="right")
    means = np.bincount(levels, values, n_levels) / np.maximum(np.bincount(levels, minlength=n_levels), 1)
    return bounds, means.astype(np.float32)
