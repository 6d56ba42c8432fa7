"""Random streams, normal deviates and powers of e that are the same to the last bit on every machine."""

import numpy as np

from gpumf._util.counter_rng import splitmix64
from gpumf._util.jit import cached_njit, prange

USER_COUNTS, ITEM_COUNTS, RESERVED, DRAWS, USERS, ITEMS, NOISE, TEST = range(8)
"""The streams of random numbers that a synthetic data set is made of."""


def streams_of(seed):
    """Where each stream of random numbers starts, uint64 (8,)."""
    return splitmix64(splitmix64(np.uint64(seed)) + np.arange(8, dtype=np.uint64))


@cached_njit()
def exp(x):
    """e**x, relative error below 1e-11 for |x| < 30: a power series at x / 1024, squared ten times."""
    y = x / 1024
    e = 1 + y * (1 + y / 2 * (1 + y / 3 * (1 + y / 4 * (1 + y / 5 * (1 + y / 6)))))
    for _ in range(10):
        e *= e
    return e


@cached_njit()
def normal(stream, k):
    """The k-th normal deviate of a stream: twelve uniform 16-bit integers, whose sum has deviation 2**16.

    The sum is within 0.2 % of a normal distribution over three deviations, ends at six, and is exact.
    """
    total = 0
    for j in range(3):
        h = splitmix64(stream + np.uint64(3 * k + j))
        for shift in range(0, 64, 16):
            total += np.int64((h >> np.uint64(shift)) & np.uint64(0xFFFF))
    return (total - 393_210) / 65_536


@cached_njit(parallel=True)
def normals(stream, rows, columns):
    """Independent normal deviates, float64 (rows, columns)."""
    out = np.empty((rows, columns))
    for r in prange(rows):
        for c in range(columns):
            out[r, c] = normal(stream, r * columns + c)
    return out
