"""Products and triangular systems of float32 matrices in C order, as `backends.blas`, by cuBLAS and cuSOLVER.

Products round their operands to TF32, of 10 bits behind the leading one; sums, factors and systems are FP32. To these
libraries, which count columns first, an array in C order is its transpose, and an upper triangle a lower one.
Operands and products may be some rows and columns of an array.
"""

import cupy
import numpy as np
from cupy.cuda import device
from cupy_backends.cuda.libs import cublas, cusolver

_ONE, _ZERO = np.ones(1, np.float32), np.zeros(1, np.float32)
_LOWER = cublas.CUBLAS_FILL_MODE_LOWER
_TURNED = {False: cublas.CUBLAS_OP_N, True: cublas.CUBLAS_OP_T}


def cross(a, b, made, add=False):
    """Write a^T b to `made`, or add it to what is there."""
    _multiply(False, True, (b.shape[1], a.shape[1], len(a)), b, a, made, _ONE if add else _ZERO)


def product(a, b, made, transposed=False, add=False):
    """Write a b to `made`, or add it to what is there; a b^T if transposed."""
    n, inner = a.shape
    _multiply(transposed, False, (made.shape[1], n, inner), b, a, made, _ONE if add else _ZERO)


def _multiply(of_a, of_b, shape, a, b, made, beta):
    (m, n, k), kind = shape, cupy.cuda.runtime.CUDA_R_32F
    (first, to_a), (second, to_b), (third, to_made) = ((x.data.ptr, x.strides[0] // x.itemsize) for x in (a, b, made))
    cublas.gemmEx(
        device.get_cublas_handle(), _TURNED[of_a], _TURNED[of_b], m, n, k, _ONE.ctypes.data, first, kind, to_a,
        second, kind, to_b, beta.ctypes.data, third, kind, to_made, cublas.CUBLAS_COMPUTE_32F_FAST_TF32,
        cublas.CUBLAS_GEMM_DEFAULT,
    )  # fmt: skip


def factor(matrix):
    """Leave U of U^T U = matrix, symmetric and positive definite, in its upper triangle, which alone counts."""
    n, there, handle = len(matrix), matrix.data.ptr, device.get_cusolver_handle()
    work = cupy.empty(cusolver.spotrf_bufferSize(handle, _LOWER, n, there, n), np.float32)
    info = cupy.empty(1, np.int32)  # lives until cuSOLVER has written to it, as `work` does
    cusolver.spotrf(handle, _LOWER, n, there, n, work.data.ptr, work.size, info.data.ptr)


def solve(rows, upper, transposed=False):
    """Leave X of X U = rows in their place; of X U^T if transposed. Of `upper` the upper triangle U counts."""
    n, width = rows.shape
    cublas.strsm(
        device.get_cublas_handle(), cublas.CUBLAS_SIDE_LEFT, _LOWER, _TURNED[transposed],
        cublas.CUBLAS_DIAG_NON_UNIT, width, n, _ONE.ctypes.data, upper.data.ptr, width, rows.data.ptr, width,
    )  # fmt: skip
