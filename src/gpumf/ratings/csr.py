"""Ratings by row: where each row's begin, and how they are brought together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from gpumf._util.forks import cached_property
from gpumf._util.jit import cached_njit
from gpumf.ratings.checks import DataError, array_of
from gpumf.ratings.damped import left_of_rows

if TYPE_CHECKING:
    from typing import Any


def row_offsets(counts):
    """Where each row starts and ends: int64 (rows + 1,), 0 and the running totals of the counts.

    64 bits, whatever the type of the counts: the large sets have more than 2**31 ratings.
    """
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, dtype=np.int64, out=offsets[1:])
    return offsets


@cached_njit()
def grouped(rows, offsets):
    """The positions of each row's ratings, one row after another, each in the order given (a counting sort)."""
    order = np.empty(len(rows), np.int64)
    free = offsets[:-1].copy()
    for k in range(len(rows)):
        order[free[rows[k]]] = k
        free[rows[k]] += 1
    return order


@cached_njit(nogil=True)
def _held(indptr, indices, rows, columns, found):
    """Overwrite found, bool (n,): whether each column is among the ascending indices of its row."""
    for k in range(len(rows)):
        low, past = indptr[rows[k]], indptr[rows[k] + 1]
        while low < past:
            middle = (low + past) // 2
            if indices[middle] < columns[k]:
                low = middle + 1
            else:
                past = middle
        found[k] = low < indptr[rows[k] + 1] and indices[low] == columns[k]


def sorted_by(keys, n):
    """(order, offsets): a stable order of keys in 0..n-1, and where each key begins, by counting."""
    offsets = row_offsets(np.bincount(keys, minlength=n))
    return grouped(keys, offsets), offsets


def inside(positions, n, what):
    """Positions as a contiguous int32 array; DataError, which begins with `what`, unless all are whole, in 0..n-1."""
    given = array_of(positions, what)
    if given.dtype.kind not in "iuf" and given.size:
        raise DataError(f"{what} must be integers, not {given.dtype}")
    if given.size and not (given.min() >= 0 and given.max() < n):
        k = int((~((given >= 0) & (given < n))).argmax())
        raise DataError(f"{what} must lie in 0..{n - 1}; number {k} is {given.flat[k]}")
    result = np.require(given, np.int32, "CA")  # what a network or a file brought may lie at any byte
    if given.dtype.kind == "f" and not np.array_equal(result, given):
        raise DataError(f"{what} must be integers, not {given.dtype} with fractions")
    return result


@dataclass(frozen=True, eq=False)
class CompressedRows:
    """The ratings of each row, one after another (CSR of the rating matrix, or of its transpose).

    Positions on the host are views that cannot be written: native code indexes arrays by them without a check.

    indptr : int64 (rows + 1,), row r holds the positions indptr[r] to indptr[r + 1]
    indices : int32 (nnz,), the column of each rating, ascending within a row
    values : float32 (nnz,)

    >>> import numpy as np
    >>> from gpumf.ratings import CompressedRows
    >>> rows = CompressedRows(np.array([0, 2, 2, 3]), np.array([0, 4, 1], np.int32), np.array([5, 3, 4], np.float32))
    >>> rows.indices[rows.indptr[0] : rows.indptr[1]]  # of row 0
    array([0, 4], dtype=int32)
    >>> rows.n_rows, rows.counts, rows.less(4).values
    (3, array([2, 0, 1]), array([ 1., -1.,  0.], dtype=float32))
    >>> rows.cells(5), rows.holds([0, 0, 2], [3, 4, 1])
    (array([ 0,  4, 11]), array([False,  True,  True]))
    >>> rows.standardized(3, np.ones(3, np.float32), np.zeros(5, np.float32), 2).values
    array([ 0.5, -0.5,  0. ], dtype=float32)
    """

    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray

    def __post_init__(self):
        for name in ("indptr", "indices"):
            if isinstance(positions := getattr(self, name), np.ndarray):
                (view := positions.view()).flags.writeable = False
                object.__setattr__(self, name, view)

    def __reduce__(self):
        return CompressedRows, (self.indptr, self.indices, self.values)  # copies cannot be written, either

    @cached_property
    def n_rows(self) -> int:
        """How many rows there are, empty ones among them."""
        return len(self.indptr) - 1

    @property
    def counts(self) -> np.ndarray:
        """Ratings per row, int64 (rows,)."""
        return np.diff(self.indptr)

    def cells(self, n_columns: int) -> np.ndarray:
        """Row and column of each rating as one number, row * n_columns + column, int64 (nnz,), ascending."""
        return np.repeat(np.arange(self.n_rows), self.counts) * np.int64(n_columns) + self.indices

    def holds(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return which of these pairs, integers (n,), are rated: bool (n,). DataError: a row not in 0..n_rows-1."""
        rows, columns = inside(rows, self.n_rows, "rows"), np.ascontiguousarray(columns, np.int64)
        if not rows.shape == columns.shape == (rows.size,):
            raise DataError(f"rows and columns must be as long as each other, not {rows.shape} and {columns.shape}")
        found = np.empty(rows.size, bool)
        _held(self.indptr, self.indices, rows, columns, found)
        return found

    def less(self, offset: float) -> CompressedRows:
        """The same rows, each rating less a number."""
        return replace(self, values=self.values - np.float32(offset))

    def standardized(
        self, mean: float, of_row: Any, of_column: Any, unit: float, device: Any = None
    ) -> CompressedRows:
        """The same rows, each rating less the mean and the biases of its row and column, in a unit."""
        return replace(self, values=left_of_rows(self, mean, of_row, of_column, unit, device=device))
