"""NewGPUSGD against GPUSGD, with as many thread blocks and threads for both, in FP32 and in FP64.

After Li et al. 2019, section 5.2 and Figure 12: 64 x 64 blocks with 16 factors, 1,024 x 1,024 blocks with 16 and with
256, a thread a factor. Of their four sets BDMovie has no published shape.
"""

from functools import partial

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import SGD, backends
from gpumf_study import figure_style as style
from gpumf_study.experiments import _fits, identity, kernels_unavailable, load_ratings
from gpumf_study.experiments.newgpusgd.block_errors import RATES
from gpumf_study.findings import Finding, Holds, Open, ratio

OLD, NEW = "gpusgd", "newgpusgd"
SETTINGS = [[64, 16], [1024, 16], [1024, 256]]

PROFILES = {
    "quick": {
        "data": ["ml-100k-synthetic"],
        "part": [120, 100],
        "settings": {"32": [[2, 4], [16, 4], [16, 8]], "64": [[2, 4]]},
        "fewer": {},
        "epochs": 2,
    },
    # An iteration of GPUSGD takes seconds on the largest set, in FP64 twice as long.
    "full": {
        "data": ["ml-100k", "ml-10m-synthetic", "netflix-synthetic"],
        "part": None,
        "settings": {"32": SETTINGS, "64": SETTINGS},
        "fewer": {"netflix-synthetic": {"32": SETTINGS, "64": [[1024, 16]]}},
        "epochs": 3,
    },
}
PROFILES["smoke"] = PROFILES["quick"] | {"part": [60, 50], "settings": {"32": [[2, 4], [8, 4]], "64": [[2, 4]]}}

why_unavailable = kernels_unavailable


def run(data, part, settings, fewer, epochs):
    """Train some iterations with both schemes, on the first set once before the timed trainings.

    Parameters
    ----------
    data : names of data sets
    part : (users, items) of each that are taken, or None for all
    settings : dict, bits of a factor ('32', '64') -> list of (blocks of a side, factors)
    fewer : dict, data set -> settings, where others are wanted
    epochs : int, of each training, each a repeat

    Returns
    -------
    DataFrame with a row an epoch: data, nnz, solver, precision (bits), side, factors, device, repeat, and what
    `_fits.history` has
    """
    device = "cuda" if backends.available() else "emulator"
    frames, identities = [], []
    for name in data:
        ratings = _fits.corner(load_ratings(name), part)
        identities.append(identity(ratings))
        wanted = [
            (solver, int(bits), side, factors)
            for bits, pairs in fewer.get(name, settings).items()
            for side, factors in pairs
            for solver in (OLD, NEW)
        ]
        for solver, bits, side, factors in tqdm(wanted, desc=f"gpusgd_comparison {ratings.name}", leave=False):
            model = SGD(factors, solver=solver, side=side, precision=bits, device=device, clip=False, **RATES)
            if name == data[0]:  # the smallest, whose settings are all that others have
                _fits.warm(model, ratings)
            what = {"data": ratings.name, "nnz": ratings.nnz, "solver": solver, "precision": bits, "side": side}
            what |= {"factors": factors, "device": device, "repeat": 0}
            frames.append(_fits.history(model, ratings, epochs).assign(**what))
    frame = pd.concat(frames, ignore_index=True)
    frame.attrs["datasets"] = identities
    return frame


_SETTING = ["data", "precision", "side", "factors"]


def summary(frame):
    """What an iteration takes each scheme, and how many times as fast NewGPUSGD is.

    Returns
    -------
    DataFrame with the index (data, precision, side, factors): gpusgd, newgpusgd (seconds of an iteration, medians),
    train and wall (what GPUSGD takes over what NewGPUSGD takes, of iterations alone and of whole trainings without
    compiling: the latter depends on how many iterations there are)
    """
    seconds = _fits.epoch_seconds(frame, [*_SETTING, "solver"]).groupby(level=[*range(5)], sort=False).median()
    table = seconds.unstack()
    by = [*_SETTING, "solver"]
    wall = _fits.wall_seconds(frame, by).groupby(by).median().unstack()
    return table.assign(train=table[OLD] / table[NEW], wall=wall[OLD] / wall[NEW])


def figure(frame):
    """Seconds of an iteration of both schemes, FP32 (left) and FP64 (right), a pair of marks a set and setting."""
    bits = sorted(frame.precision.unique())
    table = summary(frame)[[OLD, NEW]].unstack("precision", sort=False)[::-1]
    place = np.arange(len(table))
    figure, (axes,) = style.panels(columns=len(bits), height=1.6 + 0.3 * len(table), sharex=True, sharey=True)
    for axis, precision in zip(axes, bits, strict=True):
        rows = table.xs(precision, axis="columns", level="precision")
        axis.hlines(place, rows[OLD], rows[NEW], color="0.8", zorder=1)
        for solver, marker in ((OLD, "s"), (NEW, "o")):
            look = style.LOOKS["SGD", solver]
            style.marks(axis, rows[solver], place, look.colour, look.name, marker)
        axis.margins(y=0.08)
        axis.set(xlabel="seconds an iteration", title=f"FP{precision}")
        style.log_scale(axis.xaxis)
    names = [f"{data}\n{side:,} x {side:,}, f = {factors}" for data, side, factors in table.index]
    axes[0].set_yticks(place, names, fontsize=8)
    style.legend(figure, axes[0], 2)
    return figure


def _speedups(frame):
    """(ratio, spread) of every setting, what GPUSGD takes over what NewGPUSGD takes: a DataFrame by the setting."""
    seconds = _fits.epoch_seconds(frame, [*_SETTING, "solver"])
    rows = {}
    for setting, of_setting in seconds.groupby(level=_SETTING, sort=False):
        by_solver = of_setting.groupby(level="solver")
        lots = [by_solver.get_group(name) for name in (OLD, NEW) if name in by_solver.groups]
        rows[setting] = ratio(*lots) if len(lots) == 2 else (np.nan, np.nan)
    table = pd.DataFrame.from_dict(rows, orient="index", columns=["ratio", "spread"])
    return table.set_index(pd.MultiIndex.from_tuples(table.index, names=_SETTING)).reset_index()


def _least_speedup(frame, side, factors):
    """How many times as fast NewGPUSGD is, on the set and in the precision where it is least."""
    table = _speedups(frame).query("side == @side and factors == @factors")
    if table.empty:
        return np.nan, np.nan, "x"
    row = table.loc[table.ratio.idxmin()]
    return row.ratio, row.spread, "x"


def _speedup_of(frame, data, side, factors):
    table = _speedups(frame).query("data == @data and side == @side and factors == @factors and precision == 32")
    return (*table[["ratio", "spread"]].iloc[0], "x") if len(table) else (np.nan, np.nan, "x")


def _gain_of_factors(frame):
    """How much more it is ahead with 256 factors than with 16, of 1,024 blocks of a side, where that is least."""
    table = _speedups(frame).query("side == 1024").set_index(["data", "precision", "factors"])
    few, many = (table.xs(f, level="factors") for f in (16, 256))
    gain = (many.ratio / few.ratio).dropna()
    if gain.empty:
        return np.nan, np.nan, "x"
    worst = gain.idxmin()
    relative = np.hypot(many.spread[worst] / many.ratio[worst], few.spread[worst] / few.ratio[worst])
    return gain[worst], gain[worst] * relative, "x"


FINDINGS = [
    Finding(
        "newgpusgd-fig-12-many",
        "newgpusgd",
        "Figure 12",
        "With 1,024 blocks of a side and 16 factors NewGPUSGD is faster, on every set and in both precisions.",
        partial(_least_speedup, side=1024, factors=16),
        Holds(above=1.0),
    ),
    Finding(
        "newgpusgd-fig-12-factors",
        "newgpusgd",
        "Figure 12",
        "With 256 factors its advantage is larger than with 16.",
        _gain_of_factors,
        Holds(above=1.0),
    ),
    Finding(
        "newgpusgd-fig-12-few-netflix",
        "newgpusgd",
        "Figure 12",
        "With 64 x 64 blocks and 16 factors GPUSGD is the faster one on Netflix.",
        partial(_speedup_of, data="netflix-synthetic", side=64, factors=16),
        Holds(below=1.0),
    ),
    *(
        Finding(
            f"newgpusgd-fig-12-few-{data}",
            "newgpusgd",
            "Figure 12",
            f"With 64 x 64 blocks and 16 factors NewGPUSGD is the faster one on {name}.",
            partial(_speedup_of, data=data, side=64, factors=16),
            Holds(above=1.0),
        )
        for data, name in (("ml-100k", "MovieLens 100K"), ("ml-10m-synthetic", "MovieLens 10M"))
    ),
    Finding(
        "newgpusgd-fig-12-bdmovie",
        "newgpusgd",
        "Figure 12",
        "NewGPUSGD is faster than GPUSGD on BDMovie.",
        rule=Open(missing="the ratings of BDMovie or their shape, which are not published"),
    ),
]
