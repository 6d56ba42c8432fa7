"""What a stale RBM is worth in a blend whose factorization is trained before every chunk of new ratings.

The thesis (section 7.1) asks whether a hybrid may update its slower half less often. Ratings arrive in chunks. Before
each chunk the factorization trains on all ratings that came before, an RBM did so at the last multiple of n chunks;
their blend, its weight fitted on the chunk before, predicts the chunk.

An RBM has no parameters of a user: what it knows of one is what it is shown. A stale one can therefore predict from
the ratings that it was trained on ('trained on'), or be shown those that came since ('all so far').
"""

from copy import copy
from itertools import pairwise

import numpy as np
import pandas as pd
from matplotlib.ticker import StrMethodFormatter
from tqdm import tqdm

from gpumf import RBM, SGD
from gpumf._util.counter_rng import random_order
from gpumf.models.blend import convex_weights
from gpumf.ratings import DataError, rating_times
from gpumf.solvers import schedules
from gpumf_study import figure_style as style
from gpumf_study.claims import Claim
from gpumf_study.experiments import load_ratings
from gpumf_study.experiments.gpumf.blend_ml100k import FIXED

SHOWN = "trained on", "all so far"
_METRICS = ["weight", "rmse", "mae", "rmse_rbm"]
_SGD = FIXED["SGD"] | {"regularization": 0.1, "schedule": schedules.Power(0.02)}
_RBM = FIXED["RBM"] | {"learning_rate": 0.1, "weight_decay": 0.01, "schedule": schedules.Power(0.02)}

PROFILES = {
    "quick": {"data": "ml-100k", "orders": ["random", "time"], "first": 0.5, "chunks": 5, "every": [1, 2, 4],
              "factors": 32, "factor_epochs": 20, "hidden": 50, "hidden_epochs": 15, "kernel": "sequential",
              "seeds": 1},
    "full": {"data": "ml-100k", "orders": ["random", "time"], "first": 0.5, "chunks": 9, "every": [1, 2, 4, 8],
             "factors": 128, "factor_epochs": 80, "hidden": 250, "hidden_epochs": 100, "kernel": None, "seeds": 5},
}  # fmt: skip
PROFILES["smoke"] = PROFILES["quick"] | {
    "data": "ml-100k-synthetic", "chunks": 2, "every": [1, 2], "factors": 4, "factor_epochs": 2, "hidden": 8,
    "hidden_epochs": 2,
}  # fmt: skip


def run(data, orders, first, chunks, every, factors, factor_epochs, hidden, hidden_epochs, kernel, seeds):
    """Train before every chunk, blend with RBMs of every age, predict the chunk.

    orders : of 'random' and 'time', in which the ratings arrive; 'time' is left out where the set does not say it
    first : float, share of the ratings that are there before the first chunk
    chunks : int, into which the others are cut; the first serves to fit the first weight alone
    every : list of int, n: chunks between two trainings of the RBM
    factors, factor_epochs : of the factorization, SGD with biases
    hidden, hidden_epochs : of the RBM
    kernel : of both models; None for the fastest of this machine
    seeds : int, of both models and of the random order

    A row is a metric (weight of the RBM, rmse, mae, rmse_rbm of the RBM alone) of a chunk and way to predict it:
    x_order, x_chunk, x_nnz (ratings predicted: those whose user and item have ratings before), x_every (0 for the
    factorization alone), x_shown ('alone' there), x_age (chunks since the RBM was trained), x_factor_seconds and
    x_rbm_seconds (of the trainings that the chunk had).
    """
    ratings = load_ratings(data)
    rows = []
    for order in orders:
        for seed in range(seeds):
            arrived = _arrived(ratings, order, seed)
            if arrived is not None:
                shared, epochs = {"solver": kernel, "seed": seed}, (factor_epochs, hidden_epochs)
                models = SGD(factors, **shared, **_SGD), RBM(hidden, **shared, **_RBM)
                of_chunks = _chunk_by_chunk(arrived, first, chunks, every, models, epochs)
                rows += [{"order": order, "seed": seed, **row} for row in of_chunks]
    frame = pd.DataFrame(rows).rename(columns={"seed": "repeat"})
    frame = frame.rename(columns={name: f"x_{name}" for name in set(frame) - {"repeat", *_METRICS}})
    frame = frame.melt([name for name in frame if name not in _METRICS], _METRICS, "metric", "value")
    return frame.dropna(subset="value").assign(data=ratings.name, task="fit", model="Blend")


def _arrived(ratings, order, seed):
    """The ratings in the order in which they arrive, or None where the set does not say it."""
    if order == "random":
        return ratings.select(random_order(ratings.nnz, seed))
    try:
        return ratings.select(np.argsort(rating_times(ratings.name), kind="stable"))
    except DataError:
        return None


def _chunk_by_chunk(ratings, first, chunks, every, models, epochs):
    """The rows of one order."""
    bounds = np.rint(np.linspace(first, 1, chunks + 1) * ratings.nnz).astype(int)
    trained, before = {}, {}
    for chunk, (begin, end) in enumerate(pairwise(tqdm(bounds, desc="stale_rbm", leave=False))):
        past, coming = ratings.select(np.arange(begin)), ratings.select(np.arange(begin, end))
        seen = [np.isin(new, old) for new, old in ((coming.users, past.users), (coming.items, past.items))]
        coming = coming.select(np.logical_and(*seen))
        factorization, rbm = (copy(m).fit(past, n) for m, n in zip(models, epochs, strict=True))
        trained[chunk] = rbm
        seconds = {"factor_seconds": factorization.history.seconds.iloc[-1]}
        alone = factorization.predict(coming.users, coming.items)
        row = {"chunk": chunk, "nnz": coming.nnz, **seconds}
        if chunk:
            without = {"every": 0, "shown": "alone", "weight": 0.0, "rbm_seconds": 0.0}
            yield row | without | _errors(alone, coming.values)
        for n in every:
            age = chunk % n
            for shown in SHOWN:
                stale = trained[chunk - age] if shown == "trained on" else shown_all(trained[chunk - age], past)
                guesses = np.stack([stale.predict(coming.users, coming.items), alone], axis=1)
                if chunk:
                    weights = convex_weights(*before[n, shown])
                    yield row | {"every": n, "shown": shown, "age": age, "weight": weights[0],
                                 **_errors(guesses @ weights, coming.values),
                                 "rmse_rbm": _errors(guesses[:, 0], coming.values)["rmse"],
                                 "rbm_seconds": 0.0 if age else rbm.history.seconds.iloc[-1]}  # fmt: skip
                before[n, shown] = guesses, coming.values


def shown_all(rbm, ratings):
    """An RBM with the same weights whose hidden units follow from these ratings, of the same users and items."""
    return copy(rbm).fit(ratings, epochs=0, warm_start=True)


def _errors(predictions, values):
    error = predictions - values.astype(np.float64)
    return {"rmse": float(np.sqrt(np.mean(error**2))), "mae": float(np.abs(error).mean())}


def wide(frame):
    """Return a row a chunk and way to predict it: seed, order, chunk, every, shown, age, ..., and the metrics."""
    keys = [name for name in frame if name not in ("metric", "value")]
    table = frame.set_index([*keys, "metric"]).value.unstack().reset_index()
    return table.rename(columns=lambda name: "seed" if name == "repeat" else name.removeprefix("x_"))


def summary(frame):
    """Return the errors over all chunks together, a row an order, seed and way to predict.

    Columns are order, shown ('alone' for the factorization), every, seed, rmse (of all ratings predicted), gain (by
    how much it is below that of the factorization alone), weight, rbm_seconds (of all chunks).
    """
    frame = wide(frame)
    squared = frame.assign(squared=frame.nnz * frame.rmse**2)
    groups = squared.groupby(["order", "shown", "every", "seed"], sort=False)
    sums = {name: (name, "sum") for name in ("squared", "nnz", "rbm_seconds")}
    table = groups.agg(**sums, weight=("weight", "mean")).reset_index()
    table["rmse"] = np.sqrt(table.squared / table.nnz)
    alone = table[table.every == 0].set_index(["order", "seed"]).rmse
    table["gain"] = [alone[row.order, row.seed] - row.rmse for row in table.itertuples()]
    return table.drop(columns=["squared", "nnz"])


_SHOWN = {
    "trained on": ("shown what it was trained on", "blue", "-o"),
    "all so far": ("shown all so far", "red", "--s"),
}


def figure(frame):
    """Draw the RMSE of the blend against the chunks between two trainings of its RBM, for each order."""
    table = summary(frame)
    orders = table.order.unique()
    figure, (axes,) = style.panels(columns=len(orders), height=3.8)
    for axis, order in zip(axes, orders, strict=True):
        runs = table[table.order == order]
        axis.axhline(runs[runs.every == 0].rmse.mean(), color=style.COLOURS["black"], label="factorization alone")
        for shown, (label, colour, line) in _SHOWN.items():
            means = runs[runs.shown == shown].groupby("every").rmse.mean()
            axis.plot(means, line, color=style.COLOURS[colour], label=label)
        axis.set(xlabel="chunks between two trainings of the RBM", ylabel="RMSE of the next chunks")
        axis.set_title(f"ratings arrive in {'random order' if order == 'random' else 'order of time'}", fontsize=10)
        axis.set_xscale("log", base=2)
        axis.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    style.legend(figure, axes[0], 3)
    return figure


def kept(frame):
    """Return by seed the share of a fresh RBM's gain in RMSE that the stalest keeps, over all orders: x_kept."""
    gain = summary(frame).groupby(["shown", "seed", "every"]).gain.mean().unstack("every")
    share = gain[gain.columns.max()] / gain[gain.columns[gain.columns > 0].min()]
    return share.rename("x_kept").rename_axis(index={"seed": "repeat"}).reset_index()


CLAIMS = [
    Claim(f"thesis-stale-rbm-{shown.replace(' ', '-')}", "thesis", "Section 7.1",
          "Share of the gain in RMSE that a blend keeps whose RBM is trained least often, "
          f"shown {'what it was trained on' if shown == 'trained on' else shown}; of the gain averaged over orders.",
          metric="median",
          select={"column": "x_kept", "where": {"shown": shown}}, table=kept)
    for shown in SHOWN
]  # fmt: skip
