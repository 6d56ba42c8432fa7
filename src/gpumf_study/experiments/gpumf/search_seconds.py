"""Seconds of a search of hyper-parameters: `search` over a grid, and by halving, against a loop of fits.

The loop makes the folds once, and fits and scores a setting on each, on all threads; some of the settings are timed,
and their seconds counted for all. The three alternate in one process, after a round of one epoch that compiles what
they need. None refits the winner.
"""

import os
import time

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import ALS, ImplicitALS, search
from gpumf._util import threads
from gpumf_study import sweep
from gpumf_study.experiments import load_ratings

LOOP, GRID, HALVING = "loop of fits", "grid", "halving"
_SHARED = {"solver": "parallel_cg", "device": "cpu"}

# Of ALS and of ImplicitALS; a grid of the latter has 20 settings for each value of alpha.
PROFILES = {
    "quick": {"data": ["ml-1m", "ml-100k"], "settings": [20, 40], "folds": [3, 3], "in_loop": [20, 40], "epochs": 10,
              "repeats": 5},
    "full": {"data": ["ml-1m", "ml-100k"], "settings": [100, 200], "folds": [5, 3], "in_loop": [20, 40], "epochs": 10,
             "repeats": 5},
    "smoke": {"data": ["ml-100k-synthetic"] * 2, "settings": [3, 20], "folds": [2, 2], "in_loop": [3, 10],
              "epochs": 3, "repeats": 2},
}  # fmt: skip


def run(data, settings, folds, in_loop, epochs, repeats):
    """Time searches that alternate.

    Return a DataFrame with a row a search: variant (LOOP, GRID or HALVING), seconds, metric and its best value, of
    LOOP among the timed settings; x_winner, the setting, x_folds, x_settings, x_timed (settings), x_difference, the
    most by which the timed settings' scores differ from those of GRID, and x_load, the processes at work before
    """
    rows = []
    als = ALS(32, biases=True, weighted=True, **_SHARED)
    implicit = ImplicitALS(unobserved_weight=1.0, regularization_exponent=0.0, **_SHARED)
    for model, name, n, n_folds, n_timed in zip((als, implicit), data, settings, folds, in_loop, strict=True):
        ratings, metric = load_ratings(name), "rmse" if model is als else "ndcg@10"
        tried = sweep.combinations(grid(model, n))
        timed = tried[:: n // n_timed][:n_timed]
        given = {"model": model, "ratings": ratings, "folds": n_folds, "metric": metric}
        search(**given, parameters=grid(model, n), epochs=1, refit=False)
        loop(**given, settings=timed, epochs=1, n=n)
        for repeat in tqdm(range(repeats), desc=f"search_seconds {name}", leave=False):
            load, scores = os.getloadavg()[0], None
            for variant in (LOOP, GRID, HALVING):
                if variant == LOOP:
                    scores, seconds = loop(**given, settings=timed, epochs=epochs, n=n)
                    value = (min if metric == "rmse" else max)(scores)
                    best = {"value": value, "x_winner": str(timed[scores.index(value)])}
                else:
                    started = time.perf_counter()
                    found = search(**given, parameters=grid(model, n), epochs=epochs, strategy=variant, refit=False)
                    seconds = time.perf_counter() - started
                    best = {"value": found.best_score, "x_winner": str(found.best_parameters)}
                if variant == GRID:
                    of_grid = found.trials.groupby("setting")[metric].mean()[:: n // n_timed][:n_timed]
                    best["x_difference"] = float(np.abs(of_grid - scores).max())
                labels = {"data": name, "model": type(model).__name__, "variant": variant, "repeat": repeat}
                shape = {"x_folds": n_folds, "x_settings": n, "x_timed": n_timed if variant == LOOP else n}
                rows.append(labels | {"seconds": seconds, "metric": metric, "x_load": load} | best | shape)
    labels = {"task": "search", "solver": "parallel_cg", "device": "cpu", "phase": "end_to_end"}
    return pd.DataFrame(rows).assign(**labels, threads=threads.count())


def grid(model, n):
    """Return parameters with n settings."""
    if isinstance(model, ALS):
        return {"regularization": np.geomspace(0.01, 1, n).tolist()}
    alphas = np.geomspace(0.5, 32, n // 20).tolist()
    return {"factors": [8, 16, 32, 64], "regularization": [0.3, 1.0, 3.0, 10.0, 30.0], "alpha": alphas}


def loop(model, ratings, folds, metric, settings, epochs, n):
    """Return the mean score of each setting, by fits one after another, and seconds of n such settings."""
    started = time.perf_counter()
    pairs, found = list(ratings.kfold(folds)), []
    of_folds = time.perf_counter() - started
    for setting in settings:
        fits = (type(model)(**model.get_params() | setting).fit(train, epochs) for train, _ in pairs)
        judged = zip(fits, (test for _, test in pairs), strict=True)
        scores = [
            fit.score(test)[metric] if metric == "rmse" else fit.evaluate_ranking(test, 10)["ndcg"]
            for fit, test in judged
        ]
        found.append(float(np.mean(scores)))
    of_fits = time.perf_counter() - started - of_folds
    return found, of_folds + of_fits * n / len(settings)
