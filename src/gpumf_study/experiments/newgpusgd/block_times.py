"""Seconds of NewGPUSGD against the number of blocks, and against the number of factors.

After Li et al. 2019, section 5.1, Figures 10 and 11: 16 and 32 factors with more and more blocks; 64 and 1,024 blocks
of a side with more and more factors. A thread block a block of its tag, a thread a factor. The data set is not named.
"""

from functools import partial

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import SGD, backends
from gpumf_study import figure_style as style
from gpumf_study.experiments import _fits, identity, kernels_unavailable, load_ratings
from gpumf_study.experiments.newgpusgd.block_errors import RATES
from gpumf_study.findings import Finding, Holds, Near, ratio

PROFILES = {
    "quick": {
        "data": "ml-100k-synthetic",
        "part": [120, 100],
        "sides": [2, 8, 32],
        "factors_of_sides": [4, 8],
        "factors": [4, 8, 16],
        "sides_of_factors": [2, 32],
        "epochs": 2,
        "repeats": 1,
    },
    "full": {
        "data": "ml-10m-synthetic",
        "part": None,
        "sides": [16, 32, 64, 128, 256, 512, 1024],
        "factors_of_sides": [16, 32],
        "factors": [16, 32, 64, 128, 256],
        "sides_of_factors": [64, 1024],
        "epochs": 3,
        "repeats": 3,
    },
}
PROFILES["smoke"] = PROFILES["quick"] | {
    "part": [60, 50],
    "sides": [2, 4, 16],
    "factors": [2, 4, 8],
    "sides_of_factors": [2, 16],
}

why_unavailable = kernels_unavailable


def run(data, part, sides, factors_of_sides, factors, sides_of_factors, epochs, repeats):
    """Train for some iterations with each number of blocks and of factors.

    Parameters
    ----------
    data : name of a data set
    part : (users, items) that are taken, or None for all
    sides, factors_of_sides : lists of int, blocks of a side, each with so many factors
    factors, sides_of_factors : lists of int, factors, each with so many blocks of a side
    epochs : int, of a training
    repeats : int, trainings of each

    Returns
    -------
    DataFrame with a row an epoch: data, nnz, side, factors, device, repeat, and what `_fits.history` has
    """
    device = "cuda" if backends.available() else "emulator"
    ratings = _fits.corner(load_ratings(data), part)
    settings = {(side, f) for side in sides for f in factors_of_sides}
    settings |= {(side, f) for side in sides_of_factors for f in factors}
    frames = []
    for side, f in tqdm(sorted(settings), desc="block_times", leave=False):
        SGD(f, solver="newgpusgd", side=side, device=device, clip=False, **RATES).fit(ratings, 1)  # compiles
        for repeat in range(repeats):
            model = SGD(f, solver="newgpusgd", side=side, seed=repeat, device=device, clip=False, **RATES)
            what = {"data": ratings.name, "nnz": ratings.nnz, "side": side, "factors": f, "device": device}
            frames.append(_fits.history(model, ratings, epochs).assign(**what, repeat=repeat))
    frame = pd.concat(frames, ignore_index=True)
    frame.attrs["datasets"] = [identity(ratings)]
    return frame


def summary(frame):
    """Seconds of an iteration and of a whole training.

    Returns
    -------
    DataFrame with the index (side, factors): seconds (of an iteration, median), spread (largest less smallest), wall
    (of a training of `epochs` iterations as a user waits for it, median), epochs
    """
    seconds = _fits.epoch_seconds(frame, ["side", "factors"]).groupby(["side", "factors"])
    table = seconds.agg(seconds="median", spread=np.ptp)
    wall = _fits.fit_seconds(frame, ["side", "factors"]).wall.groupby(["side", "factors"]).median()
    return table.assign(wall=wall, epochs=frame.epoch.max())


def figure(frame):
    """Seconds of an iteration against the blocks of a side (left) and against the factors (right).

    Dotted: in proportion to the factors, from the least of them on.
    """
    table = summary(frame).seconds
    figure, (axes,) = style.panels(columns=2, height=3.8, sharey=True)
    counts = frame.groupby("factors").side.nunique()
    few = frame.groupby("side").factors.nunique()
    colours = ["green", "blue", "orange", "purple"]
    for colour, f in zip(colours, counts[counts > 2].index, strict=False):
        axes[0].plot(table.xs(f, level="factors"), "-o", color=style.COLOURS[colour], label=f"{f} factors")
    for colour, side in zip(colours, few[few > 2].index, strict=False):
        seconds, colour = table.xs(side, level="side"), style.COLOURS[colour]
        axes[1].plot(seconds, "-s", color=colour, label=f"{side:,} x {side:,} blocks")
        axes[1].plot(seconds.iloc[0] / seconds.index[0] * seconds.index.to_series(), ":", color=colour)
    for axis, label, level in zip(axes, ("blocks of a side", "factors"), ("side", "factors"), strict=True):
        axis.set(xlabel=label)
        style.log_scale(axis.xaxis)
        style.log_scale(axis.yaxis)
        measured = table.index.unique(level).sort_values()
        axis.set_xticks(measured, [f"{n:,}" for n in measured])
        if axis.get_legend_handles_labels()[0]:
            axis.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1))
    axes[0].set(ylabel="seconds an iteration")
    return figure


def _gain(frame):
    """How many times as fast the most blocks are as the fewest, with the number of factors where that is least."""
    seconds = _fits.epoch_seconds(frame, ["side", "factors"])
    found = [_between(seconds, frame.side.min(), frame.side.max(), f) for f in _factors(frame)]
    return *min(found), "x"


def _step(frame):
    """What doubling the blocks takes of the time, where it takes the most: below 1 it gains everywhere."""
    seconds = _fits.epoch_seconds(frame, ["side", "factors"])
    sides = sorted(frame.side.unique())
    steps = zip(sides[1:], sides, strict=False)
    found = [_between(seconds, more, fewer, f) for more, fewer in steps for f in _factors(frame)]
    return *max(found), "x"


def _factors(frame):
    """Those that were timed with all numbers of blocks."""
    counts = frame.groupby("factors").side.nunique()
    return counts[counts == frame.side.nunique()].index


def _between(seconds, above, below, f):
    """(ratio, spread) of the times with two numbers of blocks."""
    return ratio(seconds.loc[(above, f)], seconds.loc[(below, f)])


def _exponent(frame, side):
    """The exponent with which the time grows with the factors: of the line through the logarithms."""
    rows = frame[frame.side == side]
    seconds = _fits.epoch_seconds(rows, ["factors"])
    if seconds.index.nunique() < 2:
        return np.nan, np.nan, ""
    ends = seconds.groupby(level=0).agg(["min", "max"])
    slope = _slope(seconds.groupby(level=0).median())
    # The steepest and the flattest line that the repeats allow between the first and the last.
    reach = np.log(ends["max"].iloc[[0, -1]] / ends["min"].iloc[[0, -1]]).sum() / 2
    return slope, reach / np.log(ends.index[-1] / ends.index[0]), ""


def _slope(medians):
    return float(np.polyfit(np.log(medians.index.to_numpy(float)), np.log(medians.to_numpy()), 1)[0])


FINDINGS = [
    Finding(
        "newgpusgd-fig-10",
        "newgpusgd",
        "Figure 10",
        "With 16 and with 32 factors, 1,024 blocks of a side take less time than 16.",
        _gain,
        Holds(above=1.0),
    ),
    Finding(
        "newgpusgd-fig-10-every-step",
        "newgpusgd",
        "Figure 10",
        "Each doubling of the blocks of a side, from 16 to 1,024, takes less time than the one before.",
        _step,
        Holds(below=1.0),
    ),
    *(
        Finding(
            f"newgpusgd-fig-11-{side}",
            "newgpusgd",
            "Figure 11",
            f"With {side} blocks of a side the time grows linearly with the factors: exponent 1 from 16 to 256.",
            partial(_exponent, side=side),
            Near(1.0, 1.25, neutral=0.0),
        )
        for side in (64, 1024)
    ),
]
