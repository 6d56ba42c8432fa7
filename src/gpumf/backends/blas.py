"""Products and triangular systems of float32 matrices in C order, on the CPU: what `backends.cublas` has on a GPU."""

import numpy as np
from scipy.linalg import solve_triangular


def cross(a, b, made, add=False):
    """Write a^T b to `made`, or add it to what is there."""
    made[...] = a.T @ b + (made if add else 0)


def product(a, b, made, transposed=False, add=False):
    """Write a b to `made`, or add it to what is there; a b^T if transposed."""
    made[...] = a @ (b.T if transposed else b) + (made if add else 0)


def factor(matrix):
    """Leave U of U^T U = matrix, symmetric and positive definite, in its upper triangle, which alone counts."""
    matrix[...] = np.linalg.cholesky(matrix.T).T


def solve(rows, upper, transposed=False):
    """Leave X of X U = rows in their place; of X U^T if transposed. Of `upper` the upper triangle U counts."""
    rows[...] = solve_triangular(upper, rows.T, trans="N" if transposed else "T", check_finite=False).T
