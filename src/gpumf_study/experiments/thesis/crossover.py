"""When does SGD beat ALS? The time of each to the same error, over density, ratings of a row, and factors.

The thesis (section 6.5) finds ALS the faster one on dense Jester and SGD on sparse Douban, and leaves open (section
7.1) when which is better. Here real and synthetic sets are thinned, users and items staying, and trained with more
and more factors. What suits a dense set does not suit a sparse one (`sparsity`), so that lambda and the learning
rate are searched for each of them, with the fastest versions and a tenth of the training ratings held out: first the
best MAE of either model on these, of which the higher one and 0.5 % more is the error that both are to reach; then
the parameters with which each is there after the fewest epochs. The published versions run with the same. A run ends
where it reaches the error on the held-out ratings, and is judged by the test ratings.
"""

from itertools import cycle

import numpy as np
import pandas as pd
from matplotlib.ticker import StrMethodFormatter
from tqdm import tqdm

from gpumf import ALS, SGD, backends
from gpumf._util.counter_rng import random_subset
from gpumf_study import figure_style as style
from gpumf_study.experiments import identity, load_ratings, trained
from gpumf_study.experiments._expected import expected, named
from gpumf_study.experiments.thesis import parameter_search
from gpumf_study.findings import Finding, Holds, Open, Target

SLACK = 0.005  # of the error to which both are timed

# Which versions of the two models are held against each other; the first pair is searched with. Of the 'fastest' SGD
# is whichever is sooner, `fast` or Hogwild, which `summary` finds. The fastest on a CPU are those of all cores.
_HOGWILD = "hogwild", {"threads": parameter_search.SGD_THREADS}
PAIRS = {
    "fastest": {"ALS": ("tensor_core", {}), "SGD": ("fast", {})},
    "Hogwild": {"ALS": ("tensor_core", {}), "SGD": _HOGWILD},
    "published": {"ALS": ("thesis_shared", {}), "SGD": _HOGWILD},
}
_ON_CPU = {"fastest": {"ALS": ("parallel", {}), "SGD": ("parallel", {})}}

PROFILES = {
    "quick": {
        "data": {"ml-100k-synthetic": [1, 0.1]},
        "factors": [8, 32],
        "regularization": [0.05, 0.15],
        "learning_rate": [0.02],
        "epochs": {"ALS": 4, "SGD": 12},
        "repeats": 1,
    },
    "full": {
        "data": {
            "jester-1": [1, 0.3, 0.1, 0.03],
            "ml-100k": [1, 0.3, 0.1],
            "ml-1m-synthetic": [1, 0.3, 0.1, 0.03],
            "douban-synthetic": [1, 0.1],
        },
        "factors": [8, 16, 32, 64, 128],
        "regularization": [0.02, 0.05, 0.12, 0.25, 0.5, 1.0],
        "learning_rate": [0.01, 0.04],
        "epochs": {"ALS": 20, "SGD": 100},
        "repeats": 3,
    },
}
PROFILES["smoke"] = PROFILES["quick"] | {
    "data": {"ml-100k-synthetic": [0.1]},
    "factors": [8],
    "regularization": [0.1],
    "epochs": {"ALS": 2, "SGD": 2},
}


def run(data, factors, regularization, learning_rate, epochs, repeats):
    """Train both models on every part of every set.

    Parameters
    ----------
    data : dict, name of a data set -> list of float in (0, 1], the shares of its ratings
    factors : list of int; those that the thesis's ALS takes, of the published versions
    regularization, learning_rate : lists of float, among which the best are searched
    epochs : dict, model -> int, at the most
    repeats : int, timed runs with the best parameters, all with the same training set, initial factors of seed k

    Returns
    -------
    DataFrame with a row a timed run: data, share, n_users, n_items, nnz and density (of the training set), pair,
    model, kernel, device, factors, regularization, learning_rate (missing for ALS), repeat, level (the MAE to reach
    on held-out ratings), epochs and seconds (of training alone, until then; missing where it is not reached), mae (on
    the test set, at the end of the run)
    """
    pairs = PAIRS if backends.available() else _ON_CPU
    grids = {
        ALS: [{"regularization": r} for r in regularization],
        SGD: [{"regularization": r, "learning_rate": m} for r in regularization for m in learning_rate],
    }
    rows, identities = [], []
    for name, shares in data.items():
        ratings = load_ratings(name)
        identities.append(identity(ratings))
        train, test = ratings.split(0.2)
        whole, held_out = train.split(0.1)
        for share in shares:
            train = whole.select(random_subset(whole.nnz, round(share * whole.nnz), 0)) if share < 1 else whole
            of_part = {"data": ratings.name, "share": share, "n_users": train.n_users, "n_items": train.n_items}
            of_part |= {"nnz": train.nnz, "density": train.density}
            for f in tqdm(factors, desc=f"crossover {ratings.name}, {share:g}", leave=False):

                def fit(model, versions, parameters, seed, level=-np.inf, train=train, held_out=held_out, f=f):
                    kernel, options = versions[model.__name__]
                    fitted = model(f, biases=False, clip=False, solver=kernel, seed=seed, **options, **parameters)
                    too_late = parameter_search.OverfittingStop()

                    def stop(row):
                        return too_late(row) or (row["epoch"] > 0 and row["mae"] <= level)

                    return trained(fitted, train, epochs[model.__name__], held_out, stop=stop)

                searched = {
                    model: [(fit(model, pairs["fastest"], p, 0).history, p) for p in grid]
                    for model, grid in grids.items()
                }
                level = (1 + SLACK) * max(
                    min(parameter_search.best_epoch(history).mae for history, _ in runs) for runs in searched.values()
                )
                for model, runs in searched.items():
                    _, parameters = min(runs, key=lambda run, level=level: _soonest(run[0], level))
                    for pair, versions in pairs.items():
                        if f > model.solver_classes()[versions[model.__name__][0]].max_factors:
                            continue
                        for repeat in range(repeats):
                            fitted = fit(model, versions, parameters, repeat, level)
                            n_epochs, seconds = _reached(fitted.history, level)
                            what = {"pair": pair, "model": model.__name__, "kernel": fitted.solver}
                            what |= {"device": fitted.device, "factors": f, "learning_rate": np.nan, **parameters}
                            what |= {"repeat": repeat, "level": level, "epochs": n_epochs}
                            what |= {"seconds": seconds if np.isfinite(seconds) else np.nan}
                            rows.append(of_part | what | {"mae": fitted.score(test)["mae"]})
    frame = pd.DataFrame(rows)
    frame.attrs["datasets"] = identities
    return frame


def _reached(history, level):
    """(epochs, seconds) until the MAE on held-out ratings is at this level; (NaN, infinity) where it never is."""
    reached = history[(history.epoch > 0) & (history.mae <= level)]
    return tuple(reached[["epoch", "seconds"]].iloc[0]) if len(reached) else (np.nan, np.inf)


def _soonest(history, level):
    """What orders runs of one version: epochs until the level, whose seconds are alike; then the least MAE."""
    n_epochs, _ = _reached(history, level)
    return np.inf if np.isnan(n_epochs) else n_epochs, parameter_search.best_epoch(history).mae


def summary(frame):
    """Which model is sooner at the same error, from the frame of `run`.

    Returns
    -------
    DataFrame with a row a part of a set, number of factors and pair of versions: data, density, row_ratings (nnz
    over n_users + n_items, the ratings of a row of either side), nnz, pair, factors, als and sgd (seconds to the
    same error, medians over the repeats; missing where one did not reach it), ratio (sgd over als, above 1 where ALS
    is sooner), als_mae and sgd_mae (means over the repeats)
    """
    row_ratings = frame.nnz / (frame.n_users + frame.n_items)
    keys = ["data", "density", "row_ratings", "nnz", "pair", "factors"]
    runs = frame.assign(row_ratings=row_ratings, pair=frame.pair.replace("Hogwild", "fastest"))
    groups = runs.groupby([*keys, "model", "kernel"], sort=False)
    versions = groups.agg(seconds=("seconds", lambda s: s.median(skipna=False)), mae=("mae", "mean")).reset_index()
    soonest = versions.sort_values("seconds", kind="stable").drop_duplicates([*keys, "model"])
    wide = soonest.set_index([*keys, "model"])[["seconds", "mae"]].unstack("model")
    table = pd.DataFrame(
        {
            "als": wide["seconds", "ALS"],
            "sgd": wide["seconds", "SGD"],
            "ratio": wide["seconds", "SGD"] / wide["seconds", "ALS"],
            "als_mae": wide["mae", "ALS"],
            "sgd_mae": wide["mae", "SGD"],
        }
    )
    return table.reset_index().sort_values(["pair", "data", "density", "factors"], ignore_index=True)


def crossings(frame, pair):
    """The factors from which on SGD is sooner, on each part of each set, from the frame of `run`.

    Returns
    -------
    DataFrame with a row a part of a set: data, density, row_ratings, factors (the fewest from which on SGD is sooner
    with all more that were measured; missing where ALS is with the most)
    """
    table = summary(frame)
    rows = []
    for key, part in table[table.pair == pair].groupby(["data", "density", "row_ratings"], sort=False):
        from_most = part.sort_values("factors", ascending=False)
        of_sgd = from_most[(from_most.ratio < 1).cummin()]
        rows.append((*key, of_sgd.factors.min() if len(of_sgd) else np.nan))
    return pd.DataFrame(rows, columns=["data", "density", "row_ratings", "factors"])


def boundary(frame, pair="fastest"):
    """The line, in the logarithms of the ratings of a row and of the factors, that parts ALS's settings from SGD's.

    Returns
    -------
    (weights, accuracy, majority) : of 1, ln(row_ratings) and ln(factors), SGD being sooner where their sum is above
    zero; the share of the settings told rightly by a line fitted to the other data sets alone; and by always naming
    the model that is sooner in most of those
    """
    table = summary(frame)
    table = table[table.pair == pair].dropna(subset="ratio")
    x = np.column_stack([np.ones(len(table)), np.log(table.row_ratings), np.log(table.factors)])
    sgd, data = (table.ratio < 1).to_numpy(), table.data.to_numpy()
    told, majority = [], []
    for name in np.unique(data) if len(np.unique(data)) > 1 else []:
        rest = data != name
        told += list((x[~rest] @ _logistic(x[rest], sgd[rest]) > 0) == sgd[~rest])
        majority += list((sgd[rest].mean() > 0.5) == sgd[~rest])
    means = (float(np.mean(shares)) if shares else np.nan for shares in (told, majority))
    return _logistic(x, sgd), *means


def _logistic(x, y, decay=0.01, steps=50):
    """Weights of a logistic regression, by Newton's method, with a little decay for what a line parts wholly."""
    weights = np.zeros(x.shape[1])
    for _ in range(steps):
        p = 1 / (1 + np.exp(-np.clip(x @ weights, -30, 30)))
        hessian = (x.T * (p * (1 - p))) @ x + decay * np.eye(len(weights))
        weights = weights + np.linalg.solve(hessian, x.T @ (y - p) - decay * weights)
    return weights


def figure(frame):
    """Which of ALS and SGD is sooner at the same error, against the ratings of a row and the factors.

    A mark is a part of a data set; purple ones have SGD sooner, green ones ALS, by the factor that stands beside it.
    """
    table = summary(frame).dropna(subset="ratio")
    pairs = [pair for pair in PAIRS if pair in set(table.pair)]
    names = table.data.unique()
    markers = dict(zip(names, "osD^v"[: len(names)], strict=True))
    # Sets whose marks come close have their numbers on different sides.
    sides = dict(zip(names, cycle((9, -15))))
    figure, (axes,) = style.panels(columns=len(pairs), height=4.6, sharey=True)
    for axis, pair in zip(axes, pairs, strict=True):
        rows = table[table.pair == pair]
        for row in rows.itertuples():
            colour = style.COLOURS["green" if row.ratio > 1 else "purple"]
            strength = min(0.25 + abs(np.log10(row.ratio)) / 1.5, 1)
            by, place = max(row.ratio, 1 / row.ratio), (row.row_ratings, row.factors)
            # The edge keeps its colour, so that what is nearly even can be told from the rest.
            faces = {"markerfacecolor": (colour, strength), "markeredgecolor": colour}
            axis.plot(*place, markers[row.data], markersize=8, **faces)
            label = f"{by:.{0 if by > 10 else 1}f}"
            axis.annotate(label, place, (0, sides[row.data]), textcoords="offset points", ha="center", size=7)
        axis.set(xlabel="ratings of a row", ylabel="factors", title=f"{pair} versions")
        axis.set_yscale("log", base=2)
        axis.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axis.margins(0.12)
        style.log_scale(axis.xaxis)
    for name, marker in markers.items():
        axes[0].plot([], [], marker, color="0.6", label=name, markersize=8)
    axes[0].plot([], [], "s", color=style.COLOURS["green"], label="ALS sooner", markersize=8)
    axes[0].plot([], [], "s", color=style.COLOURS["purple"], label="SGD sooner", markersize=8)
    style.legend(figure, axes[0], 3)
    return figure


def _sooner(frame):
    ratio = summary(frame).query("pair == 'fastest'").ratio.dropna()
    return (ratio < 1).mean(), np.nan, "of the settings"


def _told(frame):
    """What the fitted boundary tells rightly of sets that it has not seen, beyond the more frequent answer."""
    _, accuracy, majority = boundary(frame)
    return accuracy - majority, np.nan, "of the settings"


def _named(frame):
    """What fitted times tell rightly of sets that they have not seen, beyond the more frequent answer."""
    table = named(frame)
    return ((table.named == table.sooner).mean() - (table.mostly == table.sooner).mean()), np.nan, "of the settings"


def _typical_factor(frame):
    """The median over settings and versions of the factor between expected and measured seconds."""
    table = expected(frame)
    return np.exp(np.log(table.expected / table.seconds).abs().median()), np.nan, "x"


FINDINGS = [
    Finding(
        "thesis-sgd-or-als-boundary",
        "thesis",
        "Section 7.1",
        "The ratings of a row and the factors say which of ALS and SGD is sooner: what a line fitted to other data "
        "sets tells rightly, beyond always naming the one that mostly is in these other sets.",
        _told,
        Holds(above=0, margin=0.05),
    ),
    Finding(
        "thesis-sgd-or-als",
        "thesis",
        "Section 7.1",
        "When is SGD better than ALS? The share of the settings in which the sooner of `fast` and Hogwild is "
        "sooner at the same error than `tensor_core`, over density, ratings of a row, and factors.",
        _sooner,
        Open(),
    ),
    Finding(
        "suggest-sooner",
        "gpumf",
        None,
        "suggest | data sets left out of its fit | 8 to 128 factors | the sooner of ALS and SGD told rightly, beyond "
        "always naming the one that mostly is in the others",
        _named,
        Holds(above=0, margin=0.05),
    ),
    Finding(
        "suggest-seconds",
        "gpumf",
        None,
        "suggest | data sets left out of its fit | 8 to 128 factors | factor between expected and measured seconds, "
        "the median",
        _typical_factor,
        Target(2.0, stretch=1.5),
    ),
]
