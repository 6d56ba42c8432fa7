"""ALS for the first training, SGD for ratings that come later: cuMF's plan for the future, tried.

Source: Tan et al. 2018, section 7, which plans "ALS for the initial batch training and SGD for incremental updates".
A tenth of the training ratings comes later. SGD takes them alone, from ALS's factors; ALS takes them with all that
their users and items had before, or is trained again from the start. Biases, and clipped predictions.
"""

from itertools import product

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import ALS, SGD
from gpumf_study import figure_style as style
from gpumf_study.claims import Claim
from gpumf_study.experiments import load_ratings

BEFORE, BY_SGD, BY_ALS, AGAIN = "ALS, without them", "SGD on them", "ALS on their users and items", "ALS on all"

PROFILES = {
    "quick": {"data": ["ml-100k-synthetic"], "factors": 8, "epochs": 3, "updates": [1], "rates": [0.02],
              "repeats": 2},
    "full": {"data": ["ml-100k", "ml-1m"], "factors": 16, "epochs": 10, "updates": [1, 2, 5],
             "rates": [0.005, 0.01, 0.02, 0.05], "repeats": 5},
}  # fmt: skip
PROFILES["smoke"] = PROFILES["quick"] | {"epochs": 1}


def run(data, factors, epochs, updates, rates, repeats):
    """Train ALS on nine tenths of the training ratings, and take the others; held-out ones choose SGD's setting.

    factors, epochs : int, of ALS
    updates, rates : epochs and learning rates of SGD that are tried
    repeats : int, splits
    """
    rows = []
    for name in data:
        ratings = load_ratings(name)
        for repeat in tqdm(range(repeats), desc=f"als_then_sgd {ratings.name}", leave=False):
            train, test = ratings.split(0.2, seed=repeat)
            first, later = train.split(0.1, seed=repeat)
            learned, held_out = later.split(0.5, seed=repeat)
            batch = _als(factors, repeat).fit(first, epochs)
            tried = {
                pair: _rmse(_sgd(batch, pair[1], repeat).partial_fit(learned, pair[0]), held_out)
                for pair in product(updates, rates)
            }
            n, rate = min(tried, key=tried.get)
            found = {BEFORE: batch, BY_SGD: _sgd(batch, rate, repeat).partial_fit(later, n)}
            found |= {BY_ALS: _als(factors, repeat).fit(first, epochs).partial_fit(later)}
            found |= {AGAIN: _als(factors, repeat).fit(train, epochs)}
            labels = {"data": ratings.name, "task": "update", "factors": factors, "repeat": repeat, "metric": "rmse"}
            for variant, model in found.items():
                what = {"model": type(model).__name__, "solver": model.solver, "device": model.device}
                setting = {"x_epochs": n, "x_rate": rate} if variant == BY_SGD else {}
                rows.append(labels | what | setting | {"variant": variant, "value": _rmse(model, test)})
    return pd.DataFrame(rows)


def _als(factors, seed):
    options = {"biases": True, "weighted": True, "clip": True}
    return ALS(factors, 0.1, solver="parallel", device="cpu", seed=seed, **options)


def _sgd(model, rate, seed):
    options = {"learning_rate": rate, "regularization": 0.05, "clip": True}
    return SGD.from_model(model, solver="ordered", device="cpu", seed=seed, **options)


def _rmse(model, ratings):
    return float(np.sqrt(np.mean((model.predict(ratings.users, ratings.items) - ratings.values) ** 2)))


def kept(frame):
    """Return of each repeat which share of what training again gains SGD leaves behind."""
    rmse = frame.pivot_table(index=["data", "repeat"], columns="variant", values="value")
    share = (rmse[BY_SGD] - rmse[AGAIN]) / (rmse[BEFORE] - rmse[AGAIN])
    return share.rename("value").reset_index()


def figure(frame):
    """Draw test RMSE with each way to take the later ratings, a mark a data set."""
    median = frame.groupby(["variant", "data"], sort=False).value.median().unstack()
    figure, ((axis,),) = style.panels(height=2.8)
    place = np.arange(len(median))[::-1]
    for name, colour in zip(median, ("blue", "orange"), strict=False):
        style.marks(axis, median[name], place, colour, style.data_name(name))
    axis.set_yticks(place, median.index)
    axis.set(xlabel="test RMSE")
    style.legend(figure, axis, 2)
    return figure


CLAIMS = [
    Claim("cumf-als-then-sgd", "cumf", "Section 7",
          "Share of the gain of training ALS again that SGD on the later ratings misses, two MovieLens data sets.",
          metric="median", select={"column": "value"}, table=kept),
]  # fmt: skip
