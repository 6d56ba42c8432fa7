"""ALS and Hogwild SGD on one core, on all cores and on the GPU: error against epochs and seconds.

After the thesis, sections 6.1 and 6.5: 16 factors, 80 % of the ratings for training, the rest for the errors. Every
kernel starts from the same factors and sees the same split; repeats differ in both. Speed-ups are over one core and
all cores of the same machine, of SGD in an order that caches, each rating once; the thesis's one core, which draws
with replacement, is there under its own name.
"""

from functools import partial

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import ALS, SGD
from gpumf_study import figure_style as style
from gpumf_study.experiments import _published, identity, load_ratings, usable_devices, wall_seconds
from gpumf_study.experiments.tuning import PARAMETERS, chosen
from gpumf_study.findings import Finding, Holds, Target, ratio

FACTORS = 16
# Test MAE that counts as trained, of sets that the thesis does not use: a value that every model here reaches.
THRESHOLDS = {"ml": 0.76}

# Of the schemes of SGD the thesis's, and the processor's that take each rating once; `sgd_schemes` has them all.
SGD_KERNELS = "sequential", "parallel", "ordered", "ordered_parallel", "hogwild"
BASELINES = {
    "ALS": {"one core": "sequential", "all cores": "parallel"},
    "SGD": {"one core": "ordered", "all cores": "ordered_parallel"},
}
"""Of each model the kernels of the processor that speed-ups are over."""

PROFILES = {
    "quick": {
        "data": ["ml-100k", "jester-1"],
        "als_epochs": 10,
        "sgd_epochs": 15,
        "repeats": 1,
        "parameters": PARAMETERS,
    },
    "full": {
        "data": ["ml-100k", "jester-1", "douban-synthetic"],
        "als_epochs": 20,
        "sgd_epochs": 30,
        "repeats": 3,
        "parameters": PARAMETERS,
    },
}
PROFILES["smoke"] = PROFILES["quick"] | {
    "data": ["ml-100k-synthetic"],
    "als_epochs": 3,
    "sgd_epochs": 2,
    "repeats": 2,
}


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
    set), transfer_seconds, epoch, seconds (of training alone, summed up), rmse, mae (both on the test set), wall (see
    `with_wall`)
    """
    models = [(ALS, als_epochs), (SGD, sgd_epochs)]
    usable = usable_devices()
    kernels = [
        (model, kernel, epochs)
        for model, epochs in models
        for kernel, device in model.solvers().items()
        if device in usable and (model is not SGD or kernel in SGD_KERNELS)
    ]
    frames, identities = [], []
    for name in data:
        ratings = load_ratings(name)
        identities.append(identity(ratings))
        for repeat in range(repeats):
            train, test = ratings.split(0.2, seed=repeat)
            for model, kernel, epochs in tqdm(kernels, desc=f"first_comparison {ratings.name}", leave=False):
                arguments = chosen(parameters, name, model.__name__)
                fitted = model(FACTORS, biases=False, clip=False, solver=kernel, seed=repeat, **arguments)
                fitted.fit(train, epochs, test)
                frames.append(
                    with_wall(fitted, train, threshold(ratings.name)).assign(
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


def with_wall(fitted, train, mae):
    """The history of a model, and the wall's seconds to an error.

    Returns
    -------
    DataFrame with the columns of the history and wall: of a `fit` of the same model that ends with the first epoch
    whose test MAE is no larger than `mae` (`wall_seconds`); NaN in all other epochs
    """
    history = fitted.history.assign(wall=np.nan)
    reached = history.index[history.mae <= mae]
    if len(reached):
        epochs = int(history.epoch[reached[0]])
        history.loc[reached[0], "wall"] = wall_seconds(fitted, train, epochs)
    return history


def reached(frame):
    """Of each repeat of each kernel the first epoch whose MAE is the threshold or less.

    Returns
    -------
    DataFrame with the index (data, model, kernel) and the columns repeat, epoch, seconds, wall; without the kernels
    of which a repeat did not get there
    """
    keys = ["data", "model", "kernel"]
    there = frame[frame.mae <= frame.data.map(threshold)].groupby([*keys, "repeat"], sort=False).head(1)
    # Results from before the wall was measured have none.
    there = there.reindex(columns=[*keys, "repeat", "epoch", "seconds", "wall"]).set_index(keys)
    runs = frame.groupby(keys).repeat.nunique()
    return there[there.groupby(keys).repeat.transform("nunique") == runs.reindex(there.index)]


def summary(frame):
    """What each kernel reached, from the frame of `run`.

    Returns
    -------
    DataFrame with a row a data set and kernel: data, model, kernel, device, rmse, mae (after the last epoch, means
    over the repeats), rmse_spread, mae_spread (half of what the repeats cover; NaN of one), seconds_per_epoch (median
    over all epochs), threshold (MAE), epochs_to_threshold, seconds_to_threshold, wall_to_threshold (medians over the
    repeats; NaN where one did not reach it), speedup and over_all_cores (seconds_to_threshold of the same model's
    BASELINES over this kernel's), wall_speedup and wall_over_all_cores (the same of wall_to_threshold)
    """
    rows = []
    medians = reached(frame).groupby(level=[0, 1, 2]).median()
    for (data, model, kernel, device), runs in frame.groupby(["data", "model", "kernel", "device"], sort=False):
        repeats = runs.groupby("repeat")
        last = repeats[["rmse", "mae"]].last()
        there = medians.reindex([(data, model, kernel)]).iloc[0]
        spread = np.ptp(last, axis=0) / 2 if len(last) > 1 else (np.nan, np.nan)
        rows.append(
            {
                "data": data,
                "model": model,
                "kernel": kernel,
                "device": device,
                **last.mean(),
                **dict(zip(("rmse_spread", "mae_spread"), spread, strict=True)),
                "seconds_per_epoch": repeats.seconds.diff().median(),
                "threshold": threshold(data),
                "epochs_to_threshold": there.epoch,
                "seconds_to_threshold": there.seconds,
                "wall_to_threshold": there.wall,
            }
        )
    table = pd.DataFrame(rows)
    of = table.set_index(["data", "model", "kernel"])
    for cores, train, wall in (
        ("one core", "speedup", "wall_speedup"),
        ("all cores", "over_all_cores", "wall_over_all_cores"),
    ):
        baselines = [(row.data, row.model, BASELINES[row.model][cores]) for row in table.itertuples()]
        for name, seconds in ((train, "seconds_to_threshold"), (wall, "wall_to_threshold")):
            table[name] = of[seconds].reindex(baselines).to_numpy() / table[seconds]
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


def best_speedup(frame, data, model, cores, clock):
    """That of the soonest GPU kernel over one core or all cores, to the same error: (ratio, spread, 'x').

    cores : a key of BASELINES; clock : 'seconds' of training, or 'wall'
    """
    there = reached(frame[(frame.data == data) & (frame.model == model)])[clock].dropna().droplevel([0, 1])
    on_gpu = there[there.index.isin(frame[frame.device == "cuda"].kernel)]
    baseline = there[there.index == BASELINES[model][cores]]
    if on_gpu.empty or baseline.empty:
        return np.nan, np.nan, "x"
    return *ratio(baseline, on_gpu[on_gpu.index == on_gpu.groupby(level=0).median().idxmin()]), "x"


def speedup_findings(model, version, value, target):
    """The findings on speed-ups at Douban: over one core and all cores, of training and of the wall.

    value : as of Finding, with the keyword arguments cores and clock
    target : Target of training over one core; the others are to be above one
    """
    return [
        Finding(
            f"{model.lower()}-douban-speedup{'' if cores == 'one core' else '-all-cores'}"
            f"{'' if clock == 'seconds' else '-wall'}",
            "gpumf",
            None,
            f"{version} | Douban twin | 16 factors | {what} of {cores} over its own to the test MAE that the twin is "
            "calibrated to, 0.5732",
            partial(value, cores=cores, clock=clock),
            target if (cores, clock) == ("one core", "seconds") else Holds(above=1),
        )
        for cores in ("one core", "all cores")
        for clock, what in (("seconds", "training seconds"), ("wall", "wall seconds"))
    ]


FINDINGS = speedup_findings(
    "ALS",
    "ALS, the soonest on the GPU",
    partial(best_speedup, data="douban-synthetic", model="ALS"),
    Target(1000, 3000, "higher"),
)
