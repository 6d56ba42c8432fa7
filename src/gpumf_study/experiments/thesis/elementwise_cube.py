"""The cube of every element of a square matrix, on the CPU and on the GPU (thesis, Figures 3.3, 3.4 and 3.11).

Nothing is allocated while the clock runs: on either side of the bus the matrix and the result have their places. The
thesis does not say in what memory of the host it had them. Here they are in both kinds: pageable, as every program's
arrays are, and pinned, which the GPU reads and writes by itself.
"""

from functools import partial

import numpy as np
import pandas as pd

from gpumf import backends
from gpumf.backends.cpu import machine
from gpumf_study import figure_style as style
from gpumf_study.findings import Finding, Holds, times

HOSTS = "pageable", "pinned"
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
    repeats : int, timings of each; on the GPU the two accesses take turns

    Returns
    -------
    DataFrame with a row a timing: side, device ('one core', 'all cores', 'gpu'), access ('coalesced', 'strided'),
    transfer (one of HOSTS, from which and to which the copies are made that are included; 'resident' without),
    repeat, seconds, limit_seconds (the matrix read and written once at the copy bandwidth measured in this run; NaN
    where transfers are included), fraction_of_limit
    """
    bandwidth = {"cpu": machine.ceilings(repeats=repeats)["copy_bytes_per_second"]}
    if backends.available():
        bandwidth["gpu"] = backends.device().ceilings(repeats=repeats)["copy_bytes_per_second"]
    rows = []
    for side in sides:
        a = np.random.default_rng(side).random((side, side), np.float32)
        timings = _cpu_timings(a, repeats) + (
            _kernel_timings(backends.device(), a, repeats) if backends.available() else []
        )
        for device, access, transfer, seconds in timings:
            limit = np.nan if transfer in HOSTS else 2 * a.nbytes / bandwidth["gpu" if device == "gpu" else "cpu"]
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
        (device, "coalesced", "resident", machine.seconds_of(lambda cube=cube: cube(a, result), repeats))
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
        series.append((host, _in_turns(machine.seconds_of, works, repeats)))
    return [("gpu", access, where, of[k]) for k, access in enumerate(kernels) for where, of in series]


def _in_turns(clock, works, repeats):
    """Seconds of `repeats` calls of each of these functions, float64 (len(works), repeats).

    One call of each at a time, so that what drifts meanwhile, as copies from pageable memory do, is no difference
    between them.
    """
    return np.transpose([[clock(work, 1, warmup=0 if k else 2)[0] for work in works] for k in range(repeats)])


def summary(frame):
    """The ratios behind the thesis's three readings, at the largest matrix, from the frame of `run`.

    Returns
    -------
    dict: side; all_cores (one core over all cores); and where there was a GPU gpu (one core over the GPU), strided
    (strided over coalesced on the GPU), fraction (of the memory's limit that the coalesced kernel reaches), and of
    each of HOSTS, as gpu_pinned, gpu_<host> and strided_<host> (the same with transfers), crossover_<host> (the
    smallest side from which the GPU is faster than one core even with transfers; None if never)
    """
    medians = frame.groupby(["device", "access", "transfer", "side"]).seconds.median()
    side = frame.side.max()
    one_core = medians["one core", "coalesced", "resident"]
    found = {"side": side, "all_cores": one_core[side] / medians["all cores", "coalesced", "resident", side]}
    if (frame.device == "gpu").any():
        resident = medians["gpu", "coalesced", "resident"]
        of_gpu = frame[(frame.device == "gpu") & (frame.access == "coalesced") & (frame.side == side)]
        found |= {
            "gpu": one_core[side] / resident[side],
            "strided": medians["gpu", "strided", "resident", side] / resident[side],
            "fraction": of_gpu.fraction_of_limit.median(),
        }
        for host in HOSTS:
            moved = medians["gpu", "coalesced", host]
            slower = one_core[one_core <= moved].index
            after = [s for s in one_core.index if not len(slower) or s > slower.max()]
            found |= {
                f"gpu_{host}": one_core[side] / moved[side],
                f"strided_{host}": medians["gpu", "strided", host, side] / moved[side],
                f"crossover_{host}": min(after, default=None),
            }
    return found


_CUBE_SERIES = {
    ("one core", "coalesced", "resident"): ("CPU, one core", "blue", "-o"),
    ("all cores", "coalesced", "resident"): ("CPU, all cores", "sky", "-s"),
    ("gpu", "coalesced", "resident"): ("GPU, coalesced", "green", "-o"),
    ("gpu", "strided", "resident"): ("GPU, strided", "orange", "-s"),
    ("gpu", "coalesced", "pinned"): ("GPU, coalesced, moved, pinned", "green", "--^"),
    ("gpu", "coalesced", "pageable"): ("GPU, coalesced, moved, pageable", "green", ":^"),
    ("gpu", "strided", "pinned"): ("GPU, strided, moved, pinned", "orange", "--v"),
    ("gpu", "strided", "pageable"): ("GPU, strided, moved, pageable", "orange", ":v"),
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
        if (device, "coalesced", "resident") in series and (device, "coalesced", "resident") in groups:
            limit = groups[device, "coalesced", "resident"].groupby("side").limit_seconds.first()
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


_ONE_CORE, _ALL_CORES = ("one core", "coalesced", "resident"), ("all cores", "coalesced", "resident")
_GPU = "gpu", "coalesced", "resident"
FINDINGS = [
    Finding(
        "thesis-fig-3.3",
        "thesis",
        "Figure 3.3",
        "Without transfers the GPU cubes the elements of a large matrix faster than all cores.",
        partial(_times, slower=_ALL_CORES, faster=_GPU),
        Holds(above=1),
    ),
    *(
        Finding(
            f"thesis-fig-3.4-{host}",
            "thesis",
            "Figure 3.4",
            f"Transfers from and to {host} memory take more than half of the speed: what is left of it.",
            partial(_times, slower=_GPU, faster=("gpu", "coalesced", host)),
            Holds(below=0.5),
        )
        for host in HOSTS
    ),
    *(
        Finding(
            f"thesis-fig-3.4-gain-{host}",
            "thesis",
            "Figure 3.4",
            f"With transfers from and to {host} memory the GPU is still faster than one core.",
            partial(_times, slower=_ONE_CORE, faster=("gpu", "coalesced", host)),
            Holds(above=1),
        )
        for host in HOSTS
    ),
    *(
        Finding(
            f"thesis-fig-3.11-{host}",
            "thesis",
            "Figure 3.11",
            f"Strided access is slower than coalesced, with transfers from and to {host} memory in both times.",
            partial(_times, slower=("gpu", "strided", host), faster=("gpu", "coalesced", host)),
            Holds(above=1),
        )
        for host in HOSTS
    ),
    Finding(
        "thesis-fig-3.11-kernel",
        "thesis",
        "Figure 3.11",
        "Strided access is slower than coalesced, in the kernel alone.",
        partial(_times, slower=("gpu", "strided", "resident"), faster=_GPU),
        Holds(above=1),
    ),
]
