"""ESGD's open question: which th_size, threads of a block, and which st, steps that load its ratings, are best?

After Nassar et al., section 5. More ratings in a block's shared memory are shuffled better, and leave room for fewer
blocks; fewer threads want more blocks. The ratings are shuffled first: in another order popular rows decide.
"""

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import SGD, backends
from gpumf_study import figure_style as style
from gpumf_study.experiments import _fits, identity, kernels_unavailable, load_ratings
from gpumf_study.experiments.esgd.esgd_errors import rates
from gpumf_study.findings import Finding, Open, ratio

PUBLISHED = 1000, 2
TOLERANCE = 0.002  # in RMSE, above the lowest, of what counts as reached

PROFILES = {
    "quick": {
        "data": "ml-100k-synthetic",
        "part": [120, 100],
        "factors": 4,
        "th_size": [16, 64],
        "st": [1, 2],
        "epochs": 4,
        "repeats": 1,
    },
    "full": {
        "data": "ml-10m-synthetic",
        "part": None,
        "factors": 16,
        "th_size": [64, 128, 256, 512, 1000],
        "st": [1, 2, 4, 8],
        "epochs": 10,
        "repeats": 1,
    },
}
PROFILES["smoke"] = PROFILES["quick"] | {"part": [60, 50], "epochs": 2}

why_unavailable = kernels_unavailable


def run(data, part, factors, th_size, st, epochs, repeats):
    """Train with every pair of th_size and st that fits a multiprocessor's shared memory.

    Parameters
    ----------
    data : name of a data set of Table 1, or of its twin
    part : (users, items) that are taken, or None for all
    factors : int
    th_size, st : lists of int
    epochs, repeats : int; repeat k splits the ratings and draws the factors with seed k

    Returns
    -------
    DataFrame with a row an epoch: data, nnz, th_size, st, device, repeat, and what `_fits.history` has
    """
    device = "cuda" if backends.available() else "emulator"
    ratings = _fits.corner(load_ratings(data), part)
    frames = []
    pairs = [(threads, steps) for threads in th_size for steps in st]
    for repeat in range(repeats):
        train, test = ratings.split(0.1, seed=repeat)
        for threads, steps in tqdm(pairs, desc="esgd_blocks", leave=False):
            options = {"th_size": threads, "st": steps, "shuffle": True, "biases": "baseline", **rates(data)}
            model = SGD(factors, solver="esgd", seed=repeat, device=device, clip=False, **options)
            what = {"data": ratings.name, "nnz": train.nnz, "th_size": threads, "st": steps, "device": device}
            frames.append(_fits.history(model, train, epochs, test).assign(**what, repeat=repeat))
    frame = pd.concat(frames, ignore_index=True)
    frame.attrs["datasets"] = [identity(ratings)]
    return frame


def summary(frame):
    """What each pair takes and reaches.

    Returns
    -------
    DataFrame with the index (th_size, st): seconds (of an iteration, median), spread (largest less smallest), rmse
    (after the last iteration, median; missing where it diverged), wall (of the training)
    """
    seconds = _fits.epoch_seconds(frame, ["th_size", "st"]).groupby(level=[0, 1]).agg(seconds="median", spread=np.ptp)
    last = frame[frame.epoch == frame.epoch.max()].groupby(["th_size", "st"]).rmse.median()
    wall = _fits.fit_seconds(frame, ["th_size", "st"]).wall.groupby(["th_size", "st"]).median()
    return seconds.assign(rmse=last, wall=wall)


def figure(frame):
    """Seconds of an iteration (left) and test RMSE (right) against th_size, a line a number of steps."""
    table = summary(frame)
    figure, (axes,) = style.panels(columns=2, height=3.4)
    for colour, (st, rows) in zip(("wine", "orange", "blue", "green"), table.groupby(level="st"), strict=False):
        for axis, what in zip(axes, ("seconds", "rmse"), strict=True):
            axis.plot(rows[what].droplevel("st"), "-o", color=style.COLOURS[colour], label=f"st = {st}", markersize=4)
    axes[0].set(xlabel="th_size", ylabel="seconds an iteration")
    axes[1].set(xlabel="th_size", ylabel="test RMSE at the end")
    for axis in axes:
        style.log_scale(axis.xaxis)
    style.legend(figure, axes[0], 4)
    return figure


def best(frame):
    """(th_size, st) of the fastest of those whose error is within TOLERANCE of the lowest."""
    table = summary(frame)
    return table[table.rmse <= table.rmse.min() + TOLERANCE].seconds.idxmin()


def _gain(frame):
    """Seconds of an iteration with the published pair over those with the best one."""
    seconds = _fits.epoch_seconds(frame, ["th_size", "st"])
    if PUBLISHED not in seconds.index:
        return np.nan, np.nan, "x"
    return *ratio(seconds.loc[PUBLISHED], seconds.loc[best(frame)]), "x"


FINDINGS = [
    Finding(
        "esgd-best-block",
        "esgd",
        "Section 4",
        "How much faster than with th_size = 1000 and st = 2 is an iteration with the best pair, to the same error?",
        _gain,
        Open(),
    )
]
