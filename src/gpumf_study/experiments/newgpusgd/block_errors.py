"""Test RMSE of NewGPUSGD against iterations, with few blocks and with many.

After Li et al. 2019, section 5.1 and Figure 9: 64 x 64 and 1,024 x 1,024 blocks, 16 factors, gamma 0.005, lambda
0.03, 100 iterations. Neither the data set nor the share of its validation set is published: here a fifth.
"""

import numpy as np

from gpumf import SGD, backends
from gpumf_study import figure_style as style
from gpumf_study.experiments import _fits, kernels_unavailable
from gpumf_study.findings import Finding, Holds

RATES = {"learning_rate": 0.005, "regularization": 0.03, "biases": False}

PROFILES = {
    "quick": {
        "data": ["ml-100k-synthetic"],
        "part": [120, 100],
        "sides": [4, 16],
        "factors": 4,
        "epochs": 10,
        "repeats": 2,
    },
    "full": {
        "data": ["ml-100k", "ml-10m-synthetic"],
        "part": None,
        "sides": [64, 1024],
        "factors": 16,
        "epochs": 100,
        "repeats": 3,
    },
}
PROFILES["smoke"] = PROFILES["quick"] | {"part": [60, 50], "epochs": 3}

why_unavailable = kernels_unavailable


def run(data, part, sides, factors, epochs, repeats):
    """Train with each number of blocks, from the same factors.

    Parameters
    ----------
    data : names of data sets
    part : (users, items) of each that are taken, or None for all
    sides : list of int, blocks of a side
    factors, epochs : int
    repeats : int; repeat k splits the ratings and draws the factors with seed k

    Returns
    -------
    DataFrame with a row an epoch: data, side, factors, device, repeat, and what `_fits.history` has
    """
    device = "cuda" if backends.available() else "emulator"

    def trainings(name, train, test, repeat):
        for side in sides:
            model = SGD(factors, solver="newgpusgd", side=side, seed=repeat, device=device, clip=False, **RATES)
            what = {"data": name, "side": side, "factors": factors, "device": device, "repeat": repeat}
            yield _fits.history(model, train, epochs, test).assign(**what)

    return _fits.over_splits(trainings, data, part, repeats, held_out=0.2)


def summary(frame):
    """The test RMSE after the last iteration: a DataFrame with a row a data set and number of blocks.

    Returns
    -------
    DataFrame: data, side, rmse (median), spread (largest less smallest), gap (the largest distance, over all
    iterations, between the curves of this number of blocks and of the fewest; median of the repeats)
    """
    last = frame[frame.epoch == frame.epoch.max()].groupby(["data", "side"]).rmse
    table = last.agg(rmse="median", spread=np.ptp)
    return table.join(_gaps(frame).groupby(["data", "side"]).median().rename("gap")).reset_index()


def _gaps(frame):
    """The largest distance from the curve with the fewest blocks: a Series by (data, side, repeat)."""
    curves = frame.pivot(index=["data", "repeat", "epoch"], columns="side", values="rmse")
    apart = curves.sub(curves[curves.columns.min()], axis=0).abs()
    return apart.groupby(["data", "repeat"]).max().stack().reorder_levels(["data", "side", "repeat"])


def figure(frame):
    """Test RMSE against iterations, a line a number of blocks (medians), a data set each."""
    names = frame.data.unique()
    figure, (axes,) = style.panels(columns=len(names), height=3.4)
    look = style.LOOKS["SGD", "newgpusgd"]
    for axis, name in zip(axes, names, strict=True):
        runs = frame[(frame.data == name) & (frame.epoch > 0)]
        for line, (side, of_side) in zip(("-", "--", ":"), runs.groupby("side"), strict=False):
            rmse = of_side.groupby("epoch").rmse.median()
            axis.plot(rmse, line, color=style.COLOURS[look.colour], label=f"{side} x {side} blocks")
        axis.set(xlabel="iterations", ylabel=f"test RMSE on {name}")
    style.legend(figure, axes[0], 3)
    return figure


def _worst_gap(frame):
    """The largest distance of the two curves, on the set where it is largest, with the spread over the repeats."""
    gaps = _gaps(frame)
    many = gaps[gaps.index.get_level_values("side") == frame.side.max()].groupby("data")
    worst = many.median().idxmax()
    of_worst = many.get_group(worst)
    return of_worst.median(), np.ptp(of_worst) / 2, "rating"


FINDINGS = [
    Finding(
        "newgpusgd-fig-9",
        "newgpusgd",
        "Figure 9",
        "With 64 and 1,024 blocks of a side the test RMSE takes one course: never a hundredth of a rating apart.",
        _worst_gap,
        Holds(below=0.01),
    )
]
