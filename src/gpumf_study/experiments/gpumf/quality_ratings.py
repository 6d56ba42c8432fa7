"""How well ratings are predicted: models, their blend and the package Surprise on random splits of MovieLens 1M.

Each split keeps a tenth of the ratings for the test. Parameters and epochs of ALS, SGD and Surprise's SVD are those
with the least error on a tenth of the first split's training ratings. BayesianMF has its defaults, with 32 factors.
The weights of the blend are found on a tenth of the training ratings of every split, by models trained on the others;
then all train on all of them, and are judged on the test ratings once.
"""

import numpy as np
import pandas as pd
from scipy import stats
from tqdm import tqdm

from gpumf import ALS, SGD, BayesianMF, Blend
from gpumf_study import figure_style as style
from gpumf_study import sweep
from gpumf_study.experiments import load_ratings
from gpumf_study.experiments.gpumf.peers_ml100k import SVD, surprise_model

BLEND, BIASES = "Blend", "damped biases"
MODELS = {"ALS": ALS, "SGD": SGD, "BayesianMF": BayesianMF}
FIXED = {
    "ALS": {"biases": True},
    "SGD": {"biases": True, "clip": False, "learning_rate": 0.01, "init_std": 0.003, "solver": "ordered_parallel"},
    "BayesianMF": {},
}
GRIDS = {
    "ALS": {"factors": [16, 32], "regularization": [0.05, 0.06]},
    "SGD": {"factors": [128], "regularization": [0.045, 0.05, 0.055]},
    "BayesianMF": {"factors": [32]},
    SVD: {"factors": [100], "regularization": [0.04, 0.06]},
}
PROFILES = {
    "full": {"data": "ml-1m", "grids": GRIDS,
             "epochs": {"ALS": [10, 15, 20], "SGD": [35, 40, 45, 50], "BayesianMF": [100], SVD: [30]}, "repeats": 5},
    "smoke": {"data": "ml-100k-synthetic",
              "grids": {"ALS": {"factors": [4], "regularization": [0.1]},
                        "SGD": {"factors": [4], "regularization": [0.1]}, "BayesianMF": {"factors": [4]}},
              "epochs": {"ALS": [1, 2], "SGD": [1, 2], "BayesianMF": [3]}, "repeats": 2},
}  # fmt: skip
PROFILES["quick"] = PROFILES["full"] | {"data": "ml-100k", "repeats": 2}


def run(data, grids, epochs, repeats):
    """Choose parameters on the first split; blend, train and judge on each.

    grids : dict of program -> dict of lists of parameters, all of whose combinations are tried
    epochs : dict of program -> list of int, tried
    repeats : int, splits

    Return a DataFrame with a row a judged program: task 'tune' or 'test', model, solver, device, factors, repeat (the
    split), epoch, phase, seconds (of the fit), metric, value, x_regularization; of the blend x_weight_MODEL
    """
    ratings, rows, chosen = load_ratings(data), [], {}
    for repeat in tqdm(range(repeats), desc=f"quality_ratings {ratings.name}", leave=False):
        train, test = ratings.split(0.1, seed=repeat)
        inner, held = train.split(0.1, seed=repeat)
        for name in grids if not chosen else ():
            tried = _tried(name, grids[name], epochs[name], inner, held)
            rows += [row | {"task": "tune", "repeat": repeat} for row in tried]
            best = min(tried, key=lambda row: row["value"])
            chosen[name] = {key: best[_NAMES.get(key, key)] for key in grids[name]}, best["epoch"]
        of_split = {"task": "test", "repeat": repeat}
        weights = Blend(*(_fitted(name, inner, *chosen[name]) for name in MODELS)).fit(held).weights
        models = {name: _fitted(name, train, *chosen[name], seed=repeat) for name in MODELS}
        rows += [of_split | _row(name, chosen[name], test, model) for name, model in models.items()]
        blend = Blend(*models.values(), weights=weights).score(test)["rmse"]
        shares = {f"x_weight_{name}": weight for name, weight in zip(MODELS, weights, strict=True)}
        rows.append(of_split | {"model": BLEND, "metric": "rmse", "value": blend} | shares)
        of_user, of_item = train.damped[:2]
        biases = np.clip(train.mean + of_user[test.users] + of_item[test.items], *train.bounds)
        rows.append(of_split | {"model": BIASES, "metric": "rmse", "value": _rmse(biases, test)})
        for name in grids.keys() - MODELS.keys():
            rows.append(of_split | _of_peer(name, train, test, *chosen[name], seed=repeat))
    return pd.DataFrame(rows).assign(data=ratings.name)


_NAMES = {"regularization": "x_regularization"}


def _rmse(predicted, test):
    return float(np.sqrt(np.mean((predicted - test.values) ** 2)))


def _tried(name, grid, epochs, inner, held):
    """Rows of all combinations of parameters and numbers of epochs."""
    rows = []
    for parameters in sweep.combinations(grid):
        if name not in MODELS:
            rows += [_of_peer(name, inner, held, parameters, epoch) for epoch in epochs]
            continue
        model = MODELS[name](device="cpu", **FIXED[name], **parameters).fit(inner, max(epochs), held)
        errors = model.history.set_index("epoch").rmse
        rows += [_row(name, (parameters, epoch), held, model) | {"value": errors[epoch]} for epoch in epochs]
    return rows


def _fitted(name, train, parameters, epochs, seed=0):
    model = MODELS[name](device="cpu", seed=seed, **FIXED[name], **parameters)
    return model.fit(train.select(np.arange(train.nnz)), epochs)  # without the orders that a fit before has made


def _row(name, chosen, test, model):
    parameters, epochs = chosen
    labels = {"model": name, "solver": model.solver, "device": model.device, "epoch": epochs, "phase": "end_to_end"}
    labels |= {_NAMES.get(key, key): value for key, value in parameters.items()}
    return labels | {"seconds": model.times.end_to_end, "metric": "rmse", "value": model.score(test)["rmse"]}


def _of_peer(name, train, test, parameters, epochs, seed=0):
    predicted, _, seconds = surprise_model(name, train, test, seed, parameters | {"epochs": epochs})
    labels = {"model": name, "device": "cpu", "epoch": epochs, "phase": "end_to_end", "seconds": seconds}
    labels |= {_NAMES.get(key, key): value for key, value in parameters.items()}
    return labels | {"metric": "rmse", "value": _rmse(np.clip(predicted, *train.scale), test)}


def summary(frame):
    """Return by program its test error with 95 % interval over the splits, seconds (median), weight in the blend."""
    test = frame[frame.task == "test"].groupby("model", sort=False)
    table = test.value.agg(["mean", "sem", "count"])
    half = stats.t.ppf(0.975, table["count"] - 1) * table.pop("sem")
    table = table.assign(low=table["mean"] - half, high=table["mean"] + half, seconds=test.seconds.median())
    names = [name for name in frame if name.startswith("x_weight_")]
    weights = frame[frame.model == BLEND][names].mean().rename(lambda name: name.removeprefix("x_weight_"))
    return table.assign(weight=weights).sort_values("mean")


def figure(frame):
    """Draw test RMSE of each program, means over the splits with 95 % intervals."""
    table = summary(frame)[::-1]
    figure, ((axis,),) = style.panels(height=1.2 + 0.3 * len(table))
    ours, place = table.index.isin([*MODELS, BLEND]), np.arange(len(table))
    for mine, colour in ((True, "blue"), (False, "grey")):
        of = table[ours == mine]
        half = of.high - of["mean"]
        axis.errorbar(of["mean"], place[ours == mine], xerr=half, fmt="o", color=style.COLOURS[colour])
    axis.set_yticks(place, table.index)
    for at, value in zip(place, table["mean"], strict=True):
        beside = {"textcoords": "offset points", "ha": "center", "size": style.SMALL}
        axis.annotate(f"{value:.4f}", (value, at), (0, 6), **beside)
    axis.set(xlabel=f"test RMSE, {style.data_name(frame.data.iloc[0])}, mean of {frame.repeat.nunique()} splits")
    axis.margins(x=0.15, y=0.12)
    return figure
