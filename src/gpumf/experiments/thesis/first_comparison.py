"""ALS and Hogwild SGD on one core, on all cores and on the GPU: error against epochs and seconds.

After the thesis, sections 6.1 and 6.5: 16 factors, 80 % of the ratings for training, the rest for the errors. Every
kernel starts from the same factors and sees the same split; repeats differ in both.
"""

from functools import partial

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import ALS, SGD
from gpumf import figure_style as style
from gpumf.experiments import _published, identity, load_ratings, usable_devices
from gpumf.experiments.tuning import PARAMETERS, chosen
from gpumf.findings import Finding, Target

FACTORS = 16
# Test MAE that counts as trained, of sets that the thesis does not use: a value that every model here reaches.
THRESHOLDS = {"ml": 0.76}

# Of the schemes of SGD those that the thesis has; `sgd_schemes` has them all.
SGD_KERNELS = "sequential", "parallel", "hogwild"

PROFILES = {
    "quick": {
        "data": ["ml-100k", "jester-1"],
        "als_epochs": 20,
        "sgd_epochs": 30,
        "repeats": 1,
        "parameters": PARAMETERS,
    },
    "full": {
        "data": ["ml-100k", "jester-1", "douban-twin"],
        "als_epochs": 20,
        "sgd_epochs": 50,
        "repeats": 1,
        "parameters": PARAMETERS,
    },
}
PROFILES["smoke"] = PROFILES["quick"] | {"data": ["ml-100k-twin"], "als_epochs": 3, "sgd_epochs": 2, "repeats": 2}


def run(data, als_epochs, sgd_epochs, repeats, parameters):
    """Train every kernel that this machine has.

    Parameters
    ----------
    data : names of data sets
    als_epochs, sgd_epochs : int
    repeats : int, runs of each; run k splits and initialises with seed k
    parameters : dict, data set -> model -> arguments of the model, see `tuning`

    Returns
    -------
    DataFrame with a row an epoch: data, model, kernel, device, repeat, the model's parameters, nnz (of the training
    set), transfer_seconds, epoch, seconds (of training alone, summed up), rmse, mae (both on the test set)
    """
    models = [(ALS, als_epochs), (SGD, sgd_epochs)]
    usable = usable_devices()
    runs = [
        (model, kernel, epochs, repeat)
        for model, epochs in models
        for kernel, device in model.solvers().items()
        if device in usable and (model is not SGD or kernel in SGD_KERNELS)
        for repeat in range(repeats)
    ]
    frames, identities = [], []
    for name in data:
        ratings = load_ratings(name)
        identities.append(identity(ratings))
        for model, kernel, epochs, repeat in tqdm(runs, desc=f"first_comparison {ratings.name}", leave=False):
            train, test = ratings.split(0.2, seed=repeat)
            arguments = chosen(parameters, name, model.__name__)
            fitted = model(FACTORS, solver=kernel, seed=repeat, **arguments).fit(train, epochs, test)
            frames.append(
                fitted.history.assign(
                    data=ratings.name,
                    model=model.__name__,
                    kernel=kernel,
                    device=fitted.device,
                    repeat=repeat,
                    nnz=train.nnz,
                    transfer_seconds=fitted.times.transfer,
                    **arguments,
                )
            )
    frame = pd.concat(frames, ignore_index=True)
    first = ["data", "model", "kernel", "device", "repeat"]
    frame = frame[first + [column for column in frame if column not in first]]
    frame.attrs["datasets"] = identities
    return frame


def summary(frame):
    """What each kernel reached, from the frame of `run`.

    Returns
    -------
    DataFrame with a row a data set and kernel: data, model, kernel, device, best_rmse, best_mae (means over the
    repeats), seconds_per_epoch (median over all epochs), threshold (MAE), epochs_to_threshold,
    seconds_to_threshold (medians over the repeats; NaN where one did not reach it), speedup (seconds_to_threshold of
    the same model on one core over this kernel's)
    """
    rows = []
    for (data, model, kernel, device), runs in frame.groupby(["data", "model", "kernel", "device"], sort=False):
        trained = threshold(data)
        repeats = runs.groupby("repeat")
        reached = repeats.apply(lambda run, t=trained: run[run.mae <= t].head(1)[["epoch", "seconds"]])
        everywhere = len(reached) == repeats.ngroups
        rows.append(
            {
                "data": data,
                "model": model,
                "kernel": kernel,
                "device": device,
                "best_rmse": repeats.rmse.min().mean(),
                "best_mae": repeats.mae.min().mean(),
                "seconds_per_epoch": repeats.seconds.diff().median(),
                "threshold": trained,
                "epochs_to_threshold": reached.epoch.median() if everywhere else float("nan"),
                "seconds_to_threshold": reached.seconds.median() if everywhere else float("nan"),
            }
        )
    table = pd.DataFrame(rows)
    one_core = table[table.kernel == "sequential"].set_index(["data", "model"]).seconds_to_threshold
    table["speedup"] = one_core.loc[list(zip(table.data, table.model, strict=True))].to_numpy()
    table["speedup"] /= table.seconds_to_threshold
    return table


def threshold(data):
    """The test MAE that counts as trained on a data set."""
    return _published.threshold(data) or THRESHOLDS[_published.family(data)]


def figure(frame, data=None, metric="mae"):
    """Test error against epochs and seconds, one line a kernel.

    data : names of data sets, all by default; metric : 'mae' or 'rmse'
    """
    data = frame.data.unique() if data is None else data
    return style.convergence(frame.assign(scheme=frame.kernel), data, metric, style.LOOKS, with_model=True)


def _best_speedup(frame, data, model):
    """That of the soonest GPU kernel over one core, to the same error."""
    table = summary(frame).query("data == @data and model == @model and device == 'cuda'")
    return table.speedup.max(), np.nan, "x"


FINDINGS = [
    Finding(
        "als-douban-speedup",
        "gpumf",
        None,
        "ALS, the soonest on the GPU | Douban twin | 16 factors | seconds of one core over its own to a test MAE of "
        "0.5732",
        partial(_best_speedup, data="douban-twin", model="ALS"),
        Target(1000, 3000, "higher"),
    )
]
