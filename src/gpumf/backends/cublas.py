"""Products and triangular systems of float32 matrices in C order, as `backends.blas`, by cuBLAS and cuSOLVER.

Products round their operands to TF32, of 10 bits behind the leading one; sums, factors and triangular systems of few
columns are FP32. To these libraries, which count columns first, an array in C order is its transpose, and an upper
triangle a lower one.
"""

import cupy
import numpy as np
from cupy.cuda import device
from cupy_backends.cuda.libs import cublas, cusolver

_ONE, _ZERO, _MINUS = np.ones(1, np.float32), np.zeros(1, np.float32), -np.ones(1, np.float32)
_BLOCK = 512  # columns of a triangular system that are solved at a time: FP32 has a tenth of the speed of products
_LOWER = cublas.CUBLAS_FILL_MODE_LOWER
_TURNED = {False: cublas.CUBLAS_OP_N, True: cublas.CUBLAS_OP_T}


def gram(rows, made, add=False):
    """Write rows^T rows to `made`, or add it to what is there."""
    _multiply(rows, rows, made, of_a=True, add=add)


def product(a, b, made, transposed=False):
    """Write a b to `made`; a b^T if transposed."""
    _multiply(a, b, made, of_b=transposed)


def _multiply(a, b, made, of_a=False, of_b=False, scale=_ONE, add=False):
    """Write scale a b to `made`, a^T if `of_a`, b^T if `of_b`; parts of larger arrays' columns are welcome."""
    (n, m), inner, kind = made.shape, a.shape[not of_a], cupy.cuda.runtime.CUDA_R_32F
    (second, k2), (first, k1), (third, k3) = ((x.data.ptr, _row(x)) for x in (a, b, made))
    cublas.gemmEx(
        device.get_cublas_handle(), _TURNED[of_b], _TURNED[of_a], m, n, inner, scale.ctypes.data, first, kind, k1,
        second, kind, k2, (_ONE if add else _ZERO).ctypes.data, third, kind, k3, cublas.CUBLAS_COMPUTE_32F_FAST_TF32,
        cublas.CUBLAS_GEMM_DEFAULT,
    )  # fmt: skip


def _row(x):
    """Numbers from a row of an array to the next."""
    return x.strides[0] // x.itemsize


def factor(matrix):
    """Leave U of U^T U = matrix, symmetric and positive definite, in its upper triangle."""
    n, there, handle = len(matrix), matrix.data.ptr, device.get_cusolver_handle()
    work = cupy.empty(cusolver.spotrf_bufferSize(handle, _LOWER, n, there, n), np.float32)
    cusolver.spotrf(handle, _LOWER, n, there, n, work.data.ptr, work.size, cupy.empty(1, np.int32).data.ptr)


def solve(rows, upper, transposed=False):
    """Leave X of X U = rows in their place; of X U^T if transposed. Of `upper` the upper triangle U counts.

    Some columns after others: what is known of X is taken from the right side of the rest, as a product.
    """
    n, width = rows.shape
    for first in range(0, width, _BLOCK)[:: -1 if transposed else 1]:
        chosen = slice(first, min(first + _BLOCK, width))
        x, diagonal = rows[:, chosen], upper[chosen, chosen]
        cublas.strsm(
            device.get_cublas_handle(), cublas.CUBLAS_SIDE_LEFT, _LOWER, _TURNED[transposed],
            cublas.CUBLAS_DIAG_NON_UNIT, len(diagonal), n, _ONE.ctypes.data, diagonal.data.ptr, _row(upper),
            x.data.ptr, _row(rows),
        )  # fmt: skip
        rest = slice(0, first) if transposed else slice(chosen.stop, width)
        if rest.stop > rest.start:
            across = upper[rest, chosen] if transposed else upper[chosen, rest]
            _multiply(x, across, rows[:, rest], of_b=transposed, scale=_MINUS, add=True)
