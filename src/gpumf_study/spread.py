"""The spread of times between runs: from stored results in which different runs timed the same work.

Repeats of one process share its clock rates, its memory and its machine. What two runs differ by comes on top of what
repeats differ by, and is in the intervals of all ratios of times. All that the same two runs timed counts as one
observation, since it shares what made them differ.
"""

from functools import cache

import numpy as np
import pandas as pd

from gpumf_study import results, sweep


def _phases(frame):
    """Of als_versions and cumf_phases: the phases of CG in FP32 on Netflix (synthetic), 100 factors."""
    frame = frame[(frame.data == "netflix-synthetic") & (frame.factors == 100) & (frame.solver == "cumf_cg")]
    side = frame.x_side + " " if "x_side" in frame else ""
    return frame.groupby([side + frame.x_step, "device"]).seconds.median()


def _iterations(frame):
    """Of als_versions and als_netflix: an iteration of ALS on Netflix (synthetic), 100 factors, by solver."""
    if "x_step" not in frame:
        return sweep.epoch_seconds(frame).groupby(["solver", "device"]).seconds.median()
    frame = frame[(frame.data == "netflix-synthetic") & (frame.factors == 100) & (frame.model == "ALS")]
    return frame[frame.x_step == "iteration"].groupby(["solver", "device"]).seconds.median()


def _epochs(frame):
    """Of speedups and first_comparison: an epoch on Douban (synthetic), 16 factors, by model and solver."""
    if "variant" in frame:
        frame = frame[frame.variant.isna() | (frame.variant == "all threads")]
    frame = sweep.epoch_seconds(frame[frame.data == "douban-synthetic"])
    return frame.groupby(["model", "solver", "device"]).seconds.median()


PAIRS = [
    ("als_versions", "cumf_phases", _phases),
    ("als_versions", "als_netflix", _iterations),
    ("speedups", "first_comparison", _epochs),
]
"""Two experiments, and what reads from the frame of either the seconds of what both time, by device and more."""


def table() -> pd.DataFrame:
    """Return the seconds of all that two runs of a machine timed: columns device, pair (of PAIRS), first, second."""
    frames = []
    for pair, (first, second, read) in enumerate(PAIRS):
        device = results.reference(first)
        one, other = (results.recorded(name, device) for name in (first, second))
        if one and other:
            seconds = {"first": read(one.frame), "second": read(other.frame)}
            frame = pd.DataFrame(seconds).dropna().reset_index("device").reset_index(drop=True)
            frames.append(frame.assign(pair=pair))
    if not frames:
        return pd.DataFrame(columns=["device", "first", "second", "pair"], dtype=float)
    return pd.concat(frames, ignore_index=True)


def between_runs() -> dict[str, tuple[float, int]]:
    """Return by device the variance of the logarithm of a time between runs, and its degrees of freedom."""
    return _of_results_in(results.repository())


@cache
def _of_results_in(repository):
    pairs = table()
    squares = np.log(pairs["first"] / pairs["second"]) ** 2
    of_runs = squares.groupby([pairs.device, pairs.pair]).mean().groupby("device")
    return {device: (float(of.mean() / 2), len(of)) for device, of in of_runs}
