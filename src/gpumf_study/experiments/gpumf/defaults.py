"""What a first user gets: the defaults of every model, and a search for better ones, against the simplest baselines.

The search tries the defaults and a grid of each model on a tenth of the training ratings that is held out. One choice
for all sets: the one whose error, over that of the bias baseline, is the least on average; of lists, the one whose
precision and NDCG over those of the most popular items are the greatest. And one for each set by itself, which says
whether any setting beats the baseline there. Then the defaults and these choices are trained on all of a set's
training ratings and judged on its test ratings. Beside the models ALS without biases of its own, trained on what
damped biases leave of the ratings: there, who has few ratings keeps the biases almost alone.
"""

import json
from functools import partial
from itertools import product

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import ALS, RBM, SGD, DivergedError, ImplicitALS
from gpumf._util.counter_rng import positional_hash
from gpumf.models.ranking import METRICS, popular_items
from gpumf.models.sgd import baseline_predictors
from gpumf.ratings import Ratings
from gpumf_study import figure_style as style
from gpumf_study.experiments import identity, load_ratings
from gpumf_study.findings import Finding, Holds, median, ratio

SETS = "ml-100k", "ml-latest-small", "jester-1", "douban-monti"
K = 10  # items of a list
DAMPING = 5  # ratings of the mean that each user and item of the damped baseline has in addition

_LAMBDAS = [0.1, 0.15, 0.2, 0.25]
_FULL = {
    "ALS": {"biases": [True, False], "clip": [True], "factors": [2, 4, 16, 32], "regularization": _LAMBDAS},
    "SGD": {
        "clip": [True],
        "factors": [4, 16],
        "regularization": [0.05, 0.1, 0.15, 0.2],
        "bias_regularization": [0.02, 0.05, 0.1],
        "learning_rate": [0.005, 0.01, 0.02],
        "epochs": [20, 80],
    },
    "RBM": {
        "average": ["batch", "item"],
        "hidden": [32, 128],
        "learning_rate": [0.02, 0.05, 0.1, 0.2, 0.4],
        "weight_decay": [0.0, 0.01],
        "epochs": [20, 60],
    },
    "ImplicitALS": {"factors": [16, 32], "alpha": [1.0, 2.0, 10.0, 40.0]},
    "ALS after biases": {"factors": [4, 16, 32], "regularization": _LAMBDAS},
}
PROFILES = {
    "full": {"data": list(SETS), "most": 150_000, "grids": _FULL, "epochs": 20, "seeds": 3, "device": "cpu"},
    "quick": {
        "data": ["ml-100k"],
        "most": 150_000,
        "grids": {
            "ALS": {"biases": [True], "clip": [True], "regularization": [0.1, 0.2]},
            "SGD": {"biases": [True], "clip": [True], "regularization": [0.1], "learning_rate": [0.01, 0.02]},
        },
        "epochs": 10,
        "seeds": 2,
        "device": "cpu",
    },
}
PROFILES["smoke"] = {
    "data": ["ml-100k-synthetic"],
    "most": 30_000,
    "grids": {"ALS": {"factors": [4], "biases": [True], "clip": [True], "regularization": [0.1, 0.3]}},
    "epochs": 2,
    "seeds": 2,
    "device": "cpu",
}


class AfterBiases:
    """ALS of what damped biases leave of ratings; predictions are clipped to the scale, as of the biases alone.

    Parameters
    ----------
    **parameters : of `ALS`, but biases and clip
    """

    def __init__(self, **parameters):
        self._factors = ALS(biases=False, clip=False, **parameters)

    @property
    def solver(self):
        return self._factors.solver

    def fit(self, train, epochs):
        self._train, self._biases = train, damped_biases(train)
        rest = train.values - _of_biases(train, *self._biases, train)
        self._factors.fit(Ratings(train.users, train.items, rest, train.n_users, train.n_items), epochs)

    def score(self, test):
        predicted = _of_biases(self._train, *self._biases, test) + self._factors.predict(test.users, test.items)
        return _errors(predicted, self._train.scale, test)


MODELS = {"ALS": ALS, "SGD": SGD, "RBM": RBM, "ImplicitALS": ImplicitALS, "ALS after biases": AfterBiases}


def run(data, most, grids, epochs, seeds, device):
    """Search on held-out ratings, then judge the defaults and what was chosen.

    Parameters
    ----------
    data : names of data sets
    most : int, ratings of a set; of a larger one a random part of its users has all of theirs
    grids : dict of models -> dict of parameters -> lists, all of whose combinations are tried beside the defaults;
        models without one are judged alone
    epochs : int, of every training whose parameters do not name another number
    seeds : int, of the initial factors of what is judged
    device : of the models

    Returns
    -------
    DataFrame with a row a training or baseline: data, nnz (of the set), model ('biases' and 'popularity' are the
    baselines), step ('choice', on held-out ratings, or 'test'), parameters (those given, as JSON, '{}' being the
    defaults, or which baseline), seed, kernel, epochs, rmse, mae, and precision, recall, map, ndcg of lists (NaN
    where the model has none)
    """
    rows, sets = [], [load_ratings(name) for name in data]
    parts = [part_of(ratings, most) for ratings in sets]
    for ratings in parts:
        train, _ = _split(ratings)
        inner, held_out = train.split(0.1)
        add = partial(_add, rows, ratings, "choice", inner, held_out, epochs, device)
        add()
        for model, grid in grids.items():
            tried = [{}, *(dict(zip(grid, values, strict=True)) for values in product(*grid.values()))]
            for parameters in tqdm(tried, desc=f"defaults {ratings.name} {model}", leave=False):
                add(model, parameters)
    tried = _frame(rows)
    chosen = choice(tried).parameters
    for ratings in parts:
        own = choice(tried[tried.data == ratings.name]).parameters
        train, test = _split(ratings)
        add = partial(_add, rows, ratings, "test", train, test, epochs, device)
        add()
        for model in MODELS:
            # What is chosen twice, once.
            judged = ({}, chosen.get(model, {}), own.get(model, {}))
            for parameters in {json.dumps(p): p for p in judged}.values():
                for seed in range(seeds):
                    add(model, parameters, seed)
    frame = _frame(rows)
    frame.attrs["datasets"] = [identity(ratings) for ratings in sets]
    return frame


def _split(ratings):
    return ratings.split(0.2) if ratings.test_mask is None else ratings.official_split()


def _add(rows, ratings, step, train, judge, epochs, device, model=None, parameters=None, seed=0):
    """Rows of a training, or without a model of the baselines."""
    what = {"data": ratings.name, "nnz": ratings.nnz, "step": step, "seed": seed}
    if model is None:
        rows += [what | {"model": of, "parameters": kind} | errors for of, kind, errors in baselines(train, judge)]
        return
    arguments = dict(parameters)
    epochs = arguments.pop("epochs", epochs)
    fitted = MODELS[model](**arguments, seed=seed, device=device)
    try:
        fitted.fit(train, epochs)
        errors = fitted.evaluate_ranking(judge, K) if model == "ImplicitALS" else fitted.score(judge)
    except DivergedError:
        errors = {"rmse": np.inf, "mae": np.inf}  # which nothing is chosen for
    made = {"model": model, "parameters": json.dumps(parameters), "kernel": fitted.solver, "epochs": epochs}
    rows.append(what | made | errors)


def _frame(rows):
    columns = ["data", "nnz", "model", "step", "parameters", "seed", "kernel", "epochs", "rmse", "mae", *METRICS]
    return pd.DataFrame(rows).reindex(columns=columns)


def part_of(ratings, most):
    """All ratings of as many users, drawn at random, as have at most so many; the whole set where it has no more."""
    if ratings.nnz <= most:
        return ratings
    order = np.argsort(positional_hash(ratings.n_users, seed=0))
    chosen = order[np.cumsum(ratings.user_counts[order]) <= most]
    rows = np.isin(ratings.users, chosen)
    users = np.searchsorted(np.sort(chosen), ratings.users[rows])
    columns = users, ratings.items[rows], ratings.values[rows]
    return Ratings(*columns, len(chosen), ratings.n_items, scale=ratings.scale, name=ratings.name)


def baselines(train, test):
    """Yield (model, which one, its errors): the user's and item's biases as means, and damped, and popularity."""
    for kind, biases in (("means", baseline_predictors(train)), ("damped", damped_biases(train))):
        yield "biases", kind, _errors(_of_biases(train, *biases, test), train.scale, test)
    ranking = popular_items(train.item_counts, train.n_users, train.by_user, K, "cpu")
    users = np.flatnonzero(test.user_counts)
    yield (
        "popularity",
        "counts",
        dict(zip(METRICS, ranking.metrics(test.by_user, users, K).mean(axis=0), strict=True)),
    )


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


def _of_biases(train, of_user, of_item, ratings):
    """What biases that count from a training set's mean predict of ratings."""
    return train.mean + of_user[ratings.users] + of_item[ratings.items]


def _errors(predicted, scale, test):
    error = np.clip(predicted, *(scale or (-np.inf, np.inf))) - test.values
    return {"rmse": np.sqrt(np.mean(error**2)), "mae": np.abs(error).mean()}


def _relative(frame, step):
    """Of each training of a step, how it compares with its set's better baseline: below 1 is better for errors.

    Returns
    -------
    The frame's rows of models, with error (RMSE over the baseline's), and of lists precision_gain and ndcg_gain (over
    popularity's)
    """
    rows = frame[frame.step == step]
    rmse = rows[rows.model == "biases"].groupby("data").rmse.min()
    popular = rows[rows.model == "popularity"].set_index("data")
    models = rows[rows.model.isin(MODELS)]
    lists = {f"{name}_gain": models[name] / models.data.map(popular[name]) for name in ("precision", "ndcg")}
    return models.assign(error=models.rmse / models.data.map(rmse), **lists)


def choice(frame):
    """One choice a model: the parameters that are best on average over the sets; none given are the defaults.

    Returns
    -------
    DataFrame with the index model: parameters (dict), error (mean over the sets of the RMSE over the baseline's; of
    lists of popularity's precision and NDCG over theirs)
    """
    table = _relative(frame, "choice")
    lists = 2 / (table.precision_gain + table.ndcg_gain)
    means = table.assign(error=table.error.fillna(lists)).groupby(["model", "parameters"]).error.mean()
    best = means.groupby("model").idxmin()
    return pd.DataFrame(
        [(model, json.loads(key[1]), means[key]) for model, key in best.items()],
        columns=["model", "parameters", "error"],
    ).set_index("model")


def summary(frame):
    """What the defaults and the choice reach on the test ratings, beside the baselines.

    Returns
    -------
    DataFrame with a row a set, model and parameters ('{}' are the defaults): data, model, parameters, rmse, mae,
    precision, ndcg (means over the seeds), spread (half the range over the seeds, of the RMSE, or of the NDCG)
    """
    rows = frame[frame.step == "test"]
    groups = rows.assign(of=rows.rmse.fillna(rows.ndcg)).groupby(["data", "model", "parameters"], sort=False)
    table = groups[["rmse", "mae", "precision", "ndcg"]].mean()
    return table.assign(spread=groups.of.agg(np.ptp) / 2).reset_index()


def figure(frame):
    """Test RMSE of the choice over that of the better bias baseline (left), NDCG over popularity's (right)."""
    table = _chosen(_relative(frame, "test"), frame)
    figure, (axes,) = style.panels(columns=2, height=2.8, sharey=True)
    for model, colour in zip(MODELS, ("blue", "orange", "green", "wine", "sky"), strict=True):
        rows = table[table.model == model]
        lists = model == "ImplicitALS"
        values = rows.ndcg_gain if lists else rows.error
        axes[int(lists)].plot(values, rows.data, "o", color=style.COLOURS[colour], alpha=0.6, label=model)
    for axis, label in zip(
        axes, ("ratio of test RMSE to biases'", f"ratio of NDCG@{K} to popularity's"), strict=True
    ):
        axis.axvline(1, color="black", linewidth=0.8)
        axis.set_xlabel(label)
    style.legend(figure, axes[0], 3)
    return figure


def _chosen(rows, frame):
    """Those of the rows that were trained with the choice; of a model that was not searched with its defaults."""
    parameters = choice(frame).parameters.map(json.dumps).reindex(list(MODELS)).fillna("{}")
    return rows[rows.parameters == rows.model.map(parameters)]


def own_choices(frame):
    """Test errors of what each set's own held-out ratings chose.

    Returns
    -------
    DataFrame with a row a training: that of the frame, and error (its RMSE over the better bias baseline's); of a
    model none where a choice of its was not judged, as in results that are older than this
    """
    table = _relative(frame, "test")
    chosen = [choice(rows).assign(data=data) for data, rows in frame.groupby("data")]
    own = pd.concat(chosen).reset_index()[["data", "model", "parameters"]]
    judged = own.assign(parameters=own.parameters.map(json.dumps)).merge(table, how="left")
    return judged[judged.groupby("model").seed.transform(lambda seeds: seeds.notna().all())]


def ratios(frame):
    """Test RMSE over that of the better bias baseline, means over the seeds.

    Returns
    -------
    DataFrame with the index (model, data) and a column for the defaults, for the one choice for all sets and for each
    set's own
    """
    table = _relative(frame, "test").dropna(subset="error")
    judged = {
        "defaults": table[table.parameters == "{}"],
        "one choice for all": _chosen(table, frame),
        "the set's own choice": own_choices(frame).dropna(subset="error"),
    }
    return pd.DataFrame({name: rows.groupby(["model", "data"]).error.mean() for name, rows in judged.items()})


def _own(frame, model):
    """Those errors on the set where they are the largest."""
    errors = own_choices(frame).query("model == @model").groupby("data").error
    if not len(errors):
        return np.nan, np.nan, "of the baseline's"
    return *median(errors.get_group(errors.median().idxmax())), "of the baseline's"


def _of_baseline(frame, data, model, metric, baseline):
    """Test errors of the defaults over the least of a baseline, or gains over the greatest."""
    rows = frame[(frame.step == "test") & (frame.data == data)]
    ours = rows[(rows.model == model) & (rows.parameters == "{}")][metric]
    theirs = rows[rows.model == baseline][metric]
    if ours.empty or theirs.empty:
        return np.nan, np.nan, "of the baseline's"
    return *ratio(ours, [theirs.min() if metric == "rmse" else theirs.max()]), "of the baseline's"


FINDINGS = [
    Finding(
        f"defaults-{model.lower()}-{data}",
        "gpumf",
        None,
        f"{model}, default | {data} | 16 factors, or 128 units | test RMSE over the better of two bias baselines",
        partial(_of_baseline, data=data, model=model, metric="rmse", baseline="biases"),
        Holds(below=1.0),
        devices=("cpu",),
    )
    for data in SETS
    for model in ("ALS", "SGD", "RBM")
]
FINDINGS += [
    Finding(
        f"defaults-implicit-{metric}-{data}",
        "gpumf",
        None,
        f"ImplicitALS, default | {data} | 16 factors | test {name} over that of popularity",
        partial(_of_baseline, data=data, model="ImplicitALS", metric=metric, baseline="popularity"),
        Holds(above=1.0),
        devices=("cpu",),
    )
    for data in SETS
    for metric, name in (("precision", f"precision@{K}"), ("ndcg", f"NDCG@{K}"))
]
FINDINGS += [
    Finding(
        f"defaults-own-{model.lower().replace(' ', '-')}",
        "gpumf",
        None,
        f"{model} | four sets, worst case | chosen of a grid by the set's held-out ratings | test RMSE over the "
        "better of two bias baselines",
        partial(_own, model=model),
        Holds(below=1.0),
        devices=("cpu",),
    )
    for model in ("ALS", "SGD", "RBM", "ALS after biases")
]
