"""The MAE of user and item biases on the held-out ratings of `crossover`: what its models have to beat to count.

Biases need no GPU: this is recorded apart from the times. Both split the ratings with the same seeds.
"""

import pandas as pd

from gpumf_study.experiments import load_ratings
from gpumf_study.experiments.thesis import crossover

PROFILES = {name: {"data": profile["data"]} for name, profile in crossover.PROFILES.items()}


def run(data):
    """Fit biases to every part of every data set.

    data : dict, name of a data set -> list of float in (0, 1], the shares of its ratings
    """
    rows = []
    for name, shares in data.items():
        ratings = load_ratings(name)
        for share, train, held_out, _ in crossover.parts(ratings, shares):
            labels = {"data": ratings.name, "task": "fit", "model": "biases", "device": "cpu", "metric": "mae"}
            found = {"x_share": share, "x_nnz": train.nnz, "value": crossover.biases_mae(train, held_out)}
            rows.append(labels | found)
    return pd.DataFrame(rows)
