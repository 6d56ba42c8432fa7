"""What drawings read off the kernels, as they run on the CPU: who touches what, and who holds what."""

from functools import cache
from pathlib import Path

import numpy as np

from gpumf import backends
from gpumf.solvers.base import shape_of

_SOURCE = Path(__file__).with_name("probes.cu")


def traced(launch):
    """How the threads of a launch touched the arrays of the device, in an order that is the same every time.

    Parameters
    ----------
    launch : function of a `gpumf.backends.emulator.EmulatorDevice` that launches one kernel

    Returns
    -------
    DataFrame as `EmulatorDevice.shuffled` says
    """
    device, trace = backends.device("emulator"), []
    with device.shuffled(0, trace):
        launch(device)
    return trace[0]


def _kernel(name, factors=16):
    return backends.device("emulator").kernel(_SOURCE, name, FACTORS=factors)


@cache
def plan(factors):
    """Which warp of tensor_core.cu computes which tiles of A.

    Returns
    -------
    (tiles, shape) : int32 (tiles, 3) of warp, row and column, each warp's in its order; warps, tiles and the
        16 x 8 sums of a thread's warp, `quads`
    """
    shape = shape_of(backends.device("emulator"), _SOURCE, FACTORS=factors)
    tiles = np.empty((shape.tiles, 3), np.int32)
    _kernel("plan", factors)(1, 1, tiles=tiles)
    return tiles, shape


@cache
def pipeline(factors):
    """Of tensor_core.cu (ratings of a stage, stages copied ahead of the one in use, threads of a team, teams)."""
    numbers, path = np.empty(4, np.int32), _SOURCE.with_name("pipeline.cu")
    defines = {"FACTORS": factors, "IMPLICIT": 0, "BATCHED": 0, "STAGE_ROWS": 64, "WGMMA": 0, "THROUGH_L1": 1}
    backends.device("emulator").kernel(path, "pipeline", **defines)(1, 1, numbers=numbers)
    return tuple(numbers.tolist())
