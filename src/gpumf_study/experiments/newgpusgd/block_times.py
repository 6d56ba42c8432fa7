"""Seconds of NewGPUSGD against the number of blocks, and against the number of factors, in FP32 and FP64.

After Li et al. 2019, section 5.1, Figures 10 and 11: 16 and 32 factors with more and more blocks; 64 and 1,024 blocks
of a side with more and more factors. A thread block a block of its tag, a thread a factor. The data set is not named.
"""

from itertools import pairwise

import numpy as np
import pandas as pd

from gpumf import SGD, backends
from gpumf_study import figure_style as style
from gpumf_study import sweep
from gpumf_study.claims import Claim, Criterion, below
from gpumf_study.experiments import kernels_unavailable
from gpumf_study.experiments.newgpusgd.block_errors import OF_BITS, RATES

PROFILES = {
    "quick": {"data": "ml-100k-synthetic", "part": [120, 100], "sides": [2, 8, 32], "factors_of_sides": [4, 8],
              "factors": [4, 8, 16], "sides_of_factors": [2, 32], "precisions": [32, 64], "epochs": 2, "repeats": 1},
    "full": {"data": "ml-10m-synthetic", "part": None, "sides": [16, 32, 64, 128, 256, 512, 1024],
             "factors_of_sides": [16, 32], "factors": [16, 32, 64, 128, 256], "sides_of_factors": [64, 1024],
             "precisions": [32, 64], "epochs": 3, "repeats": 5},
}  # fmt: skip
PROFILES["smoke"] = PROFILES["quick"] | {
    "part": [60, 50], "sides": [2, 4, 16], "factors": [2, 4, 8], "sides_of_factors": [2, 16],
}  # fmt: skip

why_unavailable = kernels_unavailable


def run(data, part, sides, factors_of_sides, factors, sides_of_factors, precisions, epochs, repeats):
    """Train for some iterations with each number of blocks and of factors that are asked for together."""
    device = "cuda" if backends.available() else "emulator"
    settings = {(side, f) for side in sides for f in factors_of_sides}
    settings |= {(side, f) for side in sides_of_factors for f in factors}

    def models(train, repeat):
        for bits in precisions:
            for side, f in sorted(settings):
                options = {"side": side, "precision": bits, "seed": repeat, "device": device}
                model = SGD(f, solver="newgpusgd", **options, **RATES)
                if not repeat:
                    sweep.warm(model, train)
                yield {"x_side": side, "x_precision": bits}, model

    return sweep.sweep(models, [data], epochs, repeats, held_out=0, part=part, metrics=())


def steps(frame):
    """Return the epochs before and after each step to more blocks of a side, told apart by `which`."""
    seconds, sides = sweep.epoch_seconds(frame), sorted(frame.x_side.unique())
    lots = [
        seconds[seconds.x_side == side].assign(which=which, step=f"{few} to {many}")
        for few, many in pairwise(sides)
        for which, side in (("before", few), ("after", many))
    ]
    return pd.concat(lots, ignore_index=True)


def slopes(frame):
    """Return by blocks of a side, precision and repeat how time grows with the factors.

    exponent : of the factors, in a power of them
    slope_over : the seconds a factor from the last but one number of factors on, over those up to there; 1 of a
        straight line, whatever a launch takes without factors
    x_elasticities : by how many percent slope_over changes with each of its three times, if that changes by one:
        the sum of squares. Differences of times vary more than times do
    """
    by = ["x_side", "x_precision", "device", "repeat"]
    medians = sweep.epoch_seconds(frame).groupby([*by, "factors"]).seconds.median().reset_index("factors")
    most = medians.groupby(level=by).factors.nunique()
    rows = []
    for key, run in medians.groupby(level=by):
        if most[key] == most.max():
            factors, seconds = run.factors.to_numpy(), run.seconds.to_numpy()
            steps = np.diff(seconds[[0, -2, -1]])
            below, beyond = steps / np.diff(factors[[0, -2, -1]])
            elasticities = seconds[[0, -2, -1]] * [1 / steps[0], (1 / steps).sum(), 1 / steps[1]]
            exponent = np.polyfit(np.log(factors), np.log(seconds), 1)[0]
            rows.append((*key, exponent, beyond / below, np.square(elasticities).sum()))
    return pd.DataFrame(rows, columns=[*by, "exponent", "slope_over", "x_elasticities"])


def summary(frame):
    """Return by precision, blocks of a side and factors the seconds of an iteration and of a training (medians)."""
    by = ["x_precision", "x_side", "factors"]
    table = sweep.epoch_seconds(frame).groupby(by)[["seconds"]].median()
    return table.assign(end_to_end=sweep.phase_seconds(frame).groupby(by).seconds.median())


def figure(frame):
    """Draw milliseconds of an iteration (FP32) against the blocks of a side (left) and the factors (right).

    Dotted: in proportion to the factors, from the least of them on.
    """
    table = 1e3 * summary(frame).seconds.xs(32, level="x_precision")
    figure, (axes,) = style.panels(columns=2, height=3.8, sharey=True)
    few = frame.groupby("x_side").factors.nunique()
    counts = frame.groupby("factors").x_side.nunique()
    colours = ["green", "blue", "orange", "purple"]
    for colour, f in zip(colours, counts[counts > 2].index, strict=False):
        axes[0].plot(table.xs(f, level="factors"), "-o", color=style.COLOURS[colour], label=f"{f} factors")
    for colour, side in zip(colours, few[few > 2].index, strict=False):
        line, colour = table.xs(side, level="x_side"), style.COLOURS[colour]
        axes[1].plot(line, "-s", color=colour, label=f"{side:,} x {side:,} blocks")
        axes[1].plot(line.iloc[0] / line.index[0] * line.index.to_series(), ":", color=colour)
    for axis, label, level in zip(axes, ("blocks of a side", "factors"), ("x_side", "factors"), strict=True):
        axis.set(xlabel=label)
        style.log_scale(axis.xaxis)
        style.log_scale(axis.yaxis)
        measured = table.index.unique(level).sort_values()
        axis.set_xticks(measured, [f"{n:,}" for n in measured])
        axis.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1))
    axes[0].set(ylabel="milliseconds an iteration")
    return figure


CLAIMS = [
    claim
    for bits, end in OF_BITS.items()
    for claim in (
        Claim(
            f"newgpusgd-fig-10{end}", "newgpusgd", "Figure 10",
            f"Speed-up of 1,024 over 16 blocks of a side, with 16 or 32 factors, the smaller one, FP{bits}.",
            metric="ratio",
            select={
                "column": "seconds", "where": {"x_precision": bits, "factors": [16, 32]}, "each": ["factors"],
                "across": "min", "over": {"x_side": 16}, "under": {"x_side": 1024},
            },
            evidence="synthetic", table=sweep.epoch_seconds,  # judged by every step, below
        ),
        Claim(
            f"newgpusgd-fig-10-every-step{end}", "newgpusgd", "Figure 10",
            f"Seconds with twice the blocks of a side, from 16 to 1,024, over those before, at most, FP{bits}.",
            metric="ratio",
            select={
                "column": "seconds", "where": {"x_precision": bits, "factors": [16, 32]}, "each": ["factors", "step"],
                "across": "max", "over": {"which": "after"}, "under": {"which": "before"},
            },
            criterion=below(1.0), evidence="synthetic", table=steps,
        ),
        *(
            Claim(
                f"newgpusgd-fig-11-{side}{end}", "newgpusgd", "Figure 11",
                "Seconds a factor from 128 to 256 factors over those from 16 to 128, which are equal where time is "
                f"linear in the factors, {side:,} blocks of a side, FP{bits}.", 1.0,
                "median",
                {"column": "slope_over", "times": "x_elasticities", "where": {"x_side": side, "x_precision": bits}},
                Criterion(0.5, 2.0), "synthetic", slopes,
            )
            for side in (64, 1024)
        ),
    )
]  # fmt: skip
