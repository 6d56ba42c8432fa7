"""Damped biases of users and items, and how strong a model that learns what they leave is to be regularized."""

from typing import Any, NamedTuple

import numpy as np

from gpumf._util.counter_rng import splitmix64
from gpumf._util.jit import cached_njit, prange

DAMPING = 5.0, 3.0
"""Ratings without a bias that each user, and each item, counts in addition to its own."""

STRENGTH = 0.9
"""Of `Damped.penalty`, chosen on data sets of which each was left out in turn: experiments/gpumf/defaults.py."""

_ALIKE = 0.99  # of the largest singular value, from which that of noise is as large
_SWEEPS = 5  # with more, errors on held-out ratings of the sets of the study change by less than 0.05 %
_STEPS = 8  # of Lanczos: singular values within 2 %
_BLOCK, _MAX_BLOCKS = 256, 1024  # CUDA threads, and blocks of them that add up values
SOURCE = "models/biases.cu"


class Damped(NamedTuple):
    """What is known of a training set before any factor is learned.

    Attributes
    ----------
    user_biases, item_biases : float32 (n_users,) and (n_items,), such that r is about mean + b_u + b_i
    unit : root mean square of Z, what they leave of the ratings; 1 where that is nothing
    penalty : lambda of sum (z_ui - x_u . y_i)^2 + lambda (sum |x_u|^2 + sum |y_i|^2), Z in this unit, that keeps
        noise out of the factors and lets signal in. Factors are zero where lambda exceeds the largest singular value
        of Z, and fit noise where it is far below that of noise: about m, the mean over all ratings of
        sqrt(n_u) + sqrt(n_i), the numbers of ratings of their users and items. It is STRENGTH m, and less where Z
        stands out of the noise: times the largest singular value of Z with random signs, over that of Z. Where these
        are alike there is nothing to learn that the biases do not have, and it is at least the sum of both
    """

    user_biases: Any
    item_biases: Any
    unit: float
    penalty: float

    @property
    def step(self):
        """The power of 4 next to the unit. What a solver has is counted in it: square roots are then exact."""
        return 4.0 ** round(np.log(self.unit) / np.log(4))

    @classmethod
    def of(cls, table):
        """Those of a `Table`, or of what has its methods."""
        biases = [np.zeros(len(counts), np.float32) for counts in table.counts]
        for _ in range(_SWEEPS):
            for side in (1, 0):
                biases[side] = table.biases(side, biases[1 - side])
        unit = table.subtract(*biases) or 1.0
        signal, noise = _largest_singular_values(table) * table.width / unit
        return cls(*biases, unit, _penalty_of(*table.counts, signal, noise))


class Table:
    """Ratings on the host as `Damped` asks for them. Of two sides, users are 0 and items 1.

    counts : the ratings of each user, and of each item
    width : the unit of `products`
    """

    def __init__(self, train):
        self._rows, self._mean, self._device = (train.by_user, train.by_item), train.mean, train.device
        self.width = width_of(train)
        self.counts = train.user_counts, train.item_counts

    def biases(self, side, fixed):
        """The damped biases of a side, float32, given those of the other."""
        return row_biases(self._rows[side], self._mean, fixed, DAMPING[side])

    def subtract(self, *biases):
        """Leave Z in the place of the ratings; its root mean square."""
        self._rows = [
            rows.standardized(self._mean, *of, self.width, self._device)
            for rows, of in zip(self._rows, (biases, biases[::-1]), strict=True)
        ]
        return self.width * float(np.sqrt(mean_of(self._rows[0].values, self._device, squared=True)))

    def products(self, side, vectors):
        """The products of Z, or for side 1 of its transpose, with two vectors, the second with random signs.

        vectors : float32 (columns, 2)
        Returns float64 (rows, 2)
        """
        rows, made = self._rows[side], np.empty((len(self.counts[side]), 2))
        _row_products(rows.indptr, rows.indices, rows.values, vectors, side == 1, made)
        return made


class DeviceTable(Table):
    """As `Table`, of ratings on a device of `gpumf.backends`: biases and vectors come from the host and go there."""

    def __init__(self, train):
        super().__init__(train)
        self._kernels = [self._device.kernel(SOURCE, name) for name in ("row_biases", "row_products")]
        self._indptr = [self._device.array(rows.indptr) for rows in self._rows]
        self._products = [self._device.empty((len(of), 2), np.float64) for of in self.counts]

    def biases(self, side, fixed):
        made = self._device.empty(len(self.counts[side]), np.float32)
        given = {"mean": self._mean, "fixed": self._device.array(fixed), "damping": DAMPING[side]}
        _over_rows(self._kernels[0], self._indptr[side], self._rows[side], made, **given)
        return self._device.to_numpy(made)

    def products(self, side, vectors):
        given, made = {"vectors": self._device.array(vectors), "transposed": side}, self._products[side]
        _over_rows(self._kernels[1], self._indptr[side], self._rows[side], made, **given)
        return self._device.to_numpy(made)


def width_of(train):
    """That of the scale of a training set, in which squares neither overflow nor vanish."""
    return float(train.bounds[1] - train.bounds[0]) or 1.0


def mean_roots(*counts):
    """The mean over all ratings of sqrt(n_u) + sqrt(n_i), given the numbers of ratings of users and items."""
    return float(sum((of.astype(np.float64) ** 1.5).sum() / max(of.sum(), 1) for of in counts))


def _penalty_of(user_counts, item_counts, signal, noise):
    """`Damped.penalty`, given the largest singular values of Z, and of Z with random signs."""
    penalty = STRENGTH * mean_roots(user_counts, item_counts) * (min(noise / signal, 1.0) if signal > 0 else 1.0)
    return float(penalty if noise < _ALIKE * signal else max(penalty, noise + signal))


def _largest_singular_values(table):
    """Those of Z, and of Z with random signs, float64 (2,), by Golub and Kahan's bidiagonalization of both."""
    right = np.random.default_rng(0).standard_normal(len(table.counts[1]))
    right = np.stack(2 * [right / np.linalg.norm(right)], axis=1)
    left, beta, bidiagonal = 0.0, 0.0, np.zeros((2, _STEPS, _STEPS + 1))
    for k in range(_STEPS):  # all of them always: workers that share a table stay in step
        left = table.products(0, right.astype(np.float32)) - beta * left
        alpha = bidiagonal[:, k, k] = np.linalg.norm(left, axis=0)
        left /= np.where(alpha, alpha, 1)
        right = table.products(1, left.astype(np.float32)) - alpha * right
        beta = bidiagonal[:, k, k + 1] = np.linalg.norm(right, axis=0)
        right /= np.where(beta, beta, 1)
    return np.linalg.norm(bidiagonal, 2, axis=(1, 2))


def mean_of(values, device=None, squared=False):
    """The mean of float32 values, or of their squares, where they are: of sums in float64, always the same bits."""
    if device is None:
        return float((values * values if squared else values).mean(dtype=np.float64))
    blocks = max(min(-(-len(values) // _BLOCK), _MAX_BLOCKS), 1)
    sums = device.empty(blocks, np.float64)
    # CuPy's mean would compile reductions, with CUB's headers, where a machine first needs them.
    name = "sum_squares" if squared else "sum_values"
    device.kernel("ratings/ratings.cu", name)(blocks, _BLOCK, values, len(values), sums)
    return float(device.to_numpy(sums).sum() / len(values))


def row_biases(rows, mean, fixed, damping):
    """The damped bias of each row, float32 (rows,): its sum of r - mean - fixed, by its ratings and damping.

    rows : CompressedRows, on the host; fixed : float32 (columns,), of the other side
    """
    biases = np.empty(rows.n_rows, np.float32)
    _row_biases(rows.indptr, rows.indices, rows.values, float(mean), fixed, float(damping), biases)
    return biases


def left_of_pairs(rows, columns, values, *counted, device=None):
    """What is left of each rating, float32, where the ratings are: (r - mean - b_row - b_column) / unit.

    counted : mean, of_row, of_column, unit; the biases are float32, on the host or the device
    """
    mean, of_row, of_column, unit = counted
    if device is None:
        left = np.empty(len(values), np.float32)
        of_row, of_column = np.ascontiguousarray(of_row, np.float32), np.ascontiguousarray(of_column, np.float32)
        _left_of_pairs(rows, columns, values, float(mean), of_row, of_column, float(unit), left)
        return left
    left = device.empty(len(values), np.float32)
    given = {"rows": rows, "columns": columns, "values": values, **_counted(counted, device)}
    _over(device, "left_of_pairs", len(values), **given, left=left)
    return left


def left_of_rows(rows, *counted, device=None):
    """As `left_of_pairs`, of CompressedRows."""
    if device is None:
        of_entry = np.repeat(np.arange(rows.n_rows, dtype=np.int32), rows.counts)
        return left_of_pairs(of_entry, rows.indices, rows.values, *counted)
    kernel, left = device.kernel(SOURCE, "left_of_rows"), device.empty(len(rows.values), np.float32)
    _over_rows(kernel, device.array(rows.indptr), rows, left, **_counted(counted, device))
    return left


def _counted(counted, device):
    mean, of_row, of_column, unit = counted
    return {"mean": float(mean), "of_row": device.array(of_row), "of_column": device.array(of_column), "unit": unit}


def _over_rows(kernel, indptr, rows, made, **given):
    """Launch a kernel of kernels/models/biases.cu with a warp for each row; offsets and `made` are on its device."""
    blocks = max(-(-rows.n_rows * 32 // _BLOCK), 1)
    given |= {"indices": rows.indices, "values": rows.values, "n_rows": rows.n_rows, "made": made}
    kernel(blocks, _BLOCK, indptr=indptr, **given)


def without_biases(rows, scale, device=None):
    """Factors times a number, float32 (n, f), of rows whose last two columns are biases."""
    if device is None:
        return rows[:, :-2] * np.float32(scale)
    n, width = rows.shape
    factors = device.empty((n, width - 2), np.float32)
    _over(device, "without_biases", factors.size, rows=device.array(rows), width=width, scale=scale, factors=factors)
    return factors


def with_biases(factors, start, scale, device=None):
    """Rows of factors times a number, float32 (n, f + 2), and the biases of `start`, of this shape."""
    rows = (device or np).empty(start.shape, np.float32)
    if device is None:
        np.multiply(factors, np.float32(scale), out=rows[:, :-2])
        rows[:, -2:] = start[:, -2:]
        return rows
    given = {"factors": factors, "start": device.array(start), "width": start.shape[1], "scale": scale}
    _over(device, "with_biases", rows.size, **given, rows=rows)
    return rows


def column_of(rows, column, device=None):
    """A column of rows, -2 or -1, contiguous, float32 (n,)."""
    if device is None:
        return np.ascontiguousarray(rows[:, column])
    n, width = rows.shape
    found = device.empty(n, np.float32)
    _over(device, "take_column", n, rows=device.array(rows), width=width, column=width + column, found=found)
    return found


def _over(device, name, n, **given):
    """Launch a kernel of kernels/models/biases.cu with a thread for each of n."""
    device.kernel(SOURCE, name)(max(-(-n // _BLOCK), 1), _BLOCK, n=n, **given)


@cached_njit(parallel=True, nogil=True)
def _row_biases(indptr, indices, values, mean, fixed, damping, biases):
    for row in prange(len(biases)):
        total = 0.0
        for t in range(indptr[row], indptr[row + 1]):
            total += np.float64(values[t]) - mean - fixed[indices[t]]
        biases[row] = total / (indptr[row + 1] - indptr[row] + damping)


@cached_njit(parallel=True, nogil=True)
def _row_products(indptr, indices, values, vectors, transposed, products):
    """As kernels/models/biases.cu."""
    for row in prange(len(products)):
        plain = signed = 0.0
        for t in range(indptr[row], indptr[row + 1]):
            value, column = np.float64(values[t]), np.int64(indices[t])
            user, item = (column, np.int64(row)) if transposed else (np.int64(row), column)
            plain += value * vectors[column, 0]
            product = value * vectors[column, 1]
            signed += -product if splitmix64(np.uint64((user << 32) + item)) & np.uint64(1) else product
        products[row, 0], products[row, 1] = plain, signed


@cached_njit(parallel=True, nogil=True)
def _left_of_pairs(rows, columns, values, mean, of_row, of_column, unit, left):
    for t in prange(len(values)):
        left[t] = (np.float64(values[t]) - mean - of_row[rows[t]] - of_column[columns[t]]) / unit
