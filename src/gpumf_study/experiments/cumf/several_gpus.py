"""ALS and SGD by `gpumf.distributed.fit` on one, two and four GPUs, beside a plain `fit` on one.

After Tan et al. 2018, section 6 and Figure 8 (ALS and SGD on one and four GPUs): 100 factors. ALS shares out rows and
gathers factors; SGD trains on workers x workers blocks, items going round a ring. Without GPUs two processes of this
machine are the workers.
"""

from contextlib import ExitStack
from functools import partial

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import ALS, SGD, backends
from gpumf_study import figure_style as style
from gpumf_study.claims import Claim, above
from gpumf_study.experiments import _fits, identity, load_ratings
from gpumf_study.experiments.cumf.hugewiki_gpus import usable, why_unavailable  # noqa: F401 - of this one as of that
from gpumf_study.findings import Finding, Open, Target, median

PLAIN = 0
"""In the place of a number of workers: a plain `fit`, without Dask."""

PROFILES = {
    "quick": {
        "data": "ml-100k-synthetic",
        "part": [150, 120],
        "fits": [["ALS", "parallel", 8, 3], ["SGD", "ordered", 8, 4]],
        "workers": [1, 2],
        "repeats": 1,
    },
    "full": {
        "data": "netflix-synthetic",
        "part": None,
        "fits": [["ALS", "tensor_core", 100, 10], ["SGD", "fast", 100, 20]],
        "workers": [1, 2, 4],
        "repeats": 3,
    },
}
PROFILES["smoke"] = PROFILES["quick"] | {"part": [60, 50], "workers": [2]}
_MODELS = {
    "ALS": partial(ALS, regularization=0.05, biases=False, clip=False),
    "SGD": partial(SGD, regularization=0.05, learning_rate=0.03, biases=False, clip=False),
}


def run(data, part, fits, workers, repeats):
    """Train each model plainly, and on each number of workers that the machine has a card for.

    Parameters
    ----------
    data : name of a data set
    part : (users, items) of it that are taken, or None for all
    fits : list of [model, solver, factors, epochs]
    workers : list of int
    repeats : int, trainings after a first one of one epoch, which compiles; all from the same factors

    Returns
    -------
    DataFrame with a row an epoch: data, nnz, model, solver, factors, device, workers (PLAIN for none), repeat (from
    1), and what `_fits.history` has
    """
    from gpumf.distributed import fit, local_cluster

    ratings = _fits.corner(load_ratings(data), part)
    train, test = ratings.split(0.2) if ratings.test_mask is None else ratings.official_split()
    cards, counts, frames = backends.cards(), usable(workers), []
    with ExitStack() as stack:
        client = None
        for n in [PLAIN, *counts]:
            if n != PLAIN and client is None:  # one cluster for all: its workers have what they compiled
                client = stack.enter_context(local_cluster(max(counts)))
            for name, solver, factors, epochs in fits:
                for repeat in tqdm(range(repeats + 1), desc=f"{name} on {n or 'no'} workers of Dask", leave=False):
                    model = _MODELS[name](factors, solver=solver, device="cuda" if cards else "cpu")
                    of_repeat = epochs if repeat else 1
                    if n == PLAIN:
                        model.fit(train, of_repeat, test)
                    else:
                        fit(model, train, of_repeat, test, client=client, workers=n)
                    what = {"data": data, "nnz": train.nnz, "model": name, "solver": solver, "factors": factors}
                    what |= {"device": model.device, "workers": n, "repeat": repeat}
                    frames.append(_fits.rows_of(model).assign(**what))
    frame = pd.concat(frames, ignore_index=True).query("repeat > 0").reset_index(drop=True)
    frame.attrs["datasets"], frame.attrs["cards"] = [identity(ratings)], max(cards, 1)
    return frame


_BY = ["model", "workers"]


def summary(frame):
    """What an epoch and a whole training take.

    Returns
    -------
    DataFrame with the index (model, workers): seconds (of an epoch), wall (without compiling; medians), speedup (a
    plain fit's seconds over these), rmse (after the last epoch, median), gap (of that from a plain fit's)
    """
    seconds = _fits.epoch_seconds(frame, _BY).groupby(level=_BY, sort=False).median()
    wall = _fits.wall_seconds(frame, _BY).groupby(_BY).median()
    rmse = frame.groupby([*_BY, "repeat"], sort=False).rmse.last().groupby(_BY).median()
    plain = {name: of.xs(PLAIN, level="workers") for name, of in (("seconds", seconds), ("rmse", rmse))}
    models = seconds.index.get_level_values("model")
    table = pd.DataFrame({"seconds": seconds, "wall": wall, "rmse": rmse}).reindex(seconds.index)
    table["speedup"] = plain["seconds"].reindex(models).to_numpy() / table.seconds
    return table.assign(gap=table.rmse - plain["rmse"].reindex(models).to_numpy())


def figure(frame):
    """Seconds of an epoch against workers (left), and of a whole training (right), a line a model."""
    table = summary(frame).reset_index()
    figure, (axes,) = style.panels(columns=2, height=3.4)
    for axis, column, label in zip(axes, ("seconds", "wall"), ("seconds of an epoch", "wall seconds"), strict=True):
        for model, rows in table.groupby("model", sort=False):
            several = rows[rows.workers != PLAIN].set_index("workers")[column]
            colour = style.COLOURS[style.MODELS[model][0]]
            axis.plot(several.index, several, "-o", color=colour, label=model)
            axis.axhline(rows[rows.workers == PLAIN][column].item(), color=colour, linestyle=":")
        axis.set(xlabel="workers (dotted: a plain fit)", ylabel=label, ylim=(0, None))
        axis.set_xticks(several.index)
    style.legend(figure, axes[0], 2)
    return figure


def _epoch(frame, model, workers):
    """Seconds of the epochs of one model on so many workers."""
    rows = frame[(frame.model == model) & (frame.workers == workers)]
    return _fits.epoch_seconds(rows, ["model"]).to_numpy()


def _seconds(frame):
    return *median(_epoch(frame, "ALS", 4)), "s"


def _speedup(frame, model):
    """The median epoch of a plain fit over those on four."""
    value, spread = median(np.median(_epoch(frame, model, PLAIN)) / _epoch(frame, model, 4))
    return value, spread, "x"


def _overhead(frame):
    """Wall seconds of a fit of ALS on one worker above those of a plain one, both without compiling."""
    wall = _fits.wall_seconds(frame[frame.model == "ALS"], ["workers"]).droplevel("repeat")
    (one, spread), (plain, other) = (median(wall[wall.index == n]) for n in (1, PLAIN))
    return one - plain, float(np.hypot(spread, other)), "s"


def _gap(frame):
    """How far the last RMSE of SGD on four workers is from that of a plain fit."""
    last = frame[frame.model == "SGD"].groupby(["workers", "repeat"]).rmse.last()
    (four, spread), (plain, other) = (median(last[n]) for n in (4, PLAIN))
    return abs(four - plain), float(np.hypot(spread, other)), "rating"


_FOUR = {"devices": ("nvidia-h200-x4",)}
FINDINGS = [
    Finding(
        "als-netflix-4gpu-seconds",
        "gpumf",
        None,
        "ALS, tensor_core | Netflix twin | 100 factors | an iteration on four GPUs",
        _seconds,
        Target(0.0070, 0.0055),
        **_FOUR,
    ),
    Finding(
        "distributed-wall",
        "gpumf",
        None,
        "ALS, tensor_core, on one worker of Dask | Netflix twin | 100 factors, 10 iterations | wall seconds above a "
        "plain fit's",
        _overhead,
        Target(1.5, 0.5),
    ),
    Finding(
        "sgd-netflix-4gpu-speedup",
        "gpumf",
        None,
        "SGD, fast | Netflix twin | 100 factors | seconds of an epoch on one GPU over those on four",
        partial(_speedup, model="SGD"),
        Open(),
        **_FOUR,
    ),
    Finding(
        "sgd-netflix-4gpu-gap",
        "gpumf",
        None,
        "SGD, fast | Netflix twin | 100 factors, 20 epochs | test RMSE on four GPUs from that on one, either way",
        _gap,
        Target(0.001),
        **_FOUR,
    ),
]

CLAIMS = [
    Claim(
        "cumf-fig-8-four-seconds",
        "cumf",
        "Figure 8",
        "Time of an iteration of ALS on one GPU over that on four, Netflix (synthetic).",
        metric="ratio",
        select={
            "column": "seconds",
            "where": {"model": "ALS"},
            "over": {"workers": PLAIN},
            "under": {"workers": 4},
        },
        criterion=above(1.0),
        evidence="synthetic",
        table=partial(_fits.each_epoch, by=_BY),
        device="nvidia-h200-x4",
    ),
]
