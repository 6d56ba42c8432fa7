"""The best parameters of the thesis's models: test MAE against lambda and against the learning rate.

After the thesis, section 6.2, Figures 6.1 to 6.4: 16 factors, new training sets of 80 % in every repeat. Hogwild
makes 7.6e8 updates in the thesis's best configuration, 128 blocks of 128 threads; ALS 50 epochs. The Boltzmann
machine, with 128 hidden units and batches of 100 users, gets a few epochs on part of Jester's users.

What the thesis chooses by test ratings is chosen here by a tenth of each training set: held out, it says after how
many epochs of a run, and with which parameter, the MAE is the least. The test MAE is that of a second run, on the
whole training set, for so many epochs. Each curve of a repeat is one call of `search`.

Hogwild has two parameters. The learning rate, on which more depends, is searched at the published lambda, then lambda
at the rate that was best on the first training set. The RBM is searched twice: as the thesis trains it
(`RBM.thesis`), and with the initial values and averages of ours.
"""

from functools import partial
from hashlib import sha256

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import ALS, RBM, SGD, backends, search
from gpumf.ratings import Ratings
from gpumf_study import figure_style as style
from gpumf_study.claims import Claim, below
from gpumf_study.experiments import _kept, _published, load_ratings, trained

FACTORS = 16
WITHOUT_BIASES = {"biases": False, "init": "unit", "clip": False}
SGD_THREADS = 128 * 128  # the thesis's best configuration (section 6.5): 2048 threads on each of 8 multiprocessors

RBM_HIDDEN, RBM_BATCH = 128, 100  # section 6.2.3
RBM_FIXED = {"average": "item", "weight_decay": 0.0, "biases": False}  # of ours, with which its rate is searched

# What is varied in each figure, and the words for it in `published.csv`.
FIGURES = {
    ("SGD", "regularization"): ("Figure 6.1", "best regularization"),
    ("SGD", "learning_rate"): ("Figure 6.2", "best learning rate"),
    ("ALS", "regularization"): ("Figure 6.3", "best regularization"),
    ("RBM", "learning_rate"): ("Figure 6.4", "best learning rate"),
    ("RBM, thesis", "learning_rate"): ("Figure 6.4", "best learning rate"),
}

FIRST_REGULARIZATION = 0.1  # with which Hogwild's search sets out on sets that the thesis does not use

PROFILES = {
    "quick": {"data": ["ml-100k-synthetic"], "sgd_regularization": [0.03, 0.1, 0.2],
              "learning_rate": [0.005, 0.015, 0.04], "als_regularization": [0.05, 0.1, 0.15, 0.25], "updates": 5e5,
              "als_epochs": 10, "rbm": {"data": "jester-1", "users": 250, "learning_rate": [0.02, 0.2], "epochs": 2},
              "repeats": 1},
    "full": {"data": ["douban-synthetic", "jester-synthetic", "jester-1"],
             "sgd_regularization": [0.005, 0.01, 0.021, 0.03, 0.045, 0.06, 0.08],
             "learning_rate": [0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.026],
             "als_regularization": [0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.09, 0.12], "updates": 7.6e8,
             "als_epochs": 50,
             "rbm": {"data": "jester-1", "users": 5000,
                     "learning_rate": [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0], "epochs": 10},
             "repeats": 5},
}  # fmt: skip
PROFILES["smoke"] = PROFILES["quick"] | {
    "data": ["ml-100k-synthetic"], "sgd_regularization": [0.1], "learning_rate": [0.01], "als_regularization": [0.1],
    "updates": 1e5, "als_epochs": 2,
    "rbm": {"data": "ml-100k-synthetic", "users": 60, "learning_rate": [0.1], "epochs": 1}, "repeats": 1,
}  # fmt: skip


def run(data, sgd_regularization, learning_rate, als_regularization, updates, als_epochs, rbm, repeats):
    """Train with every parameter of the grids.

    updates : float, of Hogwild
    rbm : dict of data (name of a data set), users (how many of its users), learning_rate (list of float), epochs
    repeats : int, training sets; set k is split off, and its factors initialised, with seed k

    Return a DataFrame: rmse and mae of each run on the test set, after as many epochs of the training set as were
    best, which is `epoch`; x_varied (the parameter of the figure), x_regularization, x_learning_rate, x_held_out_mae
    (the least on held-out ratings)
    """
    rows = []
    for name in data:
        ratings = load_ratings(name)
        best_rate = None
        for repeat in tqdm(range(repeats), desc=f"parameter_search {ratings.name}", leave=False):
            sets = _split(ratings, repeat)
            als = ALS(FACTORS, solver=als_kernel(), seed=repeat, **WITHOUT_BIASES)
            rows += _searched(als, "regularization", als_regularization, sets, als_epochs)
            epochs = int(np.ceil(updates / sets[0].nnz))
            start = _published.value("Figure 6.1", "best regularization", ratings.name) or FIRST_REGULARIZATION
            first = _searched(_hogwild(repeat, regularization=start), "learning_rate", learning_rate, sets, epochs)
            if best_rate is None:
                best_rate = min(first, key=lambda row: row["x_held_out_mae"])["x_learning_rate"]
            hogwild = _hogwild(repeat, learning_rate=best_rate)
            rows += first + _searched(hogwild, "regularization", sgd_regularization, sets, epochs)
    part = first_users(load_ratings(rbm["data"]), rbm["users"])
    for repeat in range(repeats):
        sets = _split(part, repeat)
        for variant, made in ((None, partial(RBM, **RBM_FIXED)), ("thesis", RBM.thesis)):
            model = made(hidden=RBM_HIDDEN, batch=RBM_BATCH, seed=repeat)
            found = _searched(model, "learning_rate", rbm["learning_rate"], sets, rbm["epochs"])
            rows += [row | {"variant": variant} for row in found]
    return errors_of(rows)


def errors_of(rows):
    """The frame of runs, dicts whose errors are rmse and mae, with a row for each of the two."""
    frame = pd.DataFrame(rows)
    return frame.melt([*frame.columns.difference(["rmse", "mae"], sort=False)], ["rmse", "mae"], "metric", "value")


def first_users(ratings, users):
    """The ratings of the first users, of a matrix with as many rows less."""
    part = ratings.select(ratings.users < users)
    return Ratings(part.users, part.items, part.values, users, part.n_items, scale=part.scale, name=part.name)


def als_kernel():
    """The thesis's own ALS, which is exact as that of all threads is."""
    return "thesis_shared" if backends.available() else "parallel"


def _split(ratings, seed):
    """(train, test, train without what is held out, held-out ratings)."""
    train, test = ratings.split(0.2, seed=seed)
    return train, test, *train.split(0.1, seed=seed)


def _hogwild(seed, **parameters):
    kernel, threads = ("hogwild", SGD_THREADS) if backends.available() else ("parallel", None)
    return SGD(FACTORS, solver=kernel, threads=threads, seed=seed, **parameters, **WITHOUT_BIASES)


class OverfittingStop:
    """True of an epoch that is more than twice as late as the best one so far, and 30 more.

    At first errors may rise for some epochs, until the factors have turned from their initial values.
    """

    def __init__(self):
        self._best, self._epoch = np.inf, 0

    def __call__(self, row):
        if row["epoch"] and row["mae"] < self._best:
            self._best, self._epoch = row["mae"], row["epoch"]
        return row["epoch"] > 2 * self._epoch + 30


def best_epoch(history):
    """The row of a history with the least MAE; the last one where all are NaN, as where the rate is too high."""
    trained = history[history.epoch > 0]
    return trained.loc[trained.mae.idxmin()] if trained.mae.notna().any() else history.iloc[-1]


def _searched(model, varied, values, sets, epochs):
    """The rows of a curve, which is a piece of a recording."""
    facts = sets[0].name, type(model).__name__, varied, epochs, model.get_params()
    key = f"{varied}-{model.seed}-{sha256(repr(facts).encode()).hexdigest()[:16]}"
    return _kept.once(key, partial(_curve, model, varied, values, sets, epochs))


def _curve(model, varied, values, sets, epochs):
    """A row a value: its epoch is searched on held-out ratings, and a model of so many judged by the test set."""
    train, test, *inner = sets
    tried = {"parameters": {varied: values}, "folds": [inner], "metric": "mae", "keep": "best"}
    found = search(model, ratings=inner[0], epochs=epochs, **tried, n_jobs=1, refit=False)
    rows = []
    for value, best in found.results.set_index(varied).loc[values].iterrows():
        fitted = type(model)(**model.get_params() | {varied: value})
        judged = trained(fitted, train, int(best.epochs), test).history.iloc[-1]
        what = {"data": train.name, "task": "fit", "model": type(model).__name__, "solver": fitted.solver}
        what |= {"device": fitted.device, "repeat": model.seed, "epoch": int(best.epochs), "x_varied": varied}
        what |= {f"x_{key}": getattr(fitted, key, np.nan) for key in ("regularization", "learning_rate")}
        rows.append(what | {"x_held_out_mae": best.mae, "rmse": judged.rmse, "mae": judged.mae})
    return rows


def points(frame):
    """Return runs as points of figures: data, model (or 'RBM, thesis'), varied, value, repeat, mae, held_out_mae."""
    rows = frame[frame.metric == "mae"]
    value = np.where(rows.x_varied == "regularization", rows.x_regularization, rows.x_learning_rate)
    columns = {"data": rows.data, "model": rows.model + (", " + rows.variant).fillna(""), "varied": rows.x_varied}
    columns |= {"value": value, "repeat": rows.repeat, "mae": rows.value}
    return pd.DataFrame(columns | {"held_out_mae": rows.x_held_out_mae})


def summary(frame):
    """The error at each value of each parameter, from the frame of `run`.

    Return a DataFrame with a row a point of a figure: data, model, varied, value, mae and held_out_mae (means over
    the repeats), deviation (the standard deviation of mae; missing with one repeat)
    """
    groups = points(frame).groupby(["data", "model", "varied", "value"], sort=False)
    table = groups.agg(mae=("mae", "mean"), deviation=("mae", "std"), held_out_mae=("held_out_mae", "mean"))
    return table.reset_index()


def optima(frame):
    """The value of each parameter that is best on held-out ratings, beside the published one.

    Return a DataFrame with a row a curve: data, model, varied, value, interior (whether neither end of the grid is
    the best), mae (there), deviation (the largest along the curve), published, published_deviation (missing where the
    thesis has none), published_mae (here, by straight lines between the points, at the published value)
    """
    rows = []
    for (data, model, varied), curve in summary(frame).groupby(["data", "model", "varied"], sort=False):
        best = curve.loc[curve.held_out_mae.idxmin()]
        figure_or_table, quantity = FIGURES[model, varied]
        published = _published.value(figure_or_table, quantity, data)
        curve = curve.sort_values("value")
        found = {"data": data, "model": model, "varied": varied, "value": best.value, "mae": best.mae}
        found |= {"interior": curve.value.min() < best.value < curve.value.max(), "published": published}
        found |= {"deviation": curve.deviation.max()}
        found["published_deviation"] = _published.value(figure_or_table, "largest standard deviation", data)
        found["published_mae"] = np.nan if published is None else np.interp(published, curve.value, curve.mae)
        rows.append(found)
    return pd.DataFrame(rows).astype({"published": float, "published_deviation": float})


_VARIED = {"regularization": "regularization λ", "learning_rate": "learning rate μ"}


def figure(frame, model="ALS", varied="regularization"):
    """Test MAE against one parameter, an axis a data set; the standard deviation over the repeats shaded.

    model : 'ALS', 'SGD', 'RBM' or 'RBM, thesis'; varied : 'regularization' or 'learning_rate'
    """
    curves = summary(frame)
    curves = curves[(curves.model == model) & (curves.varied == varied)]
    best = optima(frame).set_index(["data", "model", "varied"])
    names = curves.data.unique()
    figure, (axes,) = style.panels(columns=len(names), height=3.6)
    for axis, name in zip(axes, names, strict=True):
        curve = curves[curves.data == name].sort_values("value").dropna(subset="mae")
        found = best.loc[(name, model, varied)]
        axis.plot(curve.value, curve.mae, "-o", color=style.COLOURS["blue"], label="mean", markersize=4)
        if curve.deviation.notna().all():
            band = curve.mae - curve.deviation, curve.mae + curve.deviation
            axis.fill_between(curve.value, *band, color=style.COLOURS["blue"], alpha=0.2, label="standard deviation")
        axis.plot(found.value, found.mae, "*", color=style.COLOURS["black"], markersize=13, label="best here")
        if found.published == found.published:
            axis.axvline(found.published, linestyle="--", color=style.COLOURS["orange"], label="best in the thesis")
        axis.set(xlabel=_VARIED[varied], ylabel=f"test MAE on {style.data_name(name)}")
        if curve.value.max() > 20 * curve.value.min():
            style.log_scale(axis.xaxis)
    style.legend(figure, axes[0], 4)
    return figure


def costs(frame):
    """Return what the published value costs on each training set: data, model, varied, repeat, x_cost.

    It is the share of the MAE with the value that is best on held-out ratings, on average; between the points of a
    grid lie straight lines.
    """
    rows = []
    best = optima(frame).set_index(["data", "model", "varied"])
    keys = ["data", "model", "varied", "repeat"]
    for (*curve, repeat), run in points(frame).dropna(subset="mae").groupby(keys, sort=False):
        found, run = best.loc[tuple(curve)], run.sort_values("value")
        there, least = np.interp([found.published, found["value"]], run["value"], run.mae)
        rows.append((*curve, repeat, there / least - 1))
    return pd.DataFrame(rows, columns=[*keys, "x_cost"])


def _claims():
    """One on every published optimum of what the thesis trained."""
    for (model, varied), (figure_or_table, quantity) in FIGURES.items():
        for data in ("douban-synthetic", "jester-1"):
            value = _published.value(figure_or_table, quantity, data)
            if value is None or model == "RBM":
                continue
            name = f"thesis-fig-{figure_or_table.removeprefix('Figure ')}-{_published.family(data)}"
            words = f"the best {varied.replace('_', ' ')} of {model} as published, {value}, {style.data_name(data)}"
            if model == "RBM, thesis":
                missing = "the users and epochs of its search"
                yield Claim(name, "thesis", figure_or_table, f"Cost of {words}.", missing=missing)
                continue
            yield Claim(name, "thesis", figure_or_table,
                        f"Cost of {words}: share of the MAE with the value chosen here.", metric="median",
                        select={"column": "x_cost", "where": {"data": data, "model": model, "varied": varied}},
                        criterion=below(0.01), evidence="built in" if data == "douban-synthetic" else "real",
                        table=costs)  # fmt: skip


CLAIMS = list(_claims())
