"""The least time that bytes and operations leave a kernel on this machine: the limit of every `fraction_of_limit`.

Bytes that cannot be avoided: every input read once, every output written once, whatever a kernel reads again.
Operations that must be done: those of the symmetric problem, whatever a kernel does twice. Divided by the ceilings
measured in the same run, the larger time is the limit. Reuse that does not fit a cache, latency and uneven rows all
show as a fraction below one.
"""

from gpumf import backends
from gpumf.backends.cpu import machine

CONJUGATE_GRADIENT = ("cumf_cg", "cumf_cg_fp16", "tensor_core")
"""The versions of ALS whose solutions are approximate."""


def clock(device):
    """The function that times work on 'cuda' or 'cpu': seconds of (work, repeats, warmup)."""
    return backends.device().time if device == "cuda" else machine.seconds_of


def ceilings(device):
    """What 'cuda' or 'cpu' reaches at best, measured now: see `gpumf.backends.cuda.CudaDevice.ceilings`."""
    return backends.device().ceilings() if device == "cuda" else machine.ceilings()


def limit_seconds(moved, flops, ceilings, kernel):
    """The time of the bytes or of the operations, whichever is longer; in FP16 where tensor cores do the latter."""
    rate = ceilings["fp16_flops" if "tensor_core" in kernel else "fp32_flops"]
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
    """(bytes, FLOP) of SGD's updates by all ratings, each once: an inner product, and two rows that are decayed and
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
