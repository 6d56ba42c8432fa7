"""What limits a kernel: the least time that bytes and operations leave it, and how many of its blocks are resident.

The least time is the limit of every `fraction_of_limit`. Bytes that cannot be avoided: every input read once, every
output written once, whatever a kernel reads again. Operations that must be done: those of the symmetric problem,
whatever a kernel does twice. Divided by the ceilings measured in the same run, the larger time is the limit. Reuse
that does not fit a cache, latency and uneven rows all show as a fraction below one.
"""

import numpy as np
from numba import njit, prange

from gpumf import backends
from gpumf.backends.cpu.timing import seconds_of

FUSED = "tensor_core", "warpgroups"
"""The versions of ALS that gather factors in half precision, and solve by conjugate gradient in the same kernel."""
HALF_PRODUCTS = *FUSED, "wmma_simple"
"""The versions of ALS that multiply in half precision, on the tensor cores."""
CONJUGATE_GRADIENT = "cumf_cg", "cumf_cg_fp16", *FUSED
"""The versions of ALS whose solutions are approximate."""


def clock(device):
    """The function that times work on 'cuda' or 'cpu': seconds of (work, repeats, warmup)."""
    return backends.device().time if device == "cuda" else seconds_of


def ceilings(device, **options):
    """What 'cuda' or 'cpu' reaches at best, measured now: see `gpumf.backends.cuda.CudaDevice.ceilings`."""
    return backends.device().ceilings(**options) if device == "cuda" else cpu_ceilings(**options)


def cpu_ceilings(n=2048, repeats=10):
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


@njit(nogil=True, parallel=True)
def _copy(source, target):
    for k in prange(source.size):
        target[k] = source[k]


def limit_seconds(moved, flops, ceilings, kernel):
    """The time of the bytes or of the operations, whichever is longer; in FP16 where tensor cores do the latter."""
    rate = ceilings["fp16_flops" if any(name in kernel for name in HALF_PRODUCTS) else "fp32_flops"]
    return max(moved / ceilings["copy_bytes_per_second"], flops / rate)


def side_update(rows, columns, nnz, f, cg_steps=None, implicit=False):
    """(bytes, FLOP) of solving all rows from the factors of all columns.

    cg_steps : of an approximate solution, all of which are counted though a row may need fewer; None for an exact one
    implicit : whether Theta^T Theta over all columns is part of every row's system
    """
    moved = 8 * nnz + 8 * (rows + 1) + 4 * f * (rows + columns)
    flops = nnz * (f * (f + 1) + 2 * f) + rows * _solve_flops(f, cg_steps)
    return moved, flops + (columns * f * (f + 1) if implicit else 0)


def epoch_of_updates(rows, columns, nnz, f):
    """(bytes, FLOP) of SGD's updates, one a rating: an inner product, and two rows that are decayed and
    moved by a multiple of the other one."""
    return 12 * nnz + 2 * 4 * f * (rows + columns), 8 * f * nnz


def phases(rows, columns, nnz, f, cg_steps=None, entry_bytes=4, fused_bias=True):
    """The same of each phase where A is written to memory and read from it: a dict of (bytes, FLOP).

    entry_bytes : of an entry of A, of which the lower triangle counts
    fused_bias : whether b is made with A
    """
    ratings, theta, b, a = 8 * nnz + 8 * (rows + 1), 4 * f * columns, 4 * f * rows, f * (f + 1) // 2
    matrices = entry_bytes * a * rows
    hermitian = ratings + theta + matrices + (b if fused_bias else 0)
    return {
        "get_gram": (theta + 4 * a, columns * f * (f + 1)),
        "get_hermitian": (hermitian, nnz * (f * (f + 1) + (2 * f if fused_bias else 0))),
        "get_bias": (ratings + theta + b, nnz * 2 * f),
        "solve": (matrices + 2 * b, rows * _solve_flops(f, cg_steps)),
    }


def _solve_flops(f, cg_steps):
    """A third of f^3 and two substitutions; or a product with A for the residual and one a step, if that is less."""
    exact = f**3 / 3 + 2 * f**2
    return exact if cg_steps is None else min(exact, 2 * f**2 * (cg_steps + 1))


_WARP = 32
# A warp's registers come in portions; the warps of a multiprocessor are shared out evenly over its schedulers.
_REGISTER_PORTION, _SCHEDULERS = 256, 4
_SHARED_PORTION = 128  # bytes

# The thesis's GTX 770 (compute capability 3.0), in the words of a device's facts.
KEPLER = {
    "multiprocessors": 8,
    "threads_per_multiprocessor": 2048,
    "blocks_per_multiprocessor": 16,
    "registers_per_multiprocessor": 65536,
    "shared_bytes_per_multiprocessor": 48 << 10,
}


def active_blocks(facts, threads, registers=0, shared_bytes=0):
    """Blocks that are resident on a multiprocessor at a time: what threads, registers or shared memory run out for.

    The thesis's equation 6.2 is the last of the three.

    facts : dict of threads_per_multiprocessor, blocks_per_multiprocessor, registers_per_multiprocessor,
        shared_bytes_per_multiprocessor, reserved_shared_bytes (of every block, for the system); one that is
        missing limits nothing
    threads : int, of a block
    registers : int, of a thread
    shared_bytes : int, of a block, static and dynamic
    """
    warps = -(-threads // _WARP)
    of_warp = -(-registers * _WARP // _REGISTER_PORTION) * _REGISTER_PORTION
    of_block = -(-(shared_bytes + facts.get("reserved_shared_bytes", 0)) // _SHARED_PORTION) * _SHARED_PORTION
    blocks = [facts["threads_per_multiprocessor"] // (warps * _WARP)]
    if "blocks_per_multiprocessor" in facts:
        blocks.append(facts["blocks_per_multiprocessor"])
    if of_warp and "registers_per_multiprocessor" in facts:
        of_scheduler = facts["registers_per_multiprocessor"] // _SCHEDULERS // of_warp
        blocks.append(of_scheduler * _SCHEDULERS // warps)
    if of_block and "shared_bytes_per_multiprocessor" in facts:
        blocks.append(facts["shared_bytes_per_multiprocessor"] // of_block)
    return min(blocks)
