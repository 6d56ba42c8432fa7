"""Seconds of SGD to the error that the thesis calls trained: one core, all cores, and the GPU in the same run.

After the thesis, section 6.5: the Douban set, 16 factors, an MAE of 0.5732, 80 % of the ratings for training. All
share factors at the start, rates and schedule; all have biases, which the thesis's model has not: without them SGD
does not get there on the twin in many more epochs (see `first_comparison`). Speed-ups are over one core and all cores
that take each rating once in an order that caches; `sequential` and `parallel` draw with replacement, as the thesis's
one core does.
"""

from functools import partial

import pandas as pd
from tqdm import tqdm

from gpumf import SGD, backends
from gpumf.solvers import schedules
from gpumf_study.experiments import identity, load_ratings
from gpumf_study.experiments.thesis import first_comparison
from gpumf_study.findings import Target, times

_KERNELS = ["sequential", "parallel", "ordered", "ordered_parallel", "hogwild", "fast"]
_COMMON = {"kernels": _KERNELS, "factors": 16}
_DRAWING = "sequential", "parallel"  # whose epochs take a second
PROFILES = {
    "quick": {
        "data": "ml-100k",
        "regularization": 0.06,
        "learning_rate": 0.02,
        "schedule": {"name": "Constant"},
        "epochs": 40,
        "repeats": 1,
        **_COMMON,
    },
    "full": {
        "data": "douban-synthetic",
        "regularization": 0.04,
        "learning_rate": 0.05,
        "schedule": {"name": "Power", "beta": 0.01, "power": 1.5},
        "epochs": 40,
        "repeats": 5,
        **_COMMON,
    },
}
PROFILES["smoke"] = PROFILES["quick"] | {"data": "ml-100k-synthetic", "epochs": 2}


def run(data, kernels, factors, regularization, learning_rate, schedule, epochs, repeats):
    """Train the kernels that this machine has until they reach the error of the data set.

    Parameters
    ----------
    data : name of a data set that has a `first_comparison.threshold`
    kernels : of SGD
    factors, regularization, learning_rate : as of SGD
    schedule : one as a dict, see `schedules.to_dict`
    epochs : int, the most
    repeats : int, runs of all kernels but those that draw on the processor, run k with seed k; those run once

    Returns
    -------
    DataFrame with a row an epoch, as of `first_comparison`: data, model ('SGD'), kernel, device, repeat, nnz, epoch,
    seconds (of training alone, summed up), rmse, mae (on the test set), wall (as of `first_comparison.with_wall`)
    """
    ratings = load_ratings(data)
    train, test = ratings.split(0.2)
    threshold = first_comparison.threshold(ratings.name)
    parameters = {"factors": factors, "regularization": regularization, "learning_rate": learning_rate}
    parameters |= {"schedule": schedules.from_dict(schedule), "biases": True}
    frames = []
    for kernel, repeat in tqdm(list(_runs(kernels, repeats)), desc=f"sgd_douban {ratings.name}", leave=False):
        model = SGD(solver=kernel, seed=repeat, clip=False, **parameters)
        fitted = model.fit(train, epochs, test, stop=lambda row: row["mae"] <= threshold)
        history = first_comparison.with_wall(fitted, train, threshold)
        frames.append(history.assign(kernel=kernel, device=fitted.device, repeat=repeat))
    frame = pd.concat(frames, ignore_index=True).assign(data=ratings.name, model="SGD", nnz=train.nnz)
    frame = frame[["data", "model", "kernel", "device", "repeat", "nnz", "epoch", "seconds", "rmse", "mae", "wall"]]
    frame.attrs["datasets"] = [identity(ratings)]
    return frame


def _runs(kernels, repeats):
    """(kernel, repeat) of all that run here."""
    for kernel in kernels:
        device = SGD.solvers()[kernel]
        if device == "cpu" or backends.available():
            for repeat in range(1 if kernel in _DRAWING else repeats):
                yield kernel, repeat


summary, figure = first_comparison.summary, first_comparison.figure


def _times(frame, faster, cores, clock):
    """How many times as long one core or all cores take to the error of the data set: (ratio, spread, 'x')."""
    there = first_comparison.reached(frame)[clock].dropna().droplevel([0, 1])
    return times(there, first_comparison.BASELINES["SGD"][cores], faster)


FINDINGS = first_comparison.speedup_findings(
    "SGD", "SGD, fast", partial(_times, faster="fast"), Target(500, 2000, "higher")
)
