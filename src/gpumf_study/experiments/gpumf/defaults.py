"""What a first user gets: models without a parameter beside damped biases, and beside what a search finds.

A tenth of the ratings is the test set, another tenth of the others is held out. Models are searched over GRID by the
held-out error, ImplicitALS by held-out NDCG; the parameters found are trained on all training ratings. The rules of
the defaults were chosen on these data sets: `left_out` chooses each again on all of them but one, which it judges it
on. Lists of ImplicitALS stand beside those of the most popular items.
"""

import json
from itertools import product

import numpy as np
import pandas as pd
from scipy import stats
from tqdm import tqdm

from gpumf import ALS, RBM, SGD, ImplicitALS
from gpumf.models.als import best_shares
from gpumf.models.ranking import METRICS, popular_items
from gpumf_study import figure_style as style
from gpumf_study.experiments import load_ratings

K = 10  # items of a list
DAMPING = 5  # ratings of the mean that each user and item of `damped_biases` has in addition

STRENGTHS = [{"regularization": value} for value in (0.7, 0.85, 1.0, 1.4, 2.0)]
_WIDTHS = [{"factors": factors, "regularization": value} for factors in (8, 32) for value in (0.7, 1.0)]
_LEARNED = [{"biases": True, "regularization": value} for value in (0.05, 0.1, 0.2)]
_SLOW = {"factors": 128, "biases": True, "learning_rate": 0.01, "init_std": 0.003}
_LONG = [_SLOW | {"regularization": value, "epochs": epochs} for value in (0.05, 0.07, 0.1) for epochs in (30, 45)]
_WEIGHTS, _STRENGTHS = [1, 4, 16, 64, 256], [0.194, 0.275, 0.389, 0.55, 0.778, 1.1]
_SHARES = [{"weight": weight, "strength": value} for weight in _WEIGHTS for value in _STRENGTHS]
GRID = {"ALS": STRENGTHS + _WIDTHS + _LEARNED, "SGD": STRENGTHS + _WIDTHS + _LONG, "ImplicitALS": _SHARES}
TRIED = {"ALS": STRENGTHS, "SGD": STRENGTHS, "ImplicitALS": _SHARES}
MODELS = {"ALS": ALS, "SGD": SGD, "RBM": RBM}

PROFILES = {
    "full": {"data": ["ml-100k", "ml-latest-small", "jester-1", "douban-monti", "ml-1m"], "grid": GRID, "epochs": 20,
             "repeats": 3}, "quick": {"data": ["ml-100k"], "grid": {"ALS": STRENGTHS}, "epochs": 10, "repeats": 2},
    "smoke": {
        "data": ["ml-100k-synthetic"], "epochs": 2, "repeats": 2,
        "grid": {"ALS": STRENGTHS[:2], "SGD": [{"factors": 4, "epochs": 3}], "ImplicitALS": _SHARES[:2]},
    },
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
                    again = [one for one in TRIED[model] if one in tried]
                    rows += [of | _fitted(model, train, test, epochs, "tried", **one) for one in again]
                    values = [row["value"] for row in judged]
                    found[model] = tried[int((np.argmin if model in MODELS else np.argmax)(values))]
            rows += [of | _of_biases(train, test, "default"), of | _of_popular(train, test)]
            defaults = [*MODELS, "ImplicitALS"]
            rows += [of | _fitted(model, train, test, epochs, "default", seed=repeat) for model in defaults]
            for model, parameters in found.items():
                rows.append(of | _fitted(model, train, test, epochs, "searched", seed=repeat, **parameters))
    return pd.DataFrame(rows).assign(task="fit", device="cpu")


def _fitted(model, train, judge, usual, variant, seed=0, epochs=None, **parameters):
    """The row of a model, after `usual` epochs unless its setting says another number."""
    given = parameters | ({"epochs": epochs} if epochs else {})
    if model == "ImplicitALS":
        fitted = ImplicitALS(device="cpu", seed=seed, **(parameters and scaled(train, **parameters)))
    else:
        fitted = MODELS[model](device="cpu", seed=seed, **parameters)
    fitted.fit(train, epochs or usual)
    what = {"model": model, "solver": fitted.solver, "variant": variant, "x_parameters": json.dumps(given)}
    what |= {"seconds": fitted.times.end_to_end, "phase": "end_to_end"}
    if model == "ImplicitALS":
        return what | {"metric": f"ndcg@{K}", "value": fitted.evaluate_ranking(judge, K)["ndcg"]}
    return what | {"metric": "rmse", "value": fitted.score(judge)["rmse"]}


def scaled(train, weight, strength):
    """Return parameters of ImplicitALS by what its defaults vary: see `gpumf.models.als.best_shares`."""
    mean = float(abs(train.values).mean(dtype=np.float64))
    of_user, unobserved = train.nnz / train.n_users, mean * min(weight * train.nnz / train.n_users / train.n_items, 4)
    ridge = strength * (mean * unobserved * train.n_items) ** 0.5 / (of_user + unobserved * train.n_items)
    return {"unobserved_weight": unobserved, "regularization": ridge}


def _of_biases(train, judge, variant):
    of_user, of_item = train.damped[:2]
    predicted = train.mean + of_user[judge.users] + of_item[judge.items]
    error = np.clip(predicted, *train.bounds) - judge.values
    value = float(np.sqrt(np.mean(error**2)))
    return {"model": "biases", "variant": variant, "metric": "rmse", "value": value, "x_parameters": "{}"}


def _of_popular(train, test):
    """NDCG of the most popular items."""
    users = np.flatnonzero(test.user_counts)
    lists = popular_items(train.item_counts, train.n_users, train.by_user, K, "cpu")
    found = dict(zip(METRICS, lists.metrics(test.by_user, users, K).mean(axis=0), strict=True))
    common = {"variant": "default", "metric": f"ndcg@{K}", "x_parameters": "{}"}
    return common | {"model": "popularity", "value": float(found["ndcg"])}


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


def lists(frame):
    """Return NDCG by data set, means over the repeats, and the lower end of ImplicitALS's gain over popularity.

    That is of the 95 % interval of the mean difference in the same splits; `over_search` is the ratio to what the
    search finds.
    """
    rows = frame[(frame.metric == f"ndcg@{K}") & frame.variant.isin(["default", "searched"])]
    values = rows.pivot_table(index=["data", "repeat"], columns=["model", "variant"], values="value")
    ours, popular = values["ImplicitALS", "default"], values["popularity", "default"]
    gain = (ours - popular).groupby("data")
    half = stats.t.ppf(0.975, gain.count() - 1) * gain.sem()
    means = pd.DataFrame({"ImplicitALS": ours, "popularity": popular}).groupby("data").mean()
    means = means.assign(gain=gain.mean(), at_least=gain.mean() - half)
    searched = values["ImplicitALS", "searched"].groupby("data").mean()
    return means.assign(searched=searched, over_search=means.ImplicitALS / searched)


def shown_lists(frame):
    """Return `lists` as a table to be shown."""
    names = {"at_least": "at least", "searched": "search", "over_search": "ImplicitALS / search"}
    return lists(frame).rename(columns=names, index=style.data_name).rename_axis(index=None, columns=None).round(4)


def _from(start):
    """The rule of ImplicitALS, from these shares on."""

    def rule(held):
        def named(shares):
            return json.dumps({"weight": int(shares[0]), "strength": round(shares[1], 3)})

        return named(best_shares(lambda shares: held.get(named(shares), 0), start))

    return rule


_RULES = {json.dumps(one): lambda held, one=one: json.dumps(one) for one in STRENGTHS}
RULES = {"ALS": _RULES, "SGD": _RULES}
RULES["ImplicitALS"] = {f"from {one}": _from(one) for one in product((4, 16, 64), (0.389, 0.55, 0.778))}


def left_out(frame):
    """Return, by model and data set left out, the rule that is best for the others in the worst case, and its ratio.

    `over_search` is the test error, or NDCG, of what the rule chooses over that of what the search finds, in the
    first split.
    """
    first, found = frame[frame.repeat == 0], []
    searched = first[first.variant == "searched"].set_index(["model", "data"]).value
    for model, rules in RULES.items():
        held, tried = (
            first[(first.model == model) & (first.variant == variant)].set_index(["data", "x_parameters"]).value
            for variant in ("held out", "tried")
        )
        ratios = pd.DataFrame({
            data: {name: tried[data, rule(held[data])] / searched[model, data] for name, rule in rules.items()}
            for data in tried.index.unique("data")
        })  # fmt: skip
        losses = (ratios if model in MODELS else 1 / ratios).fillna(np.inf)  # of what diverged
        for data in ratios:
            rule = losses.drop(columns=data).max(axis=1).idxmin()
            found.append((model, data, rule, ratios.at[rule, data]))
    return pd.DataFrame(found, columns=["model", "data", "rule", "over_search"]).set_index(["model", "data"])


def shown_left_out(frame):
    """Return the ratios of `left_out` as a table to be shown."""
    table = left_out(frame).over_search.unstack("data")
    return table.rename(columns=style.data_name).rename_axis(index=None, columns=None).round(4)
