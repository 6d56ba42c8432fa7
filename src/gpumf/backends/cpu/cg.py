"""A user or item update of ALS on the CPU by conjugate gradient, without any row's matrix: native/cg.cpp, or Numba.

A p = sum w (q . p) q + G p + ridge p is a pass over a row's ratings, so that a step costs 4 f operations a rating
where the matrix costs f^2 (Takács, Pilászy and Tikk 2011). Numba takes the place of C++ where there is no compiler;
both do the same arithmetic in FP32, summed up by chunks of ratings, with scalars in FP64.
"""

from functools import cache

import numpy as np

from gpumf._util import threads
from gpumf._util.jit import SUMS_IN_ANY_ORDER, cached_njit, prange
from gpumf.backends import compile
from gpumf.backends.cpu.shapes import takes

_CHUNK = 256  # ratings summed up in one go


def longest_first(indptr):
    """The CSR rows in the order in which threads take them, int32 (rows,): the last ones are soon done."""
    return np.argsort(-np.diff(indptr), kind="stable").astype(np.int32)


def side_update(factors, parallel, implicit):
    """Compile side_update(rows, order, fixed, solved, ridges, alpha, steps, tolerance).

    factors : int f
    parallel : bool, rows over all threads instead of one after another
    implicit : bool, the ratings are implicit feedback: see `gpumf.ImplicitALS`
    Returns a function that improves `solved`, float32 (rows, f), by at most `steps` steps of conjugate gradient on
    the rows' normal equations (`gpumf.backends.cpu.reference.als_update` and `implicit_update`), given the
    CompressedRows, their order (`longest_first`), `fixed`, float32 (columns, f), the factors of the other side, and
    `ridges`, float32 (rows,), what is added to the diagonals of the rows' matrices. A row ends early where its
    residual's length is at most `tolerance` times the right side's, and starts from zero where that is nearer than
    `solved`. A row without ratings gets zeros, as does one whose right side is zero.
    """
    run = native_update(factors, parallel, implicit) or numba_update(factors, parallel, implicit)
    arrays = "int64 rows+1", "int32 nnz", "float32 nnz", "int32 rows", "float32 columns f", "float32 rows f"
    arrays += ("float32 rows",)
    check = takes(*arrays, f=factors)(lambda *_: None)

    def side_update(rows, order, fixed, solved, ridges, *parameters):
        check(rows.indptr, rows.indices, rows.values, order, fixed, solved, ridges)
        run(rows, order, fixed, solved, ridges, *parameters)

    return side_update


@cache
def native_update(factors, parallel, implicit):
    """As `side_update`, in C++; None where it does not compile here."""
    kinds = "int64* int32* float32* int32* float32* float32* float32* int64 int64 float32 int32 float32 int32"
    run = compile.function("cg.cpp", "side_update", kinds, FACTORS=factors, IMPLICIT=int(implicit))

    def side_update(rows, order, fixed, solved, ridges, *parameters):
        arrays = rows.indptr, rows.indices, rows.values, order, fixed, solved, ridges
        run(*arrays, rows.n_rows, len(fixed), *parameters, threads.count() if parallel else 1)

    return run and side_update


@cache
def settings_update():
    """Compile (n, update), an update of n settings, which are the lanes of vectors, in C++: native/cg_settings.cpp.

    update(rows, order, biases, fixed, solved, ridges, alphas, finite, implicit, steps, tolerance) does for each one,
    on all threads, what the function of `side_update` does, but for rounding. `fixed` and `solved` are float32
    (columns, f, n) and (rows, f, n); `biases`, float32 (columns, n), what the ratings count from; `ridges`, float32
    (rows, n); `alphas`, float32 (n,). Those of `finite`, int32 (n,), are set to 0 for which it finds factors that are
    not. None where C++ does not compile here.
    """
    lanes, kinds = compile.function("cg_settings.cpp", "lanes", ""), "int64* int32* float32* int32*" + " float32*" * 5
    kinds += " int32* int64 int64 int64 int32 int32 float32 int32"
    run = compile.function("cg_settings.cpp", "side_update", kinds)
    if run is None:
        return None
    n, arrays = lanes(), ("int64 rows+1", "int32 nnz", "float32 nnz", "int32 rows", "float32 columns n")
    sides = "float32 columns f n", "float32 rows f n", "float32 rows n"
    check = takes(*arrays, *sides, "float32 n", "int32 n", n=n)(lambda *_: None)

    def update(rows, order, biases, fixed, *more):
        given = rows.indptr, rows.indices, rows.values, order, biases, fixed, *more[:4]
        check(*given)
        run(*given, rows.n_rows, *fixed.shape[:2], *more[4:], threads.count())

    return n, update


def numba_update(factors, parallel, implicit):
    """As `side_update`, by Numba."""
    run = _all_rows if parallel else _each_row

    def side_update(rows, order, fixed, solved, ridges, alpha, steps, tolerance):
        gram = fixed.T @ fixed if implicit else np.zeros((0, 0), np.float32)
        arrays = rows.indptr, rows.indices, rows.values, order, fixed, gram, solved, ridges
        run(*arrays, np.float32(alpha), steps, np.float32(tolerance))

    return side_update


@cached_njit(nogil=True, fastmath=SUMS_IN_ANY_ORDER)
def _add_products(indices, values, fixed, implicit, alpha, p, product, right):
    """product += A p of a row's ratings; where `right` is not empty, it is the right side, summed up on the way."""
    for first in range(0, len(indices), _CHUNK):
        part, part_of_right = np.zeros_like(product), np.zeros_like(right)
        for t in range(first, min(first + _CHUNK, len(indices))):
            q, weight, target = fixed[indices[t]], np.float32(1), values[t]
            if implicit:
                weight = alpha * abs(values[t])
                target = weight + np.float32(1) if values[t] > 0 else np.float32(0)
            dot = np.float32(0)
            for k in range(len(q)):
                dot += q[k] * p[k]
            for k in range(len(q)):
                part[k] += weight * dot * q[k]
            for k in range(len(right)):
                part_of_right[k] += target * q[k]
        product += part
        right += part_of_right


@cached_njit(nogil=True, fastmath=SUMS_IN_ANY_ORDER)
def _start(gram, ridge, p):
    """G p + ridge p."""
    product = ridge * p
    for i in range(len(gram)):
        for k in range(len(p)):
            product[k] += p[i] * gram[i, k]
    return product


@cached_njit(nogil=True, fastmath=SUMS_IN_ANY_ORDER)
def _dot(a, b):
    total = 0.0
    for k in range(len(a)):
        total += np.float64(a[k]) * np.float64(b[k])
    return total


@cached_njit(nogil=True)
def _solve_row(row, indptr, indices, values, fixed, gram, solved, ridge, alpha, steps, tolerance):
    indices, values = indices[indptr[row] : indptr[row + 1]], values[indptr[row] : indptr[row + 1]]
    implicit, nothing = len(gram) > 0, np.zeros(0, np.float32)
    x, b = solved[row], np.zeros(fixed.shape[1], np.float32)
    product = _start(gram, ridge, x)
    _add_products(indices, values, fixed, implicit, alpha, x, product, b)
    residual = b - product
    square, of_right = _dot(residual, residual), _dot(b, b)
    if not square < of_right:  # zero is nearer
        x[:] = 0
        residual[:] = b
        square = of_right
    enough = np.float64(tolerance) ** 2 * of_right
    p = residual.copy()
    for _ in range(steps):
        if square <= enough:
            break
        product = _start(gram, ridge, p)
        _add_products(indices, values, fixed, implicit, alpha, p, product, nothing)
        # A less than the ridge in any direction is nothing but rounding.
        curvature = max(_dot(p, product), np.float64(ridge) * _dot(p, p))
        along = np.float32(square / curvature)
        x += along * p
        residual -= along * product
        before = square
        square = _dot(residual, residual)
        p = residual + np.float32(square / before) * p


@cached_njit(nogil=True)
def _each_row(indptr, indices, values, order, fixed, gram, solved, ridges, alpha, steps, tolerance):
    for row in order:
        _solve_row(row, indptr, indices, values, fixed, gram, solved, ridges[row], alpha, steps, tolerance)


@cached_njit(nogil=True, parallel=True)
def _all_rows(indptr, indices, values, order, fixed, gram, solved, ridges, alpha, steps, tolerance):
    for k in prange(len(order)):
        row = order[k]
        _solve_row(row, indptr, indices, values, fixed, gram, solved, ridges[row], alpha, steps, tolerance)
