"""What an RBM adds to factorizations: errors of models and blends on MovieLens 100K, five folds.

After the thesis, sections 1 and 7.1: both kinds of models find other patterns, and hybrids of them win. Every fold
chooses the parameters and epochs of each model, and the weights of each blend, on a tenth of its training ratings
that is held out; then the models train on all of them, and are judged on the fold's test ratings once. A blend has
one set of weights, those of its least squares, and is judged by both measures with them.
"""

from itertools import islice

import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator
from tqdm import tqdm

from gpumf import ALS, RBM, SGD, Blend
from gpumf.solvers import schedules
from gpumf_study import figure_style as style
from gpumf_study import sweep
from gpumf_study.claims import Claim, above
from gpumf_study.experiments import load_ratings

MODELS = {"RBM": RBM, "SGD": SGD, "ALS": ALS}
BLENDS = [("RBM", "SGD"), ("RBM", "ALS"), ("SGD", "ALS"), ("RBM", "SGD", "ALS")]
METRICS = ["rmse", "mae"]
_FITTED_TO = "rmse"
FIXED = {
    "RBM": {"momentum": 0.9, "average": "batch", "batch": 50, "biases": False},
    "SGD": {"biases": True, "clip": False, "bias_regularization": 0.02},
    "ALS": {"biases": False, "clip": False},
}
"""What every model of a kind has in common; `beta` in a grid is that of `schedules.Power`."""

PROFILES = {
    "quick": {"data": "ml-100k", "folds": 2,
              "grids": {"RBM": {"hidden": [100], "learning_rate": [0.1], "weight_decay": [0.01], "beta": [0.01]},
                        "SGD": {"factors": [32], "regularization": [0.08, 0.1], "learning_rate": [0.02],
                                "beta": [0.02]}, "ALS": {"factors": [16], "regularization": [0.1, 0.12]}},
              "epochs": {"RBM": 20, "SGD": 30, "ALS": 8},
              "kernels": {"RBM": "sequential", "SGD": "sequential", "ALS": "sequential"}, "seeds": 1},
    "full": {"data": "ml-100k", "folds": 5,
             "grids": {"RBM": {"hidden": [250, 500], "learning_rate": [0.05, 0.1],
                               "weight_decay": [0.007, 0.01, 0.015], "beta": [0.02]},
                       "SGD": {"factors": [256], "regularization": [0.05, 0.06, 0.07], "learning_rate": [0.02],
                               "beta": [0.01], "init_std": [0.003, 0.01]},
                       "ALS": {"factors": [16, 32], "regularization": [0.1, 0.12, 0.14]}},
             "epochs": {"RBM": 150, "SGD": 150, "ALS": 25}, "kernels": {"RBM": None, "SGD": None, "ALS": None},
             "seeds": 5},
}  # fmt: skip
PROFILES["smoke"] = PROFILES["quick"] | {
    "data": "ml-100k-synthetic",
    "grids": {"RBM": {"hidden": [8], "learning_rate": [0.05], "beta": [0.01]},
              "SGD": {"factors": [4], "regularization": [0.1]},
              "ALS": {"factors": [4], "regularization": [0.1, 0.12]}}, "epochs": {"RBM": 3, "SGD": 3, "ALS": 2},
}  # fmt: skip


def run(data, folds, grids, epochs, kernels, seeds):
    """Choose, blend and judge, fold by fold.

    folds : int, how many of the five
    grids : for each of MODELS a dict of lists of its parameters, all of whose combinations are tried
    epochs : for each of MODELS the most
    kernels : for each of MODELS the name of its kernel; None for the fastest of this machine
    seeds : int, of all models, when the chosen parameters are judged

    A row is an error of a model or blend (the models' names joined by ' + '), which x_step 'choice' judges on the
    held-out ratings, and 'test'. Of a model there are its parameters (factors are also hidden units) and the epoch
    that was best on the held-out ratings, of a blend x_weight_RBM, x_weight_SGD and x_weight_ALS.
    """
    ratings = load_ratings(data)
    rows = []
    for fold, (train, test) in tqdm(
        enumerate(islice(ratings.kfold(5), folds)), total=folds, desc="blend_ml100k", leave=False
    ):
        inner, held_out = train.split(0.1, seed=fold)
        choice, chosen = {"x_fold": fold, "x_step": "choice", "repeat": 0}, {}
        for name in MODELS:
            settings, given = sweep.combinations(grids[name]), (inner, epochs[name], held_out)
            tried = [_tried(name, kernels[name], parameters, *given) for parameters in settings]
            rows += [choice | row for row in tried]
            best = min(range(len(tried)), key=lambda k: tried[k]["rmse"])
            chosen[name] = settings[best], tried[best]["epoch"]
        fitted = _fitted(chosen, kernels, 0, inner)
        blends = {names: Blend(*(fitted[name] for name in names)).fit(held_out, _FITTED_TO) for names in BLENDS}
        rows += [choice | _blended(names, blend, held_out) for names, blend in blends.items()]
        for seed in range(seeds):
            judged = {"x_fold": fold, "x_step": "test", "repeat": seed}
            fitted = _fitted(chosen, kernels, seed, train)
            rows += [
                judged | _described(name, fitted[name], *chosen[name]) | fitted[name].score(test) for name in MODELS
            ]
            for names, blend in blends.items():
                trained_on_all = Blend(*(fitted[name] for name in names), weights=blend.weights)
                rows.append(judged | _blended(names, trained_on_all, test))
    frame = pd.DataFrame(rows).assign(data=ratings.name, task="fit")
    return frame.melt([name for name in frame if name not in METRICS], METRICS, "metric", "value")


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
    columns = {"factors" if key in ("factors", "hidden") else f"x_{key}": of for key, of in parameters.items()}
    return {"model": name, "solver": model.solver, "device": model.device, **columns, "epoch": epochs}


def _fitted(chosen, kernels, seed, train):
    """Every model with its chosen parameters, trained for its chosen epochs."""
    return {
        name: _model(name, kernels[name], seed, parameters).fit(train, epochs)
        for name, (parameters, epochs) in chosen.items()
    }


def _blended(names, blend, ratings):
    weights = {f"x_weight_{name}": weight for name, weight in zip(names, blend.weights, strict=True)}
    return {"model": " + ".join(names)} | weights | blend.score(ratings)


EVERYTHING, WITHOUT = " + ".join(MODELS), " + ".join(name for name in MODELS if name != "RBM")


def by_seed(frame):
    """Return the test errors, means over the folds: a row a metric and repeat, a column a model or blend."""
    tests = frame[frame.x_step == "test"]
    table = tests.pivot_table(index=["metric", "repeat"], columns="model", values="value", aggfunc="mean")
    return table[tests.model.unique()]


def summary(frame):
    """Return the test errors over the folds, a row a model or blend and metric.

    Columns are model, metric, mean (over folds and seeds), spread (standard deviation over the seeds of the mean over
    the folds; NaN with one seed), weight_RBM, weight_SGD, weight_ALS (of a blend: means).
    """
    names = [f"x_weight_{name}" for name in MODELS]
    weights = frame[frame.x_step == "test"].groupby("model", sort=False)[names].mean()
    errors = by_seed(frame).groupby("metric").agg(["mean", "std"]).stack("model", future_stack=True)
    weights = weights.rename(columns=lambda name: name.removeprefix("x_"))
    return errors.rename(columns={"std": "spread"}).join(weights).reset_index()


def gains(frame):
    """Return by metric and repeat the error of the blend of all, and by how much it is below others.

    Columns are x_error, x_gain (below the best of its parts) and x_machine (below the blend of the factorizations).
    """
    errors = by_seed(frame)
    means = errors[list(MODELS)].groupby("metric").transform("mean")
    best = errors[list(MODELS)].where(means.eq(means.min(axis=1), axis=0)).max(axis=1)
    table = {"x_error": errors[EVERYTHING], "x_gain": best - errors[EVERYTHING]}
    return pd.DataFrame(table | {"x_machine": errors[WITHOUT] - errors[EVERYTHING]}).reset_index()


def figure(frame):
    """Draw test RMSE (left) and MAE (right) of each model and blend: means over the folds, a point a seed."""
    seeds = by_seed(frame)
    order = list(seeds)[::-1]
    figure, (axes,) = style.panels(columns=2, height=1.4 + 0.3 * len(order), sharey=True)
    for axis, metric in zip(axes, METRICS, strict=True):
        of = seeds.loc[metric]
        points = of.melt(value_name="error")
        places = points.model.map(order.index)
        axis.plot(points.error, places, "o", color=style.COLOURS["blue"], alpha=0.4, label="a seed")
        look = {"color": style.COLOURS["black"], "markersize": 14, "label": "mean"}
        axis.plot(of.mean(), of.columns.map(order.index), "|", **look)
        for name, error in of.mean().items():
            axis.annotate(f"{error:.4f}", (error, order.index(name)), (8, -3), textcoords="offset points", size=9)
        axis.set_yticks(np.arange(len(order)), order)
        axis.set(xlabel=f"test {metric.upper()}, mean of {frame.x_fold.nunique()} folds")
        axis.xaxis.set_major_locator(MaxNLocator(5))
        axis.margins(x=0.25)
    style.legend(figure, axes[0], 2)
    return figure


CLAIMS = [
    Claim(
        f"blend-ml100k-{metric}{suffix}", "gpumf", None, f"Test {metric.upper()} {text}, MovieLens 100K, five folds.",
        metric="median", select={"column": column, "where": {"metric": metric}}, criterion=criterion, table=gains,
    )
    for metric in METRICS
    for suffix, column, text, criterion in (
        ("", "x_error", "of the blend of RBM, SGD and ALS", None),
        ("-gain", "x_gain", "of the best of RBM, SGD and ALS less that of their blend", above(0)),
        ("-machine", "x_machine", "of the blend of SGD and ALS less that of the blend with the RBM", above(0)),
    )
]  # fmt: skip
