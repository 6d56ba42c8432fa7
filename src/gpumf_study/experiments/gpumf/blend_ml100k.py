"""What a Boltzmann machine adds to factorizations: errors of models and blends on MovieLens 100K, five folds.

After the thesis, sections 1 and 7.1: both kinds of models find other patterns, and hybrids of them win. Every fold
chooses the parameters and epochs of each model, and the weights of each blend, on a tenth of its training ratings
that is held out; then the models train on all of them, and are judged on the fold's test ratings once. A blend has
one set of weights, those of its least squares, and is judged by both measures with them.
"""

from functools import partial
from itertools import islice, product

import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator
from tqdm import tqdm

from gpumf import ALS, RBM, SGD, Blend
from gpumf.solvers import schedules
from gpumf_study import figure_style as style
from gpumf_study.experiments import identity, load_ratings
from gpumf_study.findings import Finding, Holds, Open

MODELS = {"RBM": RBM, "SGD": SGD, "ALS": ALS}
BLENDS = [("RBM", "SGD"), ("RBM", "ALS"), ("SGD", "ALS"), ("RBM", "SGD", "ALS")]
METRICS = "rmse", "mae"
_FITTED_TO = "rmse"
FIXED = {
    "RBM": {"momentum": 0.9, "average": "batch", "batch": 50, "biases": False},
    "SGD": {"biases": True, "clip": False, "bias_regularization": 0.02},
    "ALS": {"biases": False, "clip": False},
}
"""What every model of a kind has in common; `beta` in a grid is that of `schedules.Power`."""

PROFILES = {
    "quick": {
        "data": "ml-100k",
        "folds": 2,
        "grids": {
            "RBM": {"hidden": [100], "learning_rate": [0.1], "weight_decay": [0.01], "beta": [0.01]},
            "SGD": {"factors": [32], "regularization": [0.08, 0.1], "learning_rate": [0.02], "beta": [0.02]},
            "ALS": {"factors": [16], "regularization": [0.1, 0.12]},
        },
        "epochs": {"RBM": 20, "SGD": 30, "ALS": 8},
        "kernels": {"RBM": "sequential", "SGD": "sequential", "ALS": "sequential"},
        "seeds": 1,
    },
    "full": {
        "data": "ml-100k",
        "folds": 5,
        "grids": {
            "RBM": {
                "hidden": [250, 500],
                "learning_rate": [0.05, 0.1],
                "weight_decay": [0.007, 0.01, 0.015],
                "beta": [0.02],
            },
            "SGD": {
                "factors": [256],
                "regularization": [0.05, 0.06, 0.07],
                "learning_rate": [0.02],
                "beta": [0.01],
                "init_std": [0.003, 0.01],
            },
            "ALS": {"factors": [16, 32], "regularization": [0.1, 0.12, 0.14]},
        },
        "epochs": {"RBM": 150, "SGD": 150, "ALS": 25},
        "kernels": {"RBM": None, "SGD": None, "ALS": None},
        "seeds": 3,
    },
}
PROFILES["smoke"] = PROFILES["quick"] | {
    "data": "ml-100k-synthetic",
    "grids": {
        "RBM": {"hidden": [8], "learning_rate": [0.05], "beta": [0.01]},
        "SGD": {"factors": [4], "regularization": [0.1]},
        "ALS": {"factors": [4], "regularization": [0.1, 0.12]},
    },
    "epochs": {"RBM": 3, "SGD": 3, "ALS": 2},
}


def run(data, folds, grids, epochs, kernels, seeds):
    """Choose, blend and judge, fold by fold.

    Parameters
    ----------
    data : name of a data set
    folds : int, how many of the five
    grids : for each of MODELS a dict of lists of its parameters, all of whose combinations are tried
    epochs : for each of MODELS the most
    kernels : for each of MODELS the name of its kernel; None for the fastest of this machine
    seeds : int, of all models, when the chosen parameters are judged

    Returns
    -------
    DataFrame with a row a model or blend: fold, step ('choice' on the held-out ratings or 'test'), seed, model (of a
    blend the models' names joined by ' + '), kernel and device (of a model), the parameters of the grids, epochs
    (that were best on the held-out ratings), fitted_to (the error that the weights of a blend make least, 'rmse';
    missing for a model), weight_RBM, weight_SGD, weight_ALS (of a blend), rmse, mae
    """
    ratings = load_ratings(data)
    rows = []
    for fold, (train, test) in tqdm(
        enumerate(islice(ratings.kfold(5), folds)), total=folds, desc="blend_ml100k", leave=False
    ):
        inner, held_out = train.split(0.1, seed=fold)
        choice, chosen = {"fold": fold, "step": "choice", "seed": 0}, {}
        for name in MODELS:
            tried = [
                _tried(name, kernels[name], p, inner, epochs[name], held_out) for p in _combinations(grids[name])
            ]
            rows += [choice | row for row in tried]
            best = min(tried, key=lambda row: row["rmse"])
            chosen[name] = {key: best[key] for key in grids[name]}, best["epochs"]
        fitted = _fitted(chosen, kernels, 0, inner)
        blends = {names: Blend(*(fitted[name] for name in names)).fit(held_out, _FITTED_TO) for names in BLENDS}
        rows += [choice | _blended(names, blend, held_out) for names, blend in blends.items()]
        for seed in range(seeds):
            judged = {"fold": fold, "step": "test", "seed": seed}
            fitted = _fitted(chosen, kernels, seed, train)
            rows += [
                judged | _described(name, fitted[name], *chosen[name]) | fitted[name].score(test) for name in MODELS
            ]
            for names, blend in blends.items():
                trained_on_all = Blend(*(fitted[name] for name in names), weights=blend.weights)
                rows.append(judged | _blended(names, trained_on_all, test))
    frame = pd.DataFrame(rows)
    frame.attrs["datasets"] = [identity(ratings)]
    return frame


def _combinations(grid):
    for values in product(*grid.values()):
        yield dict(zip(grid, values, strict=True))


def _model(name, kernel, seed, parameters):
    parameters = dict(parameters)
    if "beta" in parameters:
        parameters["schedule"] = schedules.Power(parameters.pop("beta"))
    return MODELS[name](solver=kernel, seed=seed, **FIXED[name], **parameters)


def _tried(name, kernel, parameters, inner, epochs, held_out):
    """The row of a training, without fold, step and seed: the errors are those after the best epoch."""
    model = _model(name, kernel, 0, parameters).fit(inner, epochs, held_out)
    best = model.history.loc[model.history.rmse.idxmin()]
    return _described(name, model, parameters, int(best.epoch)) | {"rmse": best.rmse, "mae": best.mae}


def _described(name, model, parameters, epochs):
    return {"model": name, "kernel": model.solver, "device": model.device, **parameters, "epochs": epochs}


def _fitted(chosen, kernels, seed, train):
    """Every model with its chosen parameters, trained for its chosen epochs."""
    return {
        name: _model(name, kernels[name], seed, parameters).fit(train, epochs)
        for name, (parameters, epochs) in chosen.items()
    }


def _blended(names, blend, ratings):
    weights = {f"weight_{name}": weight for name, weight in zip(names, blend.weights, strict=True)}
    return {"model": " + ".join(names), "fitted_to": _FITTED_TO} | weights | blend.score(ratings)


def summary(frame):
    """Errors over the folds, from the frame of `run`.

    Returns
    -------
    DataFrame with a row a model or blend and measure: model, measure ('rmse' or 'mae'), mean (over folds and seeds),
    spread (standard deviation over the seeds of the mean over the folds; NaN with one seed), weight_RBM, weight_SGD,
    weight_ALS (of a blend: means)
    """
    tests = judged(frame)
    weights = tests.groupby("model", sort=False)[[f"weight_{name}" for name in MODELS]].mean()
    tables = [
        _by_seed(frame, measure).agg(["mean", "std"]).T.rename(columns={"std": "spread"}).join(weights)
        for measure in METRICS
    ]
    table = pd.concat(tables, keys=METRICS, names=["measure", "model"]).reset_index()
    return table[["model", "measure", *table.columns.drop(["model", "measure"])]]


def judged(frame):
    """The rows on test ratings."""
    # Older results have blends with other weights too.
    return frame[(frame.step == "test") & (frame.fitted_to.isna() | (frame.fitted_to == _FITTED_TO))]


def _by_seed(frame, measure):
    """Means over the folds: a row a seed, a column a model or blend."""
    tests = judged(frame)
    order = tests.model.unique()
    return tests.pivot_table(index="seed", columns="model", values=measure, aggfunc="mean")[order]


def figure(frame):
    """Test RMSE (left) and MAE (right) of each model and blend: means over the folds, a point a seed."""
    table = summary(frame)
    order = list(table.model.unique())[::-1]
    figure, (axes,) = style.panels(columns=2, height=1.4 + 0.3 * len(order), sharey=True)
    for axis, measure in zip(axes, METRICS, strict=True):
        seeds = _by_seed(frame, measure).melt(value_name=measure)
        means = table[table.measure == measure].set_index("model")["mean"]
        axis.plot(
            seeds[measure], seeds.model.map(order.index), "o", color=style.COLOURS["blue"], alpha=0.4, label="a seed"
        )
        axis.plot(means, means.index.map(order.index), "|", color=style.COLOURS["black"], markersize=14, label="mean")
        axis.set_yticks(np.arange(len(order)), order)
        axis.set(xlabel=f"test {measure.upper()}, mean of {frame.fold.nunique()} folds")
        axis.xaxis.set_major_locator(MaxNLocator(5))
    style.legend(figure, axes[0], 2)
    return figure


EVERYTHING, WITHOUT = " + ".join(MODELS), " + ".join(name for name in MODELS if name != "RBM")


def _error(frame, measure):
    """Of the blend of all models."""
    row = summary(frame).query("measure == @measure").set_index("model").loc[EVERYTHING]
    return row["mean"], row.spread, "rating"


def gain(frame, measure):
    """By how much the blend of all is below the best of its parts, from the same seed: (mean, standard deviation)."""
    errors = _by_seed(frame, measure)
    below = errors[errors[list(MODELS)].mean().idxmin()] - errors[EVERYTHING]
    return below.mean(), below.std(), "rating"


def gain_of_machine(frame, measure):
    """By how much the blend of all is below that of the two factorizations, from the same seed: as `gain`."""
    errors = _by_seed(frame, measure)
    below = errors[WITHOUT] - errors[EVERYTHING]
    return below.mean(), below.std(), "rating"


FINDINGS = [
    Finding(
        f"blend-ml100k-{measure}{name}",
        "gpumf",
        None,
        f"RBM, SGD and ALS blended | MovieLens 100K, five folds | factors by search | test {measure.upper()}{what}",
        partial(value, measure=measure),
        rule,
    )
    for measure in METRICS
    for name, what, value, rule in (
        ("", "", _error, Open()),
        ("-gain", " below that of its best part", gain, Holds(above=0)),
        ("-machine", " below that of SGD and ALS blended", gain_of_machine, Holds(above=0)),
    )
]
