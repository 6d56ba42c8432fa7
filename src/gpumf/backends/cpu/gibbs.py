"""What a step of Gibbs sampling does on the CPU: draws of rows, moments of factors, and predictions of samples.

Rows are drawn by native/als.cpp, or by Numba where there is no compiler. No result depends on the number of threads.
"""

from functools import cache

import numpy as np

from gpumf._util import threads
from gpumf._util.jit import SUMS_IN_ANY_ORDER, cached_njit, prange
from gpumf.backends import compile
from gpumf.backends.cpu.shapes import takes


@cache
def row_drawer(factors):
    """Compile draw(indptr, indices, values, fixed, prior, noise, drawn, precision).

    Returns a function that overwrites each row of `drawn`, float32 (rows, f), by A^-1 b + L^-T D^-1/2 z with

        A = precision * sum v v^T + Lambda = L D L^T,    b = precision * sum r v + Lambda mu

    over the row's ratings: normal with mean A^-1 b and covariance A^-1, where z, the row of `noise`, is standard
    normal. `fixed` is float32 (columns, f); `prior` float32 (f, f + 1), Lambda and, its last column, Lambda mu. A row
    without ratings is drawn from the prior. In C++ and by Numba the same but for rounding.
    """
    draw = _native(factors) or _numba
    rows = "int64 rows+1", "int32 nnz", "float32 nnz", "float32 columns f"
    return takes(*rows, "float32 f f+1", "float32 rows f", "float32 rows f", f=factors)(draw)


def _native(factors):
    kinds = f"int64* int32* {'float32* ' * 5} int64 float32 int32"
    run = compile.function("als.cpp", "draw", kinds, FACTORS=factors)

    def draw(indptr, indices, values, fixed, prior, noise, drawn, precision):
        arrays = indptr, indices, values, fixed, prior, noise, drawn
        run(*arrays, len(indptr) - 1, precision, threads.count())

    return run and draw


def _numba(indptr, indices, values, fixed, prior, noise, drawn, precision):
    with threads.one_blas_thread():
        _draw_rows(indptr, indices, values, fixed, prior, noise, drawn, np.float32(precision))


@cached_njit(nogil=True, parallel=True)
def _draw_rows(indptr, indices, values, fixed, prior, noise, drawn, precision):
    factors = fixed.shape[1]
    for row in prange(len(indptr) - 1):
        v = fixed[indices[indptr[row] : indptr[row + 1]]]
        system = prior[:, :factors] + precision * (v.T @ v)
        right = prior[:, factors] + precision * (v.T @ values[indptr[row] : indptr[row + 1]])
        root = np.linalg.cholesky(system.astype(np.float64))
        below = np.linalg.solve(root, right.astype(np.float64)) + noise[row]
        drawn[row] = np.linalg.solve(root.T, below).astype(np.float32)


@takes("float32 rows f")
def moments(factors):
    """(sum of rows, sum of v v^T over rows v), float64 (f,) and (f, f), of float32 (rows, f).

    On several threads of BLAS it may be rounded otherwise.
    """
    rows = factors.astype(np.float64)
    return rows.sum(axis=0), rows.T @ rows


@takes("int32 n", "int32 n", "float32 users samples f", "float32 items samples f")
def products(users, items, user_samples, item_samples):
    """Mean and variance over the samples s of p_us . q_is, float64 (n,) each, for pairs of a user and an item.

    users, items : int32 (n,), positions
    user_samples, item_samples : float32 (n_users, samples, f) and (n_items, samples, f)
    """
    found = np.empty((2, len(users)))
    _products(users, items, user_samples, item_samples, found)
    return found[0], found[1]


@cached_njit(nogil=True, parallel=True, fastmath=SUMS_IN_ANY_ORDER)
def _products(users, items, user_samples, item_samples, found):
    samples, width = user_samples.shape[1:]
    for t in prange(len(users)):
        p, q = user_samples[users[t]], item_samples[items[t]]
        total, mean, square = 0.0, 0.0, 0.0
        for s in range(samples):
            dot = np.float32(0)
            for k in range(width):
                dot += p[s, k] * q[s, k]
            total += dot
            step = dot - mean  # Welford's recurrence: a variance that is small beside the mean keeps its digits
            mean += step / (s + 1)
            square += step * (dot - mean)
        found[0, t], found[1, t] = total / samples, square / samples
