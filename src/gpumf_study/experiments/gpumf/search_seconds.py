"""Seconds of a search of hyper-parameters: `search` over a grid, and by halving, against a loop of fits.

The loop makes the folds once, and fits and scores every setting on each, on all threads. The three alternate in one
process, after a round of one epoch that compiles what they need. None refits the winner.
"""

import os
import time
from functools import partial
from itertools import product

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import ALS, ImplicitALS, search
from gpumf._util import threads
from gpumf_study import figure_style as style
from gpumf_study.experiments import identity, load_ratings

LOOP, GRID, HALVING = "loop of fits", "grid", "halving"
_SHARED = {"solver": "parallel_cg", "device": "cpu"}

# Of ALS and of ImplicitALS; a grid of the latter has 20 settings for each value of alpha.
PROFILES = {
    "quick": {"data": ["ml-1m", "ml-100k"], "settings": [20, 40], "folds": [3, 3], "epochs": 10, "repeats": 5},
    "full": {"data": ["ml-1m", "ml-100k"], "settings": [100, 200], "folds": [5, 3], "epochs": 10, "repeats": 5},
}
PROFILES["smoke"] = {
    "data": ["ml-100k-synthetic"] * 2,
    "settings": [3, 20],
    "folds": [2, 2],
    "epochs": 3,
    "repeats": 2,
}


def run(data, settings, folds, epochs, repeats):
    """Time searches that alternate.

    Returns
    -------
    DataFrame with a row a search: variant (LOOP, GRID or HALVING), seconds, metric and its best value; x_winner, the
    setting, x_folds, x_settings, and x_load, the processes at work on the machine before, besides what is timed
    """
    rows, identities = [], []
    als = ALS(32, biases=True, weighted=True, **_SHARED)
    implicit = ImplicitALS(unobserved_weight=1.0, regularization_exponent=0.0, **_SHARED)
    for model, name, n, n_folds in zip((als, implicit), data, settings, folds, strict=True):
        ratings, metric = load_ratings(name), "rmse" if model is als else "ndcg@10"
        identities.append(identity(ratings))
        given = {"model": model, "parameters": grid(model, n), "ratings": ratings, "folds": n_folds, "metric": metric}
        halving = partial(search, **given, strategy="halving", refit=False)
        works = {LOOP: partial(loop, **given), GRID: partial(search, **given, refit=False), HALVING: halving}
        for work in works.values():
            work(epochs=1)
        for repeat in tqdm(range(repeats), desc=f"search_seconds {name}", leave=False):
            for variant, work in works.items():
                load, started = os.getloadavg()[0], time.perf_counter()
                winner, value = _best(work(epochs=epochs))
                labels = {"data": name, "model": type(model).__name__, "variant": variant, "repeat": repeat}
                measured = {"seconds": time.perf_counter() - started, "metric": metric, "value": value}
                shape = {"x_winner": str(winner), "x_folds": n_folds, "x_settings": n, "x_load": load}
                rows.append(labels | measured | shape)
    frame = pd.DataFrame(rows)
    frame = frame.assign(
        task="search", solver="parallel_cg", device="cpu", threads=threads.count(), phase="end_to_end"
    )
    frame.attrs["datasets"] = identities
    return frame


def grid(model, n):
    """Return parameters with n settings."""
    if isinstance(model, ALS):
        return {"regularization": np.geomspace(0.01, 1, n).tolist()}
    alphas = np.geomspace(0.5, 32, n // 20).tolist()
    return {"factors": [8, 16, 32, 64], "regularization": [0.3, 1.0, 3.0, 10.0, 30.0], "alpha": alphas}


def loop(model, parameters, ratings, epochs, folds, metric):
    """Return the best setting and its mean score, by fits one after another."""
    pairs, found = list(ratings.kfold(folds)), []
    for values in product(*parameters.values()):
        setting = dict(zip(parameters, values, strict=True))
        fits = (type(model)(**model.get_params() | setting).fit(train, epochs) for train, _ in pairs)
        judged = zip(fits, (test for _, test in pairs), strict=True)
        scores = [
            fit.score(test)[metric] if metric == "rmse" else fit.evaluate_ranking(test, 10)["ndcg"]
            for fit, test in judged
        ]
        found.append((setting, float(np.mean(scores))))
    return (min if metric == "rmse" else max)(found, key=lambda one: one[1])


def _best(found):
    return found if isinstance(found, tuple) else (found.best_parameters, found.best_score)


def summary(frame):
    """Return median seconds and speed-ups over LOOP by data and variant, the best value, and the highest load."""
    by = frame.groupby(["data", "model", "variant"], sort=False)
    table = by.agg(seconds=("seconds", "median"), value=("value", "first"), x_load=("x_load", "max")).reset_index()
    of_loop = table[table.variant == LOOP].set_index("model").seconds
    return table.assign(speed_up=table.model.map(of_loop) / table.seconds)


def figure(frame):
    """Draw the median seconds of each search."""
    table = summary(frame)
    names = [f"{style.data_name(row.data)}, {row.model}, {row.variant}" for row in table.itertuples()]
    return style.dots(table.seconds.set_axis(names), "seconds of a search, end to end")
