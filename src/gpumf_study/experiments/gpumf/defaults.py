"""What a first user gets: models without a parameter beside damped biases, and beside what a search finds.

A tenth of the ratings is the test set, another tenth of the others is held out. ALS and SGD are searched over GRID by
the held-out error; the parameters found are trained on all training ratings. One constant of the models was chosen
on these data sets, the strength of the regularization: `left_out` chooses it again on all of them but one, which it
judges it on. Lists of ImplicitALS stand beside those of the most popular items.
"""

import json

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import ALS, RBM, SGD, ImplicitALS
from gpumf.models.ranking import METRICS, popular_items
from gpumf_study.experiments import load_ratings

K = 10  # items of a list
DAMPING = 5  # ratings of the mean that each user and item of `damped_biases` has in addition

STRENGTHS = [{"regularization": value} for value in (0.5, 0.7, 1.0, 1.4, 2.0)]
_WIDTHS = [{"factors": factors, "regularization": value} for factors in (8, 32) for value in (0.7, 1.0)]
_LEARNED = [{"biases": True, "regularization": value} for value in (0.05, 0.1, 0.2)]
GRID = {"ALS": STRENGTHS + _WIDTHS + _LEARNED, "SGD": STRENGTHS + _WIDTHS + _LEARNED}
MODELS = {"ALS": ALS, "SGD": SGD, "RBM": RBM}

PROFILES = {
    "full": {"data": ["ml-100k", "ml-latest-small", "jester-1", "douban-monti", "ml-1m"], "grid": GRID, "epochs": 20,
             "repeats": 3}, "quick": {"data": ["ml-100k"], "grid": {"ALS": STRENGTHS}, "epochs": 10, "repeats": 2},
    "smoke": {"data": ["ml-100k-synthetic"], "grid": {"ALS": STRENGTHS[:2]}, "epochs": 2, "repeats": 2},
}  # fmt: skip


def run(data, grid, epochs, repeats):
    """Train the defaults, search on held-out ratings of the first split, and judge on test ratings."""
    rows = []
    for name in data:
        ratings = load_ratings(name)
        found = {}
        for repeat in tqdm(range(repeats), desc=f"defaults {name}", leave=False):
            train, test = ratings.split(0.1, seed=repeat)
            of = {"data": ratings.name, "repeat": repeat}
            if not found:
                inner, held_out = train.split(0.1, seed=repeat)
                rows.append(of | _of_biases(inner, held_out, "held out"))
                for model, tried in grid.items():
                    judged = [_fitted(model, inner, held_out, epochs, "held out", **one) for one in tried]
                    rows += [of | row for row in judged]
                    rows += [of | _fitted(model, train, test, epochs, "tried", **one) for one in STRENGTHS]
                    found[model] = tried[int(np.argmin([row["value"] for row in judged]))]
            rows.append(of | _of_biases(train, test, "default"))
            rows += [of | _fitted(model, train, test, epochs, "default", seed=repeat) for model in MODELS]
            for model, parameters in found.items():
                rows.append(of | _fitted(model, train, test, epochs, "searched", seed=repeat, **parameters))
            rows += [of | row for row in _lists(train, test, epochs, repeat)]
    return pd.DataFrame(rows).assign(task="fit", device="cpu")


def _fitted(model, train, judge, epochs, variant, **parameters):
    fitted = MODELS[model](device="cpu", **parameters).fit(train, epochs)
    given = json.dumps({name: value for name, value in parameters.items() if name != "seed"})
    what = {"model": model, "solver": fitted.solver, "variant": variant, "x_parameters": given}
    measured = {"metric": "rmse", "value": fitted.score(judge)["rmse"], "seconds": fitted.times.end_to_end}
    return what | measured | {"phase": "end_to_end"}


def _of_biases(train, judge, variant):
    of_user, of_item = train.damped[:2]
    predicted = train.mean + of_user[judge.users] + of_item[judge.items]
    error = np.clip(predicted, *train.bounds) - judge.values
    value = float(np.sqrt(np.mean(error**2)))
    return {"model": "biases", "variant": variant, "metric": "rmse", "value": value, "x_parameters": "{}"}


def _lists(train, test, epochs, seed):
    """NDCG of ImplicitALS and of the most popular items."""
    users = np.flatnonzero(test.user_counts)
    popular = popular_items(train.item_counts, train.n_users, train.by_user, K, "cpu")
    of_popular = dict(zip(METRICS, popular.metrics(test.by_user, users, K).mean(axis=0), strict=True))["ndcg"]
    ours = ImplicitALS(device="cpu", seed=seed).fit(train, epochs).evaluate_ranking(test, K)["ndcg"]
    common = {"variant": "default", "metric": f"ndcg@{K}", "x_parameters": "{}"}
    values = {"popularity": of_popular, "ImplicitALS": ours}
    return [common | {"model": model, "value": float(value)} for model, value in values.items()]


def damped_biases(train, sweeps=20):
    """b_u and b_i of least squares, every user and item having DAMPING ratings of bias zero in addition."""
    rest = train.values - np.float64(train.mean)
    of_user, of_item = np.zeros(train.n_users), np.zeros(train.n_items)
    for _ in range(sweeps):
        of_user = np.bincount(train.users, rest - of_item[train.items], train.n_users)
        of_user /= train.user_counts + DAMPING
        of_item = np.bincount(train.items, rest - of_user[train.users], train.n_items)
        of_item /= train.item_counts + DAMPING
    return of_user, of_item


def ratios(frame):
    """Return test errors over those of damped biases, means over the repeats: (model, variant) by data set."""
    test = frame[(frame.metric == "rmse") & frame.variant.isin(["default", "searched"])]
    means = test.groupby(["model", "variant", "data"]).value.mean()
    return (means / means["biases", "default"]).unstack("data").drop("biases")


def left_out(frame):
    """Return, by model and data set left out, the strength that the others choose and its test error over biases'."""
    rows = frame[(frame.metric == "rmse") & (frame.repeat == 0)]
    biases = rows[rows.model == "biases"].set_index(["variant", "data"]).value
    strengths, found = [json.dumps(one) for one in STRENGTHS], []
    for model, own in rows[rows.x_parameters.isin(strengths)].groupby("model"):
        held, test = (
            own[own.variant == variant].pivot_table(index="x_parameters", columns="data", values="value")
            for variant in ("held out", "tried")
        )
        for data in held.columns:
            others = (held / biases["held out"])[held.columns.drop(data)].mean(axis=1)
            chosen = others.idxmin() if others.notna().any() else strengths[2]
            found.append((model, data, chosen, test.loc[chosen, data] / biases["default", data]))
    return pd.DataFrame(found, columns=["model", "data", "parameters", "over_biases"]).set_index(["model", "data"])


CLAIMS = []
