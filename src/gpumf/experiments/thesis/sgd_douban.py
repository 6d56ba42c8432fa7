"""Seconds of SGD to the error that the thesis calls trained: one core, all cores, and the GPU in the same run.

After the thesis, section 6.5: the Douban set, 16 factors, an MAE of 0.5732, 80 % of the ratings for training. All
share factors at the start, rates and schedule; all have biases, which the thesis's model has not: without them SGD
does not get there on the twin in many more epochs (see `first_comparison`).
"""

from functools import partial

import pandas as pd
from tqdm import tqdm

from gpumf import SGD, gpu
from gpumf.experiments import identity, load_ratings
from gpumf.experiments.thesis import first_comparison
from gpumf.findings import Finding, Target, times
from gpumf.models.sgd import schedules

_COMMON = {"kernels": ["sequential", "parallel", "hogwild", "fast"], "factors": 16}
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
        "data": "douban-twin",
        "regularization": 0.04,
        "learning_rate": 0.05,
        "schedule": {"name": "Power", "beta": 0.01, "power": 1.5},
        "epochs": 40,
        "repeats": 5,
        **_COMMON,
    },
}
PROFILES["smoke"] = PROFILES["quick"] | {"data": "ml-100k-twin", "epochs": 2}


def run(data, kernels, factors, regularization, learning_rate, schedule, epochs, repeats):
    """Train the kernels that this machine has until they reach the error of the data set.

    Parameters
    ----------
    data : name of a data set that has a `first_comparison.threshold`
    kernels : of SGD
    factors, regularization, learning_rate : as of SGD
    schedule : one as a dict, see `schedules.to_dict`
    epochs : int, the most
    repeats : int, runs of the kernels on a GPU, run k with seed k; the others run once

    Returns
    -------
    DataFrame with a row an epoch, as of `first_comparison`: data, model ('SGD'), kernel, device, repeat, nnz, epoch,
    seconds (of training alone, summed up), rmse, mae (on the test set)
    """
    ratings = load_ratings(data)
    train, test = ratings.split(0.2)
    threshold = first_comparison.threshold(ratings.name)
    parameters = {"factors": factors, "regularization": regularization, "learning_rate": learning_rate}
    parameters |= {"schedule": schedules.from_dict(schedule), "biases": True}
    frames = []
    for kernel, repeat in tqdm(list(_runs(kernels, repeats)), desc=f"sgd_douban {ratings.name}", leave=False):
        model = SGD(solver=kernel, seed=repeat, **parameters)
        fitted = model.fit(train, epochs, test, stop=lambda row: row["mae"] <= threshold)
        frames.append(fitted.history.assign(kernel=kernel, device=fitted.device, repeat=repeat))
    frame = pd.concat(frames, ignore_index=True).assign(data=ratings.name, model="SGD", nnz=train.nnz)
    frame = frame[["data", "model", "kernel", "device", "repeat", "nnz", "epoch", "seconds", "rmse", "mae"]]
    frame.attrs["datasets"] = [identity(ratings)]
    return frame


def _runs(kernels, repeats):
    """(kernel, repeat) of all that run here."""
    for kernel in kernels:
        device = SGD.solvers()[kernel]
        if device == "cpu" or gpu.available():
            for repeat in range(repeats if device == "cuda" else 1):
                yield kernel, repeat


summary, figure = first_comparison.summary, first_comparison.figure


def _times(frame, faster):
    """How many times as long one core takes to the error of the data set, whose history ends with it."""
    threshold = first_comparison.threshold(frame.data.iloc[0])
    last = frame[frame.epoch > 0].groupby(["kernel", "repeat"]).tail(1).set_index("kernel")
    there = (last.mae <= threshold).groupby("kernel").all()
    return times(last.seconds[there.reindex(last.index)], "sequential", faster)


FINDINGS = [
    Finding(
        "sgd-douban-speedup",
        "gpumf",
        None,
        "SGD, fast | Douban twin | 16 factors | seconds of one core over its own to a test MAE of 0.5732",
        partial(_times, faster="fast"),
        Target(500, 2000, "higher"),
    )
]
