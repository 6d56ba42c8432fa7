"""Lists of ImplicitALS on two standard benchmarks, beside those of the most popular items.

NCF (He et al. 2017): MovieLens 1M, where one rating of each user is left out and ranked among 99 items that come
with the benchmark; HR@10 and NDCG@10. Gowalla (split of LightGCN, as BARS scores it): all items that a user has not
visited are ranked; Recall@20 and NDCG@20. Every rating counts 1. The weight of unobserved pairs, lambda and the
number of epochs are those of GRID with the highest NDCG on ratings held out of the training set, as the test set was
held out of all: one rating of each user, or a fifth of each user's. To add a benchmark, name a data set with an
official split in PROFILES and in GRID.
"""

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
from scipy import stats
from tqdm import tqdm

from gpumf import ImplicitALS, Ratings
from gpumf.ratings import files
from gpumf_study import figure_style as style
from gpumf_study.experiments import load_ratings, official

NCF = "ncf-ml-1m"
_NAMES = {NCF: "NCF (MovieLens 1M)", "gowalla": "Gowalla"}

GRID = {
    NCF: {"factors": 192, "regularization": [0.008, 0.009, 0.01], "unobserved_weight": [0.15, 0.2, 0.25, 0.3],
          "epochs": [8, 10, 12, 14, 16], "draws": 4},
    "gowalla": {"factors": 256, "regularization": [0.003, 0.004, 0.006], "unobserved_weight": [0.01, 0.02],
                "epochs": [4, 6]},
}  # fmt: skip
PROFILES = {
    "full": {"data": [NCF, "gowalla"], "factors": {NCF: [64, 192], "gowalla": [1024]}, "grid": GRID, "repeats": 3},
    "smoke": {"data": ["ml-100k-synthetic"], "factors": {"ml-100k-synthetic": [4]},
              "grid": {"ml-100k-synthetic": {
                           "factors": 4, "regularization": [0.01, 0.1], "unobserved_weight": [0.1], "epochs": [1, 2],
                       }}, "repeats": 2},
}  # fmt: skip
PROFILES["quick"] = PROFILES["full"] | {"data": [NCF], "repeats": 1}


def run(data, factors, grid, repeats, device="cpu"):
    """Choose parameters on held-out training ratings, then train on all of them and judge on the test set.

    factors : dict of data set -> list of int, of what is judged
    grid : dict of data set -> factors with which parameters are chosen, lists of their values, and of epochs; and on
        how many `draws` of held-out ratings, one by default, whose means count
    repeats : int; repeat k starts from seed k

    Return a DataFrame with a row a metric: data, task ('tune' or 'test'), model, solver, device, factors, repeat,
    epoch, phase, seconds (of the fit, end to end), metric, value, x_regularization and x_unobserved_weight; of
    popularity without factors and parameters
    """
    rows = []
    for name in data:
        ratings = load_ratings(name)
        train, test = official(replace(ratings, values=np.ones(ratings.nnz, np.float32), scale=None))
        tuned = _tuned(name, train, device, **grid[name])
        rows += tuned
        of_lists = pd.DataFrame(row for row in tuned if row["metric"].startswith("ndcg"))
        names = [name for name in of_lists if name.startswith("x_")]
        *values, epochs = of_lists.groupby([*names, "epoch"]).value.mean().idxmax()
        chosen = dict(zip((name.removeprefix("x_") for name in names), values, strict=True))
        rows += _judged(name, popularity(train), test, {"task": "test", "model": "popularity", "repeat": 0})
        for f, seed in tqdm(list(product(factors[name], range(repeats))), desc=f"quality {name}", leave=False):
            model = ImplicitALS(f, **chosen, regularization_exponent=1.0, device=device, seed=seed)
            model.fit(train.select(np.arange(train.nnz)), epochs)
            rows += _judged(name, model, test, _labels(model, "test", seed) | {"seconds": model.times.end_to_end})
    return pd.DataFrame(rows)


def _labels(model, task, k):
    names = "regularization", "unobserved_weight"
    given = {f"x_{name}": getattr(model, name) for name in names}
    labels = {"task": task, "model": "ImplicitALS", "solver": model.solver, "device": model.device}
    return labels | {"factors": model.factors, "repeat": k, "epoch": int(model.epoch), "phase": "end_to_end"} | given


def _tuned(name, train, device, factors, epochs, draws=1, **grid):
    """Rows of each setting after each number of epochs, judged on parts of the training set that it does not see."""
    rows = []
    for draw, *values in tqdm(list(product(range(draws), *grid.values())), desc=f"tuning {name}", leave=False):
        known, held = train.leave_one_out(seed=draw) if name == NCF else _fifth_of_each(train, draw)
        given = dict(zip(grid, values, strict=True))
        model = ImplicitALS(factors, **given, regularization_exponent=1.0, device=device)
        for before, after in zip([0, *epochs[:-1]], epochs, strict=True):
            model.fit(known, after - before, warm_start=before > 0)
            labels = {"data": name} | _labels(model, "tune", draw)
            if name == NCF:
                found = model.evaluate_sampled(held, 10, negatives=99)
                measured = {"hr@10": found["hit_rate"], "ndcg@10": found["ndcg"]}
            else:
                measured = _of_all(model, held)
            rows += [labels | {"metric": metric, "value": value} for metric, value in measured.items()]
    return rows


def _fifth_of_each(train, seed):
    """(known, held): four fifths of each user's ratings, rounded down, and the others, drawn at random."""
    order = np.random.default_rng(seed).permutation(train.nnz)
    order = order[np.argsort(train.users[order], kind="stable")]
    counts = train.user_counts
    place = np.arange(train.nnz) - np.repeat(np.cumsum(counts) - counts, counts)  # among those of its user
    held = np.zeros(train.nnz, bool)
    held[order[place >= np.repeat(counts * 4 // 5, counts)]] = True
    return train.select(~held), train.select(held)


def _of_all(model, test):
    found = model.evaluate_ranking(test, 20)
    return {"recall@20": found["recall"], "ndcg@20": found["ndcg"]}


def _judged(name, model, test, labels):
    """Rows of a model's metrics on the test set of a benchmark."""
    if name == NCF:
        found = model.evaluate_ranking(test, 10, seen=(), candidates=negatives(test))
        measured = {"hr@10": found["recall"], "ndcg@10": found["ndcg"]}
    else:
        measured = _of_all(model, test)
    return [{"data": name} | labels | {"metric": metric, "value": value} for metric, value in measured.items()]


def negatives(test: Ratings) -> list[np.ndarray]:
    """Return the items among which each user's test item is ranked: those of the benchmark, and the test item."""
    (file,) = files.find(NCF, "ml-1m.test.negative|ml-1m.test.negative.gz")
    drawn = [np.array(text.split("\t")[1:], int) for _, text in file.lines()]
    rows = test.by_user
    return [np.union1d(items, rows.indices[rows.indptr[u] : rows.indptr[u + 1]]) for u, items in enumerate(drawn)]


def popularity(train: Ratings) -> ImplicitALS:
    """Return a model whose preferences are in the order of the items' numbers of ratings, for all users the same."""
    model = ImplicitALS(1, device="cpu").fit(train, 0)
    model.user_factors = np.ones((train.n_users, 1), np.float32)
    _, places = np.unique(train.item_counts, return_inverse=True)
    model.item_factors = places[:, None].astype(np.float32)
    return model


def summary(frame):
    """Means over the repeats on the test sets: a DataFrame with a row per data set, model and number of factors."""
    test = frame[frame.task == "test"].assign(factors=frame.factors.fillna(0).astype(int))
    means = test.pivot_table(index=["data", "model", "factors"], columns="metric", values="value")
    return means.join(test.groupby(["data", "model", "factors"]).seconds.median())


def figure(frame):
    """NDCG on each benchmark: of the models (filled), means with 95 % intervals, and as published (open).

    The axis spans the models that are compared; popularity is below it.
    """
    table = compared(frame)
    table = table[table.metric.str.startswith("ndcg")]
    figure, axes = style.panels(rows=table.data.nunique(), height=5.2)
    for axis, (name, of) in zip(axes[:, 0], table.groupby("data", sort=False), strict=True):
        places = np.arange(len(of))[::-1]
        axis.set_yticks(places, of.model)
        least = of.value[of.model != "popularity"].min()
        for place, row in zip(places, of.itertuples(), strict=True):
            colour = style.COLOURS["grey" if row.published or row.model == "popularity" else "blue"]
            where = {"textcoords": "offset points", "color": colour, "size": style.SMALL}
            if row.value < 0.8 * least:  # popularity: an axis that goes so far would hide what tells the others apart
                off = f"◂ {row.value:.4f}, left of the axis"
                axis.annotate(off, (0, place), (6, 0), xycoords=("axes fraction", "data"), va="center", **where)
                continue
            axis.hlines(place, row.low, row.high, color=colour)
            axis.plot(row.value, place, "o", color=colour, markerfacecolor="none" if row.published else colour)
            axis.annotate(f"{row.value:.4f}", (row.value, place), (0, 6), ha="center", **where)
        axis.set(xlabel=of.metric.iloc[0].upper(), title=_NAMES.get(name, name))
        axis.set(ylim=(-0.6, len(of)))
        axis.margins(x=0.15)
    return figure


PUBLISHED = [
    (NCF, "iALS, 192 factors (Rendle et al. 2022)", {"hr@10": 0.73, "ndcg@10": 0.45}),
    ("gowalla", "EASE (BARS)", {"recall@20": 0.1765, "ndcg@20": 0.1467}),
    ("gowalla", "LightGCN (BARS)", {"recall@20": 0.1820, "ndcg@20": 0.1547}),
    ("gowalla", "SimpleX (Mao et al. 2021)", {"recall@20": 0.1872, "ndcg@20": 0.1557}),
]
"""(data set, model, metrics), the first of them rounded by its authors."""


def compared(frame):
    """Return test metrics: data, metric, model, value (mean of repeats), its 95 % interval; published or not."""
    test = frame[frame.task == "test"]
    rows, by = [], ["data", "metric", "model", test.factors.fillna(0)]
    for (data, metric, model, factors), values in test.groupby(by, sort=False).value:
        name = f"ImplicitALS, {factors:.0f} factors" if factors else model
        half = stats.t.ppf(0.975, len(values) - 1) * values.sem() if len(values) > 1 else 0.0
        rows.append((data, metric, name, values.mean(), values.mean() - half, values.mean() + half, False))
    known = set(test.data)
    rows += [(data, metric, model, value, value, value, True)
             for data, model, of in PUBLISHED if data in known for metric, value in of.items()]  # fmt: skip
    table = pd.DataFrame(rows, columns=["data", "metric", "model", "value", "low", "high", "published"])
    return table.sort_values(["data", "metric"], ascending=False, kind="stable").reset_index(drop=True)


def beside_published(frame):
    """Return `compared` as a table to be shown, with 95 % intervals."""
    table = compared(frame)
    shown = {"recall@20": "Recall@20", **{m: m.upper() for m in ("hr@10", "ndcg@10", "ndcg@20")}}
    values = [
        f"{row.value:.4g}" if row.low == row.high else f"{row.value:.4f} ({row.low:.4f} to {row.high:.4f})"
        for row in table.itertuples()
    ]
    columns = {"data": table.data.replace(_NAMES), "metric": table.metric.replace(shown), "model": table.model}
    return pd.DataFrame(columns | {"value": values}).style.hide()
