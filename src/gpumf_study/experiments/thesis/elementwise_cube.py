"""The cube of every element of a square matrix, on the CPU and on the GPU (thesis, Figures 3.3, 3.4 and 3.11).

Nothing is allocated while the clock runs: on either side of the bus the matrix and the result have their places. On
the host they are in pageable memory, as in the thesis's listing 3.2, and in pinned memory, which the GPU reads and
writes by itself.
"""

from functools import partial

import numpy as np
import pandas as pd
from numba import njit, prange

from gpumf import backends
from gpumf._util.threads import cores
from gpumf.backends.cpu.timing import seconds_of
from gpumf_study import figure_style as style
from gpumf_study.claims import Claim, above, below
from gpumf_study.experiments import _limits

HOSTS = "pageable", "pinned"
_TILE = (32, 8)  # threads of a block: a warp along a row, as in listing 3.3

PROFILES = {
    "quick": {"sides": [256, 512, 1024, 2048, 4096], "repeats": 10},
    "full": {"sides": [256, 512, 1024, 2048, 4096, 8192, 16384], "repeats": 10},
}
PROFILES["smoke"] = PROFILES["quick"] | {"sides": [64, 100], "repeats": 2}


def run(sides, repeats):
    """Time the cube of side x side matrices of random float32.

    sides : lengths of a side
    repeats : int, timings of each; on the GPU the two accesses take turns

    Return a DataFrame with a row a timing: device, threads (of the CPU), variant ('coalesced', 'strided'), x_side,
    x_transfer (one of HOSTS, from which and to which the copies are made that are included; 'resident' without),
    seconds, x_limit_seconds (the matrix read and written once at the copy bandwidth measured in this run; missing
    where transfers are included)
    """
    bandwidth = {"cpu": _limits.ceilings("cpu", repeats=repeats)["copy_bytes_per_second"]}
    if backends.available():
        bandwidth["cuda"] = _limits.ceilings("cuda", repeats=repeats)["copy_bytes_per_second"]
    rows = []
    for side in sides:
        a = np.random.default_rng(side).random((side, side), np.float32)
        timings = _cpu_timings(a, repeats)
        if backends.available():
            timings += _kernel_timings(backends.device(), a, repeats)
        for threads, access, transfer, seconds in timings:
            device = "cpu" if threads else "cuda"
            limit = np.nan if transfer in HOSTS else 2 * a.nbytes / bandwidth[device]
            what = {"task": "cube", "device": device, "threads": threads}
            what |= {"variant": access, "x_side": side, "x_transfer": transfer, "x_limit_seconds": limit}
            rows += [what | {"repeat": k, "seconds": s} for k, s in enumerate(seconds)]
    return pd.DataFrame(rows)


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


def _cpu_timings(a, repeats):
    result = np.empty_like(a)
    return [
        (threads, "coalesced", "resident", seconds_of(lambda cube=cube: cube(a, result), repeats))
        for threads, cube in ((1, cube_one_core), (cores(), cube_all_cores))
    ]


def cube(device, access):
    """Compiles kernels/microbenchmarks/elementwise_cube.cu to a function of two square matrices of the device."""
    kernel = device.kernel("microbenchmarks/elementwise_cube.cu", access)

    def run(source, result):
        side = len(source)
        kernel((-(-side // _TILE[0]), -(-side // _TILE[1])), _TILE, a=source, result=result, dim=side)

    return run


def _kernel_timings(device, a, repeats):
    source, result = device.array(a), device.empty(a.shape, np.float32)
    pinned = [device.empty_pinned(a.shape, np.float32) for _ in range(2)]
    pinned[0][:] = a
    places = dict(zip(HOSTS, ((a, np.zeros_like(a)), pinned), strict=True))
    kernels = {access: cube(device, access) for access in ("coalesced", "strided")}

    def there_and_back(kernel, before, after):
        device.upload(before, source)
        kernel(source, result)
        device.download(result, after)

    works = [partial(kernel, source, result) for kernel in kernels.values()]
    series = [("resident", _in_turns(device.time, works, repeats))]
    for host, arrays in places.items():
        works = [partial(there_and_back, kernel, *arrays) for kernel in kernels.values()]
        series.append((host, _in_turns(seconds_of, works, repeats)))
    return [(None, access, where, of[k]) for k, access in enumerate(kernels) for where, of in series]


def _in_turns(clock, works, repeats):
    """Seconds of `repeats` calls of each of these functions, float64 (len(works), repeats).

    One call of each at a time, so that what drifts meanwhile, as copies from pageable memory do, is no difference
    between them.
    """
    return np.transpose([[clock(work, 1, warmup=0 if k else 2)[0] for work in works] for k in range(repeats)])


def largest(frame):
    """Return the rows of the largest matrix."""
    return frame[frame.x_side == frame.x_side.max()]


def _series(frame):
    """What each row is of: 'single', 'multi' (threads of the CPU) or 'gpu'; variant; transfer."""
    on_cpu = np.where(frame.threads == 1, "single", "multi")
    return [pd.Series(np.where(frame.device == "cpu", on_cpu, "gpu"), frame.index), frame.variant, frame.x_transfer]


_SERIES = {
    ("single", "coalesced", "resident"): ("single-threaded CPU", "blue", "-o"),
    ("multi", "coalesced", "resident"): ("multi-threaded CPU", "sky", "-s"),
    ("gpu", "coalesced", "resident"): ("GPU, coalesced", "green", "-o"),
    ("gpu", "strided", "resident"): ("GPU, strided", "orange", "-s"),
    ("gpu", "coalesced", "pinned"): ("GPU, coalesced, with transfers, pinned", "green", "--^"),
    ("gpu", "coalesced", "pageable"): ("GPU, coalesced, with transfers, pageable", "green", ":^"),
    ("gpu", "strided", "pinned"): ("GPU, strided, with transfers, pinned", "orange", "--v"),
    ("gpu", "strided", "pageable"): ("GPU, strided, with transfers, pageable", "orange", ":v"),
}


def figure(frame):
    """Draw the median seconds of an element-wise cube against the side of the matrix, with the range of repeats."""
    figure, ((axis,),) = style.panels(height=4.2)
    groups = dict(list(frame.groupby(_series(frame))))
    for key, (label, colour, line) in _SERIES.items():
        if key in groups:
            times = groups[key].groupby("x_side").seconds
            axis.plot(times.median(), line, color=style.COLOURS[colour], label=label, markersize=5)
            axis.fill_between(times.min().index, times.min(), times.max(), color=style.COLOURS[colour], alpha=0.2)
    axis.set(xlabel="side of the matrix (elements)", ylabel="seconds")
    style.log_scale(axis.yaxis)
    axis.set_xscale("log", base=2)
    style.legend(figure, axis, 2)
    return figure


def _lot(transfer="resident", variant="coalesced", **where):
    return {"x_transfer": transfer, "variant": variant, "device": "cuda"} | where


_SINGLE = _lot(device="cpu", threads=1)
# Figure and rest of the id; statement; slower and faster lot; criterion. The thesis's memory is pageable
# (listing 3.2): of pinned memory nothing is published.
_FIGURES = [
    ("3.3", "Speed-up of the GPU over the multi-threaded CPU, data in place.",
     _lot(device="cpu", threads=[*range(2, 1025)]), _lot(), above(1)),
    *((f"3.4-{host}", f"Speed that transfers from and to {host} memory leave.", _lot(), _lot(host),
       below(0.5) if host == "pageable" else None) for host in HOSTS),
    *((f"3.4-gain-{host}", f"Speed-up over the single-threaded CPU with transfers from and to {host} memory.",
       _SINGLE, _lot(host), above(1) if host == "pageable" else None) for host in HOSTS),
    *((f"3.11-{host}", f"Time of strided over coalesced access, with transfers from and to {host} memory.",
       _lot(host, "strided"), _lot(host), above(1) if host == "pageable" else None) for host in HOSTS),
    ("3.11-kernel", "Time of strided over coalesced access, kernel.", _lot(variant="strided"), _lot(), None),
]  # fmt: skip
CLAIMS = [
    Claim(f"thesis-fig-{name}", "thesis", f"Figure {name.split('-')[0]}", statement, metric="ratio",
          select={"column": "seconds", "over": over, "under": under}, criterion=criterion, table=largest)
    for name, statement, over, under, criterion in _FIGURES
]  # fmt: skip
