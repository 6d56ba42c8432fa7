"""Seconds in which BayesianMF draws its samples, on the fastest device of this machine, and the error they reach.

`train` is what the epochs take; end to end is a fit from ratings in arrays to a model that predicts. On a GPU its
samples may stay there: `transfer` includes how long it then takes to have them in arrays of the host, end to end does
not. The first fit of the process, repeat 0, also loads or compiles the kernels.
"""

import time
from dataclasses import asdict, replace

import pandas as pd
from tqdm import tqdm

from gpumf import BayesianMF
from gpumf_study.experiments import load_ratings, official

PROFILES = {
    "full": {"data": "netflix-synthetic", "factors": 64, "epochs": 100, "repeats": 5},
    "quick": {"data": "ml-1m", "factors": 32, "epochs": 100, "repeats": 2},
    "smoke": {"data": "ml-100k-synthetic", "factors": 4, "epochs": 3, "repeats": 1},
}


def run(data, factors, epochs, repeats):
    """Draw `epochs` samples of the official training set, or of nine tenths of the ratings, repeats + 1 times.

    Return a DataFrame with a row a phase of each fit, with its seconds, and one with its test error
    """
    ratings, rows = load_ratings(data), []
    train, test = official(ratings, 0.1)
    for repeat in tqdm(range(repeats + 1), desc=f"bayesian_seconds {ratings.name}", leave=False):
        model = BayesianMF(factors, seed=repeat).fit(replace(train), epochs)
        labels = {"solver": model.solver, "device": model.device, "repeat": repeat, "epoch": epochs}
        rows.append(labels | {"metric": "rmse", "value": model.score(test)["rmse"]})
        started = time.perf_counter()
        model.user_samples  # noqa: B018 - brings the samples to the host
        times = replace(model.times, transfer=model.times.transfer + time.perf_counter() - started)
        rows += [labels | {"phase": phase, "seconds": seconds} for phase, seconds in asdict(times).items()]
    return pd.DataFrame(rows).assign(data=ratings.name, task="fit", model="BayesianMF", factors=factors)
