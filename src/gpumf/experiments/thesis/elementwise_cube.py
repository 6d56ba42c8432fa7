"""The cube of every element of a square matrix, on the CPU and on the GPU (thesis, Figures 3.3, 3.4 and 3.11)."""

from functools import partial

import numpy as np
import pandas as pd

from gpumf import figure_style as style
from gpumf import gpu
from gpumf.cpu import machine
from gpumf.findings import Finding, Holds, times

_TILE = (32, 8)  # threads of a block: a warp along a row, as in listing 3.3

PROFILES = {
    "quick": {"sides": [256, 512, 1024, 2048, 4096], "repeats": 10},
    "full": {"sides": [256, 512, 1024, 2048, 4096, 8192, 16384], "repeats": 10},
}
PROFILES["smoke"] = PROFILES["quick"] | {"sides": [64, 100], "repeats": 2}


def run(sides, repeats):
    """Time the cube of side x side matrices of random float32.

    Parameters
    ----------
    sides : lengths of a side
    repeats : int, timings of each

    Returns
    -------
    DataFrame with a row a timing: side, device ('one core', 'all cores', 'gpu'), access ('coalesced', 'strided'),
    transfer (whether the copies to the device and back are included), repeat, seconds, limit_seconds (the matrix read
    and written once at the copy bandwidth measured in this run; NaN where transfers are included),
    fraction_of_limit
    """
    bandwidth = {"cpu": machine.ceilings(repeats=repeats)["copy_bytes_per_second"]}
    if gpu.available():
        bandwidth["gpu"] = gpu.device().ceilings(repeats=repeats)["copy_bytes_per_second"]
    rows = []
    for side in sides:
        a = np.random.default_rng(side).random((side, side), np.float32)
        timings = _cpu_timings(a, repeats) + (_kernel_timings(gpu.device(), a, repeats) if gpu.available() else [])
        for device, access, transfer, seconds in timings:
            limit = np.nan if transfer else 2 * a.nbytes / bandwidth["gpu" if device == "gpu" else "cpu"]
            rows += [(side, device, access, transfer, k, s, limit, limit / s) for k, s in enumerate(seconds)]
    return pd.DataFrame(
        rows,
        columns=[
            "side",
            "device",
            "access",
            "transfer",
            "repeat",
            "seconds",
            "limit_seconds",
            "fraction_of_limit",
        ],
    )


def _cpu_timings(a, repeats):
    result = np.empty_like(a)
    return [
        (device, "coalesced", False, machine.seconds_of(lambda cube=cube: cube(a, result), repeats))
        for device, cube in (("one core", machine.cube_one_core), ("all cores", machine.cube_all_cores))
    ]


def cube(device, access):
    """Compiles kernels/microbenchmarks/elementwise_cube.cu to a function of two square matrices of the device."""
    kernel = device.kernel("microbenchmarks/elementwise_cube.cu", access)

    def run(source, result):
        side = len(source)
        kernel((-(-side // _TILE[0]), -(-side // _TILE[1])), _TILE, a=source, result=result, dim=side)

    return run


def _kernel_timings(device, a, repeats):
    timings = []
    source, result = device.array(a), device.empty(a.shape, np.float32)
    for access in ("coalesced", "strided"):
        kernel = cube(device, access)

        def there_and_back(kernel=kernel):
            kernel(device.array(a), result)
            device.to_numpy(result)

        timings.append(("gpu", access, False, device.time(partial(kernel, source, result), repeats)))
        timings.append(("gpu", access, True, machine.seconds_of(there_and_back, repeats)))
    return timings


def summary(frame):
    """The ratios behind the thesis's three readings, at the largest matrix, from the frame of `run`.

    Returns
    -------
    dict: side; all_cores (one core over all cores); and where there was a GPU gpu (one core over the GPU),
    gpu_transfer (the same with transfers), crossover (the smallest side from which the GPU is faster than one core
    even with transfers; None if never), strided (strided over coalesced on the GPU), strided_transfer (the same with
    transfers), fraction (of the memory's limit that the coalesced kernel reaches)
    """
    medians = frame.groupby(["device", "access", "transfer", "side"]).seconds.median()
    side = frame.side.max()
    one_core = medians["one core", "coalesced", False]
    found = {"side": side, "all_cores": one_core[side] / medians["all cores", "coalesced", False, side]}
    if (frame.device == "gpu").any():
        resident, moved = medians["gpu", "coalesced", False], medians["gpu", "coalesced", True]
        slower = one_core[one_core <= moved].index
        after = [s for s in one_core.index if not len(slower) or s > slower.max()]
        found |= {
            "gpu": one_core[side] / resident[side],
            "gpu_transfer": one_core[side] / moved[side],
            "crossover": min(after, default=None),
            "strided": medians["gpu", "strided", False, side] / resident[side],
            "strided_transfer": medians["gpu", "strided", True, side] / moved[side],
            "fraction": frame[
                (frame.device == "gpu") & (frame.access == "coalesced") & (frame.side == side)
            ].fraction_of_limit.median(),
        }
    return found


_CUBE_SERIES = {
    ("one core", "coalesced", False): ("CPU, one core", "blue", "-o"),
    ("all cores", "coalesced", False): ("CPU, all cores", "sky", "-s"),
    ("gpu", "coalesced", False): ("GPU, coalesced", "green", "-o"),
    ("gpu", "strided", False): ("GPU, strided", "orange", "-s"),
    ("gpu", "coalesced", True): ("GPU, coalesced, with transfers", "green", "--^"),
    ("gpu", "strided", True): ("GPU, strided, with transfers", "orange", "--v"),
}


def figure(frame, series=tuple(_CUBE_SERIES)):
    """Median seconds of an element-wise cube against the side of the matrix, the spread of the repeats shaded."""
    figure, ((axis,),) = style.panels(height=4.2)
    groups = dict(list(frame.groupby(["device", "access", "transfer"])))
    for key in series:
        if key in groups:
            label, colour, line = _CUBE_SERIES[key]
            times = groups[key].groupby("side").seconds
            axis.plot(times.median(), line, color=style.COLOURS[colour], label=label, markersize=5)
            axis.fill_between(times.min().index, times.min(), times.max(), color=style.COLOURS[colour], alpha=0.2)
    for device, colour in (("one core", "blue"), ("gpu", "green")):
        if (device, "coalesced", False) in series and (device, "coalesced", False) in groups:
            limit = groups[device, "coalesced", False].groupby("side").limit_seconds.first()
            what = "GPU" if device == "gpu" else "CPU"
            axis.plot(limit, ":", color=style.COLOURS[colour], linewidth=1.2, label=f"limit of the {what}'s memory")
    axis.set(xlabel="side of the matrix (elements)", ylabel="seconds")
    style.log_scale(axis.yaxis)
    axis.set_xscale("log", base=2)
    style.legend(figure, axis, 3)
    return figure


def _times(frame, slower, faster):
    """How many times as long the first takes at the largest side, each being (device, access, transfer)."""
    largest = frame[frame.side == frame.side.max()].set_index(["device", "access", "transfer"])
    return times(largest.seconds, slower, faster)


_ONE_CORE, _ALL_CORES = ("one core", "coalesced", False), ("all cores", "coalesced", False)
_GPU, _MOVED = ("gpu", "coalesced", False), ("gpu", "coalesced", True)
FINDINGS = [
    Finding(
        "thesis-fig-3.3",
        "thesis",
        "Figure 3.3",
        "Without transfers the GPU cubes the elements of a large matrix faster than all cores.",
        partial(_times, slower=_ALL_CORES, faster=_GPU),
        Holds(above=1),
    ),
    Finding(
        "thesis-fig-3.4",
        "thesis",
        "Figure 3.4",
        "Transfers take more than half of the speed: what is left of it.",
        partial(_times, slower=_GPU, faster=_MOVED),
        Holds(below=0.5),
    ),
    Finding(
        "thesis-fig-3.4-gain",
        "thesis",
        "Figure 3.4",
        "With transfers the GPU is still faster than one core.",
        partial(_times, slower=_ONE_CORE, faster=_MOVED),
        Holds(above=1),
    ),
    Finding(
        "thesis-fig-3.11",
        "thesis",
        "Figure 3.11",
        "Strided access is slower than coalesced, with transfers in both times.",
        partial(_times, slower=("gpu", "strided", True), faster=_MOVED),
        Holds(above=1),
    ),
    Finding(
        "thesis-fig-3.11-kernel",
        "thesis",
        "Figure 3.11",
        "Strided access is slower than coalesced, in the kernel alone.",
        partial(_times, slower=("gpu", "strided", False), faster=_GPU),
        Holds(above=1),
    ),
]
