"""Seconds of a search on a GPU, all included: folds, copies, training, scores, and the winner fitted to all ratings.

Models too small to fill the GPU train together, by the launches of one; those that fill it one after another. Beside
it a loop of fits has a few of the settings, made and scored as a user would. Both alternate in one process, after a
round of one epoch that compiles what they need. Without a GPU the same runs on the CPU.
"""

import time

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import ALS, backends, search
from gpumf_study.experiments import load_ratings
from gpumf_study.experiments.gpumf.search_seconds import LOOP

# Of the search of each data set: strategy, settings, folds (1: the official split), factors.
PROFILES = {
    "quick": {"data": ["ml-100k-synthetic"], "searches": [["grid", 4, 2, 8]], "in_loop": 2, "epochs": 3,
              "repeats": 2},
    "full": {"data": ["ml-1m", "netflix-synthetic"], "searches": [["grid", 1000, 5, 32], ["halving", 100, 1, 100]],
             "in_loop": 10, "epochs": 10, "repeats": 5},
}  # fmt: skip
PROFILES["smoke"] = PROFILES["quick"] | {"epochs": 1, "repeats": 1}


def run(data, searches, in_loop, epochs, repeats):
    """Time searches of the regularization of ALS, and loops over a few of their settings.

    Return a DataFrame with a row a search: variant (the strategy, or LOOP), seconds, the best RMSE as value;
    x_settings (of the loop `in_loop`), x_folds, x_winner, and x_difference, of a loop: the most by which its scores
    and those of the search differ
    """
    device, rows = "cuda" if backends.available() else "cpu", []
    for name, (strategy, n, folds, factors) in zip(data, searches, strict=True):
        ratings = load_ratings(name)
        model, grid = ALS(factors, device=device), {"regularization": np.geomspace(0.1, 10, n).tolist()}
        given = ratings, folds if folds > 1 else [ratings.official_split()]
        _searched(model, grid, *given, 1, strategy), _loop(model, grid, *given, 1, 1)
        for repeat in tqdm(range(repeats), desc=f"search_gpu {name}", leave=False):
            found, seconds = _searched(model, grid, *given, epochs, strategy)
            alone, of_loop = _loop(model, grid, *given, epochs, in_loop)
            both = found.trials[found.trials.epochs == epochs].groupby("regularization").rmse.mean()
            known = alone.index.intersection(both.index)
            shared = {"data": name, "factors": factors, "repeat": repeat, "x_folds": folds}
            best = {"seconds": seconds, "value": found.best_score, "x_winner": str(found.best_parameters)}
            rows.append(shared | best | {"variant": strategy, "x_settings": n})
            of_fits = {"seconds": of_loop, "value": alone.min(), "x_winner": str({"regularization": alone.idxmin()})}
            of_fits["x_difference"] = float(abs(alone[known] - both[known]).max())
            rows.append(shared | of_fits | {"variant": LOOP, "x_settings": len(alone)})
    frame = pd.DataFrame(rows)
    solver = "tensor_core" if device == "cuda" else "parallel_cg"
    frame = frame.assign(task="search", model="ALS", solver=solver, device=device, phase="end_to_end")
    return frame.assign(metric="rmse", x_epochs=epochs)


def _searched(model, grid, ratings, folds, epochs, strategy):
    started = time.perf_counter()
    found = search(model, grid, ratings, epochs, folds=folds, strategy=strategy)
    return found, time.perf_counter() - started


def _loop(model, grid, ratings, folds, epochs, n):
    """(mean RMSE of each of the first n settings, by a fit of each fold; seconds)."""
    started = time.perf_counter()
    pairs = list(ratings.kfold(folds)) if isinstance(folds, int) else folds
    found = {}
    values = grid["regularization"]
    for value in values[:: len(values) // n][:n]:
        fits = [(type(model)(**model.get_params() | {"regularization": value}), *pair) for pair in pairs]
        found[value] = np.mean([fit.fit(train, epochs).score(test)["rmse"] for fit, train, test in fits])
    return pd.Series(found), time.perf_counter() - started
