"""What this CPU reaches at best, and the element-wise cube that the study opens with."""

import time

import numpy as np
from numba import njit, prange


@njit(nogil=True)
def cube_one_core(a, result):
    """result = a^3 element by element on one thread; float32 arrays of one shape, C order."""
    flat, out = a.ravel(), result.ravel()
    for k in range(flat.size):
        out[k] = flat[k] * flat[k] * flat[k]


@njit(nogil=True, parallel=True)
def cube_all_cores(a, result):
    """The same on all threads."""
    flat, out = a.ravel(), result.ravel()
    for k in prange(flat.size):
        out[k] = flat[k] * flat[k] * flat[k]


@njit(nogil=True, parallel=True)
def _copy(source, target):
    for k in prange(source.size):
        target[k] = source[k]


def seconds_of(work, repeats=10, warmup=2):
    """Seconds that each of `repeats` calls of work() takes by the host's clock, float64 (repeats,)."""
    for _ in range(warmup):
        work()
    seconds = np.empty(repeats)
    for k in range(repeats):
        started = time.perf_counter()
        work()
        seconds[k] = time.perf_counter() - started
    return seconds


def ceilings(n=2048, repeats=10):
    """What all threads reach at best, measured now, in the words of `gpumf.backends.cuda.CudaDevice.ceilings`.

    Returns dict: copy_bytes_per_second (bytes read plus bytes written, arrays far larger than the caches), fp32_flops
        (n x n x n matrix product of NumPy's BLAS on random data)
    """
    source = np.random.default_rng(0).random(1 << 26, np.float32)
    target = np.empty_like(source)
    copy = seconds_of(lambda: _copy(source, target), repeats)
    a, b = (np.random.default_rng(k).standard_normal((n, n), np.float32) for k in range(2))
    product = np.empty_like(a)
    multiply = seconds_of(lambda: np.matmul(a, b, out=product), repeats)
    return {
        "copy_bytes_per_second": 2 * source.nbytes / np.median(copy),
        "fp32_flops": 2 * n**3 / np.median(multiply),
    }
