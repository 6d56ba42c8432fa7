"""A user or item update of ALS on the CPU, compiled for a fixed number of factors: native/als.cpp, or Numba.

Numba takes the place of C++ where there is no compiler. Both do the arithmetic of `kernels/als/thesis.cu` in an order
that suits a CPU: FP32, A = sum v v^T + ridge I, A = L D L^T, two substitutions. Loops over factors have constant
bounds, so that they are unrolled and fill SIMD registers.
"""

from functools import cache

import numpy as np

from gpumf._util import threads
from gpumf._util.jit import cached_by_size, cached_njit, prange
from gpumf.backends import compile
from gpumf.backends.cpu.shapes import takes

# Loops over part of a row start or stop at multiples of this many floats: full SIMD registers (512 bits).
_SIMD = 16
# Ratings summed up in one go: a running FP32 sum over a row of 100,000 loses four digits, a sum of sums does not.
_CHUNK = 1024
# A pivot this far below its diagonal entry, or such a change of a diagonal entry, is nothing but rounding in FP32.
_ROUNDING = np.float32(2.0**-21)
_ROWS = "int64 rows+1", "int32 nnz", "float32 nnz"


def side_update(factors, parallel):
    """Compile side_update(indptr, indices, values, fixed, solved, regularization, weighted).

    factors : int f
    parallel : bool, rows over all threads instead of one after another
    Returns a function that overwrites `solved`, float32 (rows, f), with the solutions of the rows' normal equations
        (thesis, equations 5.1 and 5.2), given the CSR rows and `fixed`, float32 (columns, f), the factors of the
        other side. A row without ratings gets zeros.
    """
    # Each keeps what it compiled. The choice is not kept: after a fork Numba's is another one, of one thread.
    side_update = native_update(factors, parallel) or numba_update(factors, parallel)
    return takes(*_ROWS, "float32 columns f", "float32 rows f", f=factors)(side_update)


@cache
def native_update(factors, parallel):
    """As `side_update`, in C++; None where it does not compile here."""
    kinds = "int64* int32* float32* float32* float32* int64 float32 bool int32"
    run = compile.function("als.cpp", "side_update", kinds, FACTORS=factors)

    def side_update(indptr, indices, values, fixed, solved, regularization, weighted):
        on = threads.count() if parallel else 1
        run(indptr, indices, values, fixed, solved, len(indptr) - 1, regularization, weighted, on)

    return run and side_update


@cache
def native_sums(factors):
    """Compile sums(indptr, indices, values, scales, fixed, systems), in C++; None where it does not compile here.

    Returns a function that overwrites each row of `systems`, float32 (rows, f (f + 1) / 2 + f), with the lower
        triangle of the row's sum s^2 v v^T, row by row, and its sum r s v, on all threads, given the CSR rows and
        `fixed`, float32 (columns, f). scales, s: float32, one a rating, or None for 1
    """
    kinds = "int64* int32* float32* void* float32* float32* int64 int32"
    run = compile.function("als.cpp", "sums", kinds, FACTORS=factors)

    @takes(*_ROWS, "", "float32 columns f", "float32 rows system", f=factors, system=factors * (factors + 3) // 2)
    def sums(indptr, indices, values, scales, fixed, systems):
        if scales is not None and np.shape(scales) != values.shape:
            raise ValueError(f"sums: there are {np.shape(scales)} scales of ratings {values.shape}")
        of_scales = None if scales is None else np.ascontiguousarray(scales, np.float32).ctypes
        run(indptr, indices, values, of_scales, fixed, systems, len(indptr) - 1, threads.count())

    return run and sums


@cached_by_size
def numba_update(factors, parallel):
    """As `side_update`, by Numba."""
    from numba import njit, prange, types

    solve_row = _row_solver(factors)

    # Not cached on disk: Numba's cache cannot tell apart closures that differ in their compiler flags alone.
    @njit(
        types.void(
            *(types.Array(kind, 1, "C", readonly=True) for kind in (types.int64, types.int32)),
            types.float32[::1],
            *[types.float32[:, ::1]] * 2,
            types.float32,
            types.boolean,
        ),
        fastmath=True,
        nogil=True,
        parallel=parallel,
    )
    def side_update(indptr, indices, values, fixed, solved, regularization, weighted):
        for row in prange(len(indptr) - 1):
            solve_row(row, indptr, indices, values, fixed, solved, regularization, weighted)

    return side_update


@cache
def _row_solver(factors):
    from numba import njit

    @njit(fastmath=True, nogil=True)
    def add_products(begin, end, indices, values, fixed, a, b):
        # Four ratings a pass: a is loaded and stored once for four products.
        p = begin
        while p + 4 <= end:
            v0, v1 = fixed[indices[p]], fixed[indices[p + 1]]
            v2, v3 = fixed[indices[p + 2]], fixed[indices[p + 3]]
            r0, r1, r2, r3 = values[p], values[p + 1], values[p + 2], values[p + 3]
            for i in range(factors):
                b[i] += r0 * v0[i] + r1 * v1[i] + r2 * v2[i] + r3 * v3[i]
                for k in range(min(factors, (i // _SIMD + 1) * _SIMD)):
                    a[i, k] += v0[i] * v0[k] + v1[i] * v1[k] + v2[i] * v2[k] + v3[i] * v3[k]
            p += 4
        while p < end:
            v = fixed[indices[p]]
            for i in range(factors):
                b[i] += values[p] * v[i]
                for k in range(min(factors, (i // _SIMD + 1) * _SIMD)):
                    a[i, k] += v[i] * v[k]
            p += 1

    @njit(fastmath=True, nogil=True)
    def solve_row(row, indptr, indices, values, fixed, solved, regularization, weighted):
        begin, end = indptr[row], indptr[row + 1]
        if begin == end:
            solved[row, :] = np.float32(0)
            return

        a, b = np.zeros((factors, factors), np.float32), np.zeros(factors, np.float32)
        for first in range(begin, end, _CHUNK):
            last = min(first + _CHUNK, end)
            if first == begin:
                add_products(first, last, indices, values, fixed, a, b)
            else:
                chunk_a, chunk_b = np.zeros_like(a), np.zeros_like(b)
                add_products(first, last, indices, values, fixed, chunk_a, chunk_b)
                a += chunk_a
                b += chunk_b
        ridge = regularization * np.float32(end - begin) if weighted else regularization
        inverse = np.empty(factors, np.float32)
        for i in range(factors):
            a[i, i] += ridge
            inverse[i] = _ROUNDING * a[i, i]

        # L D L^T from above: row j of `a`, right of the diagonal, becomes D_jj L^T. The trailing matrix stays
        # symmetric, so that whole SIMD registers of a row are updated and its left part is simply not used.
        for i in range(factors):
            for k in range(i + 1, factors):
                a[i, k] = a[k, i]
        # A pivot that is nothing but rounding counts as infinite: its unknown, which others make up for, becomes 0.
        for j in range(factors):
            inverse[j] = np.float32(1) / a[j, j] if a[j, j] > inverse[j] else np.float32(0)
            for i in range(j + 1, factors):
                scaled = a[j, i] * inverse[j]
                for k in range(i // _SIMD * _SIMD, factors):
                    a[i, k] -= scaled * a[j, k]

        for j in range(factors):
            scaled = b[j] * inverse[j]
            for i in range(j + 1, factors):
                b[i] -= scaled * a[j, i]
        for j in range(factors - 1, -1, -1):
            for i in range(j + 1, factors):
                b[j] -= a[j, i] * b[i]
            b[j] *= inverse[j]
        for i in range(factors):
            solved[row, i] = b[i]

    return solve_row


@takes(*_ROWS, "float32 columns f", "float32 f f", "float32 rows f", "float32 rows")
@cached_njit(nogil=True, parallel=True)
def implicit_update(indptr, indices, values, fixed, gram, solved, ridges, alpha):
    """A user or item update on implicit feedback, rows over all threads: see `gpumf.ImplicitALS`.

    gram : float32 (f, f), fixed^T fixed; ridges : float32 (rows,), lambda of each; the others as of `side_update`
    """
    for row in prange(len(indptr) - 1):
        seen = indices[indptr[row] : indptr[row + 1]]
        given = values[indptr[row] : indptr[row + 1]]
        preferred = given > 0
        weights = alpha * np.abs(given)
        if preferred.any():
            v = fixed[seen]
            weighted = v * weights.reshape(-1, 1)
            system = gram + v.T @ weighted
            for k in range(len(system)):  # weights that leave nothing of the ridge would make it singular
                system[k, k] += ridges[row]
                system[k, k] += _ROUNDING * system[k, k]
            solved[row] = np.linalg.solve(system, (weighted + v)[preferred].sum(axis=0))
        else:
            solved[row] = np.float32(0)
