"""ALS, SGD and the Boltzmann machine by the error that they take away in a second.

After the thesis, section 6.6, Figure 6.13: the machine does not reach the threshold of section 6.5, so each model is
trained until it converges, and what its test MAE has fallen since the initial model is divided by the seconds. The
thesis does not say when a model has converged; here it has at the first epoch after which less than 1 % of all
that it gains is still to come. What a run gains is known only if it goes on: where it ends before it has taken twice
the epochs until then, convergence is not certain. Configurations are those of `speedups`; the published machine is
the thesis's own (`RBM.thesis`, with its initial values, averages and rate), and the fastest is ours, tuned.
"""

from functools import partial

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import ALS, RBM, SGD, backends
from gpumf_study import figure_style as style
from gpumf_study.experiments import identity, load_ratings
from gpumf_study.experiments.thesis import parameter_search, speedups
from gpumf_study.experiments.tuning import PARAMETERS, chosen
from gpumf_study.findings import Finding, Holds

SHARE = 0.01  # of the whole gain, which is still to come when a model has converged

_SIZES = {
    ALS: {"factors": parameter_search.FACTORS, "biases": False, "clip": False},
    SGD: {"factors": parameter_search.FACTORS, "biases": False, "clip": False},
    RBM: {"hidden": parameter_search.RBM_HIDDEN, "batch": parameter_search.RBM_BATCH, **parameter_search.RBM_FIXED},
}
# A label, and what it stands for: model, kernel, arguments beside the tuned ones or in their place. First the
# published versions, then the fastest.
VERSIONS = {
    "ALS": (ALS, "thesis_shared", {"threads": speedups.ALS_THREADS}),
    "SGD": (SGD, "hogwild", {"threads": speedups.SGD_THREADS}),
    "RBM": (RBM, "thesis", RBM.THESIS),
    "ALS, fastest": (ALS, None, {}),
    "SGD, fastest": (SGD, None, {}),
    "RBM, fastest": (RBM, None, {}),
}

PROFILES = {
    "quick": {
        "data": ["jester-1"],
        "users": 500,
        "epochs": {"ALS": 8, "SGD": 10, "RBM": 4},
        "repeats": 1,
        "parameters": PARAMETERS,
    },
    "full": {
        "data": ["jester-1", "jester-synthetic"],
        "users": None,
        "epochs": {"ALS": 20, "SGD": 800, "RBM": 80},
        "repeats": 3,
        "parameters": PARAMETERS,
    },
}
PROFILES["smoke"] = PROFILES["quick"] | {
    "data": ["ml-100k-synthetic"],
    "users": 60,
    "epochs": {"ALS": 2, "SGD": 2, "RBM": 2},
    "repeats": 1,
}


def run(data, users, epochs, repeats, parameters):
    """Train every version that this machine has.

    Parameters
    ----------
    data : names of data sets
    users : int, the first ones of each set; all by default
    epochs : dict, model -> int, at the most
    repeats : int, runs of each; run k has the training set and the initial model of seed k
    parameters : dict, data set -> model -> arguments of the model, see `tuning`

    Returns
    -------
    DataFrame with a row an epoch: data, version, model, kernel, device, repeat, regularization, learning_rate
    (missing where the model has none), epoch, seconds (of training alone, summed up), rmse, mae (both on the test
    set)
    """
    frames, identities = [], []
    for name in data:
        ratings = load_ratings(name)
        identities.append(identity(ratings))
        if users is not None:
            ratings = parameter_search.first_users(ratings, users)
        for repeat in range(repeats):
            train, test = ratings.split(0.2, seed=repeat)
            runs = [(v, *what) for v, what in VERSIONS.items() if _usable(*what[:2])]
            for version, model, kernel, arguments in tqdm(runs, desc=f"als_sgd_rbm {ratings.name}", leave=False):
                given = _SIZES[model] | chosen(parameters, name, model.__name__) | arguments
                fitted = model(solver=kernel, seed=repeat, **given)
                stop = parameter_search.OverfittingStop()
                history = fitted.fit(train, epochs[model.__name__], test, stop=stop).history
                what = {"data": ratings.name, "version": version, "model": model.__name__, "kernel": fitted.solver}
                what |= {"device": fitted.device, "repeat": repeat}
                what |= {name: given.get(name, np.nan) for name in ("regularization", "learning_rate")}
                frames.append(history.assign(**what))
    frame = pd.concat(frames, ignore_index=True)
    first = ["data", "version", "model", "kernel", "device", "repeat", "regularization", "learning_rate"]
    frame = frame[[*first, "epoch", "seconds", "rmse", "mae"]]
    frame.attrs["datasets"] = identities
    return frame


def _usable(model, kernel):
    return kernel is None or (backends.available() and kernel in model.solvers())


def summary(frame):
    """What each version gains in a second, from the frame of `run`.

    Returns
    -------
    DataFrame with a row a version: data, version, model, kernel, initial_mae, mae (when converged), epochs and
    seconds until then, reduction_per_second (MAE a second; means over the repeats), deviation (its standard one),
    certain (whether each repeat went on for as many epochs again)
    """
    rows = []
    for (data, version, repeat), run in frame.groupby(["data", "version", "repeat"], sort=False):
        run = run.sort_values("epoch")
        initial, best = run.mae.iloc[0], run.mae.iloc[1:].min()
        converged = run[(run.epoch > 0) & (run.mae <= best + SHARE * abs(initial - best))].iloc[0]
        what = data, version, run.model.iloc[0], run.kernel.iloc[0], repeat, initial, converged.mae, converged.epoch
        certain = run.epoch.iloc[-1] >= 2 * converged.epoch
        rows.append((*what, converged.seconds, (initial - converged.mae) / converged.seconds, certain))
    columns = ["data", "version", "model", "kernel", "repeat", "initial_mae", "mae", "epochs", "seconds"]
    runs = pd.DataFrame(rows, columns=[*columns, "reduction_per_second", "certain"])
    groups = runs.groupby(["data", "version", "model", "kernel"], sort=False)
    table = groups[["initial_mae", "mae", "epochs", "seconds", "reduction_per_second"]].mean()
    return table.assign(deviation=groups.reduction_per_second.std(), certain=groups.certain.all()).reset_index()


def factors(frame, suffix=""):
    """How many times as much ALS and SGD gain in a second as the machine does, on each data set.

    suffix : of the versions, '' for the published ones, ', fastest' for these

    Returns
    -------
    DataFrame with the columns data, ALS, SGD; missing where a version was not measured
    """
    rates = summary(frame).pivot(index="data", columns="version", values="reduction_per_second")
    rates = rates.reindex(columns=[f"{model}{suffix}" for model in ("ALS", "SGD", "RBM")])
    rates.columns = ["ALS", "SGD", "RBM"]
    return rates[["ALS", "SGD"]].div(rates.RBM, axis=0).reset_index()


def figure(frame):
    """What each model takes off the test MAE in a second until it converges, an axis a data set.

    Hollow: the run may have ended before it had converged.
    """
    table = summary(frame)
    names = table.data.unique()
    figure, (axes,) = style.panels(columns=len(names), height=3.4, sharey=True)
    order = list(table.version.unique())[::-1]
    for axis, name in zip(axes, names, strict=True):
        rows = table[table.data == name].set_index("version").reindex(order)
        colours = [style.MODELS[version[:3]][0] for version in order]
        spread = rows.deviation.where(rows.deviation.notna(), 0)
        place = np.arange(len(rows))
        style.marks(axis, rows.reduction_per_second, place, colours, sure=rows.certain.eq(True), spread=spread)
        axis.set_yticks(place, order)
        axis.set(xlabel="reduction in MAE a second", title=name)
        axis.set_xscale("log")
    return figure


def _least(frame, suffix):
    """The least factor of ALS and SGD over the machine on any set, with its spread."""
    rates = summary(frame).set_index(["data", "version"])
    found = []
    for data in frame.data.unique():
        rate = rates.loc[data].reindex([f"{model}{suffix}" for model in ("ALS", "SGD", "RBM")])
        gained, spread = rate.reduction_per_second, (rate.deviation / rate.reduction_per_second).fillna(0)
        factor = gained.iloc[:2] / gained.iloc[2]
        found += [(f, f * np.hypot(s, spread.iloc[2]), "x") for f, s in zip(factor, spread, strict=False)]
    return min((f for f in found if not np.isnan(f[0])), default=(np.nan, np.nan, "x"))


FINDINGS = [
    Finding(
        f"thesis-fig-6.13{name}",
        "thesis",
        "Figure 6.13",
        f"ALS and SGD take more off the test MAE in a second than the Boltzmann machine, in {which}: least factor.",
        partial(_least, suffix=suffix),
        Holds(above=1),
    )
    for name, suffix, which in (("", "", "the published versions"), ("-fastest", ", fastest", "the fastest versions"))
]
