"""The ratings of each row, counted and brought together on all threads: the latter by native/order.cpp."""

from functools import cache

import numpy as np

from gpumf._util import threads
from gpumf._util.jit import cached_njit, prange
from gpumf.backends import compile
from gpumf.backends.cpu.shapes import takes

LEAST = 1 << 20
"""Ratings from which threads, and sorting every row by itself, take less time than two counting sorts."""


def counted(rows, n_rows):
    """How often each of 0..n_rows-1 is among these, int64 (n_rows,)."""
    if len(rows) < LEAST:
        return np.bincount(rows, minlength=n_rows)
    return _counted(rows, n_rows, min(threads.count(), max(len(rows) // n_rows, 1))).sum(axis=0)


@cached_njit(parallel=True)
def _counted(rows, n_rows, slices):
    """That of each slice."""
    counts = np.zeros((slices, n_rows), np.int64)
    for s in prange(slices):
        for k in range(len(rows) * s // slices, len(rows) * (s + 1) // slices):
            counts[s, rows[k]] += 1
    return counts


@takes("int32 nnz", "int32 nnz", "float32 nnz", "int64 rows+1")
def compressed(rows, columns, values, indptr):
    """The columns and values of each row's ratings, by column, those of one pair in the order given.

    rows, columns : int32 (nnz,), rows in 0..len(indptr) - 2
    values : float32 (nnz,)
    indptr : int64 (rows + 1,), where the ratings of each row begin and end
    Returns (indices, values): int32 and float32 (nnz,); None where C++ does not compile here
    """
    run = _compress()
    if run is None:
        return None
    nnz, n_rows = len(rows), len(indptr) - 1
    result = np.empty(nnz, np.int32), np.empty(nnz, np.float32)
    on = min(threads.count(), max(nnz // n_rows, 1))  # a counter a thread and row, no more than there are ratings
    run(rows, columns, values, nnz, indptr, n_rows, *result, on)
    return result


@cache
def _compress():
    return compile.function(
        "order.cpp", "compress", "int32* int32* float32* int64 int64* int64 int32* float32* int32"
    )
