"""How many ratings each user and item of a synthetic data set has."""

import numpy as np

from gpumf._util.jit import cached_njit, prange
from gpumf.ratings.synthetic.numbers import exp, normal


def draw_counts(n, total, lowest, highest, stream):
    """n integers that sum to `total`, extremes exactly `lowest` and `highest`: a skewed log-normal distribution."""
    level = _levels(n, stream)
    sizes = np.bincount(level)
    used = np.flatnonzero(sizes)
    if len(used) == 1:  # a few that are equal by chance
        return _settled(np.full(n, lowest), total, lowest, highest)
    count_at = np.zeros(len(sizes), np.int64)
    count_at[used] = _skewed(used, sizes[used], total, lowest, highest)
    return _settled(count_at[level], total, lowest, highest)


@cached_njit(parallel=True)
def _levels(n, stream):
    """n normal deviates in units of 2**-16 and from 0, int32: there are few different ones, however large n is."""
    level = np.empty(n, np.int32)
    for i in prange(n):
        level[i] = np.int32(normal(stream, i) * 65_536) + 393_210
    return level


@cached_njit()
def _skewed(levels, sizes, total, lowest, highest):
    """A count for each level, ascending; sizes[i] counts are to be levels[i]'s, and all to sum to about `total`.

    ln count = middle + half * s - skew * (1 - s**2), where s is the level mapped linearly so that the extreme ones
    become -1 and 1. `skew` moves the centre without moving the ends, and is set by the total.
    """
    s = (levels - 393_210) / 65_536
    smallest, largest = s[0], s[-1]
    s = (2 * s - smallest - largest) / (largest - smallest)

    width = 0.0  # ln(highest / lowest), by bisection
    step = 32.0
    for _ in range(60):
        if lowest * exp(width + step) <= highest:
            width += step
        step /= 2
    half = width / 2
    middle = np.sqrt(float(lowest) * highest)

    counts = np.empty(len(s), np.int64)
    low, high = -half, half
    for _ in range(60):
        skew = (low + high) / 2
        total_now = 0
        for i in range(len(s)):
            count = int(np.floor(middle * exp(half * s[i] - skew * (1 - s[i] * s[i])) + 0.5))
            counts[i] = min(max(count, lowest), highest)
            total_now += sizes[i] * counts[i]
        if total_now > total:
            low = skew
        else:
            high = skew
    return counts


@cached_njit()
def _settled(counts, total, lowest, highest):
    """Rounding leaves a few too many or too few: one each from or to those between the extremes.

    Where these do not suffice, as many as are needed, from or to all but one count at either extreme.
    """
    least, most = counts.argmin(), counts.argmax()
    if least == most:  # all are equal
        most = len(counts) - 1
    counts[least], counts[most] = lowest, highest
    missing = total - counts.sum()
    at_extremes = False
    while missing != 0:
        before = missing
        end = highest if missing > 0 else lowest
        free = counts != end
        if at_extremes:
            free[least] = free[most] = False
        else:
            free &= (lowest < counts) & (counts < highest)
        share = max(abs(missing) // max(free.sum(), 1), 1)
        for i in range(len(counts)):
            if free[i] and missing != 0:
                change = min(share, abs(end - counts[i])) * (1 if missing > 0 else -1)
                counts[i] += change
                missing -= change
        at_extremes = missing == before
    return counts
