"""When is SGD faster than ALS? The time of each to the same error, over density, ratings a row, and factors.

Source: thesis, section 6.5: ALS is faster on dense Jester, SGD on sparse Douban; section 7.1 asks when. Real and
synthetic data sets are thinned, users and items staying, and trained with more and more factors. Lambda and the
learning rate are searched for each setting with the fastest versions and a tenth of the training ratings held out:
first the best MAE of either model on these, of which the higher one and 0.5 % more is the error that both are to
reach; then the parameters with which each is there after the fewest epochs. The published versions run with the same.
A run ends where it reaches the error on the held-out ratings, and is judged by the test ratings. A setting counts if
its error is below that of user and item biases.
"""

from itertools import cycle

import numpy as np
import pandas as pd
from matplotlib.ticker import StrMethodFormatter
from tqdm import tqdm

from gpumf import ALS, SGD, backends
from gpumf._util.counter_rng import random_subset
from gpumf_study import figure_style as style
from gpumf_study import results, sweep
from gpumf_study.claims import Claim, above
from gpumf_study.experiments import load_ratings, trained
from gpumf_study.experiments._expected import SHAPE, expected, named
from gpumf_study.experiments.gpumf.defaults import damped_biases
from gpumf_study.experiments.thesis import parameter_search

SLACK = 0.005  # of the error to which both are timed

# Which versions of the two models are held against each other; the first pair is searched with. Of the 'fastest' SGD
# is whichever is faster, `fast` or Hogwild, which `summary` finds. The fastest on a CPU are those of all threads.
_HOGWILD = "hogwild", {"threads": parameter_search.SGD_THREADS}
PAIRS: dict[str, dict[str, tuple[str, dict]]] = {
    "fastest": {"ALS": ("tensor_core", {}), "SGD": ("fast", {})},
    "Hogwild": {"ALS": ("tensor_core", {}), "SGD": _HOGWILD},
    "published": {"ALS": ("thesis_shared", {}), "SGD": _HOGWILD},
}
_ON_CPU = {"fastest": {"ALS": ("parallel", {}), "SGD": ("parallel", {})}}

PROFILES = {
    "quick": {"data": {"ml-100k-synthetic": [1, 0.1]}, "factors": [8, 32], "regularization": [0.05, 0.15],
              "learning_rate": [0.02], "epochs": {"ALS": 4, "SGD": 12}, "repeats": 1},
    "full": {"data": {"jester-1": [1, 0.3, 0.1, 0.03], "ml-100k": [1, 0.3, 0.1],
                      "ml-1m-synthetic": [1, 0.3, 0.1, 0.03], "douban-synthetic": [1, 0.1]},
             "factors": [8, 16, 32, 64, 128], "regularization": [0.02, 0.05, 0.12, 0.25, 0.5, 1.0],
             "learning_rate": [0.01, 0.04], "epochs": {"ALS": 20, "SGD": 100}, "repeats": 3},
}  # fmt: skip
PROFILES["smoke"] = PROFILES["quick"] | {
    "data": {"ml-100k-synthetic": [0.1]}, "factors": [8], "regularization": [0.1], "epochs": {"ALS": 2, "SGD": 2},
}  # fmt: skip


def run(data, factors, regularization, learning_rate, epochs, repeats):
    """Train both models on every part of every set.

    data : dict, name of a data set -> list of float in (0, 1], the shares of its ratings
    factors : list of int; those that the thesis's ALS takes, of the published versions
    regularization, learning_rate : lists of float, among which the best are searched
    repeats : int, timed runs with the best parameters, all with the same training set, initial factors of seed k

    Return a DataFrame with a row a timed run: variant (the pair), epoch and seconds until the level (missing where it
    is not reached), the MAE on the test set at the end of the run, x_share, x_n_users, x_n_items, x_nnz and x_density
    (of the training set), x_level (the MAE to reach on held-out ratings)
    """
    pairs = PAIRS if backends.available() else _ON_CPU
    grids = {
        ALS: [{"regularization": r} for r in regularization],
        SGD: [{"regularization": r, "learning_rate": m} for r in regularization for m in learning_rate],
    }
    rows = []
    for name, shares in data.items():
        ratings = load_ratings(name)
        for share, train, held_out, test in parts(ratings, shares):
            of_part = {"data": ratings.name, "task": "fit", "phase": "train", "metric": "mae", "x_share": share}
            of_part |= {"x_n_users": train.n_users, "x_n_items": train.n_items, "x_nnz": train.nnz}
            of_part |= {"x_density": train.density}
            for f in tqdm(factors, desc=f"crossover {ratings.name}, {share:g}", leave=False):

                def fit(model, versions, parameters, seed, level=-np.inf, train=train, held_out=held_out, f=f):
                    kernel, options = versions[model.__name__]
                    fitted = model(f, biases=False, clip=False, solver=kernel, seed=seed, **options, **parameters)
                    too_late = parameter_search.OverfittingStop()

                    def stop(row):
                        return too_late(row) or (row["epoch"] > 0 and row["mae"] <= level)

                    return trained(fitted, train, epochs[model.__name__], held_out, stop=stop)

                fastest = pairs["fastest"]
                searched = {m: [(fit(m, fastest, p, 0).history, p) for p in grid] for m, grid in grids.items()}
                least = [min(parameter_search.best_epoch(h).mae for h, _ in runs) for runs in searched.values()]
                level = (1 + SLACK) * max(least)
                for model, runs in searched.items():
                    _, parameters = min(runs, key=lambda run, level=level: _fastest(run[0], level))
                    for pair, versions in pairs.items():
                        if f > model.solver_classes()[versions[model.__name__][0]].max_factors:
                            continue
                        for repeat in range(repeats):
                            fitted = fit(model, versions, parameters, repeat, level)
                            n_epochs, seconds = _reached(fitted.history, level)
                            what = {"variant": pair, "model": model.__name__, "solver": fitted.solver}
                            what |= {"device": fitted.device, "factors": f, "repeat": repeat, "x_level": level}
                            what |= {f"x_{key}": value for key, value in parameters.items()}
                            what |= {"epoch": n_epochs, "seconds": seconds if np.isfinite(seconds) else np.nan}
                            rows.append(of_part | what | {"value": fitted.score(test)["mae"]})
    return pd.DataFrame(rows)


def parts(ratings, shares):
    """Yield of each share the training ratings, those held out of them, and the test ratings."""
    train, test = ratings.split(0.2)
    whole, held_out = train.split(0.1)
    for share in shares:
        part = whole.select(random_subset(whole.nnz, round(share * whole.nnz), 0)) if share < 1 else whole
        yield share, part, held_out, test


def counting(frame):
    """Return the rows whose error to reach is below that of user and item biases, as `crossover_biases` has it."""
    frame = _with_biases(frame)
    return frame[frame.x_level < frame.x_biases_mae]


def reached_by_biases(frame):
    """Return the settings whose error user and item biases reach, a set of (data, density, factors)."""
    frame = _with_biases(frame)
    rows = frame[frame.x_level >= frame.x_biases_mae]
    return set(zip(rows.data, rows.x_density, rows.factors, strict=True))


def _with_biases(frame):
    """The frame with x_biases_mae, which is missing where `crossover_biases` has no such part of a data set."""
    if "x_biases_mae" in frame:
        return frame
    stored = results.recorded("crossover_biases", "cpu")
    if stored is None:
        return frame.assign(x_biases_mae=np.nan)
    biases = stored.frame.rename(columns={"value": "x_biases_mae"})[["data", "x_nnz", "x_biases_mae"]]
    return frame.merge(biases, on=["data", "x_nnz"], how="left")


def biases_mae(train, held_out):
    """Return the MAE of user and item biases on held-out ratings."""
    of_user, of_item = damped_biases(train)
    predicted = train.mean + of_user[held_out.users] + of_item[held_out.items]
    return float(np.abs(held_out.values - predicted).mean())


def _reached(history, level):
    """(epochs, seconds) until the MAE on held-out ratings is at this level; (NaN, infinity) where it never is."""
    reached = history[(history.epoch > 0) & (history.mae <= level)]
    return tuple(reached[["epoch", "seconds"]].iloc[0]) if len(reached) else (np.nan, np.inf)


def _fastest(history, level):
    """What orders runs of one version: epochs until the level, whose seconds are alike; then the least MAE."""
    n_epochs, _ = _reached(history, level)
    return np.inf if np.isnan(n_epochs) else n_epochs, parameter_search.best_epoch(history).mae


def summary(frame):
    """Which model is faster to the same error, from the frame of `run`.

    Return a DataFrame with a row a part of a data set, number of factors and pair of versions: data, density,
    row_ratings (x_nnz over users and items together), variant, factors, als and sgd (seconds to the same error,
    medians over the repeats; missing where one did not reach it), ratio (sgd over als, above 1 where ALS is faster)
    """
    row_ratings = frame.x_nnz / (frame.x_n_users + frame.x_n_items)
    pair = frame.variant.replace("Hogwild", "fastest")
    runs = frame.assign(row_ratings=row_ratings, density=frame.x_density, variant=pair)
    keys = ["data", "density", "row_ratings", "variant", "factors"]
    groups = runs.groupby([*keys, "model", "solver"], sort=False)
    versions = groups.agg(seconds=("seconds", lambda s: s.median(skipna=False)))
    fastest = versions.reset_index().sort_values("seconds", kind="stable").drop_duplicates([*keys, "model"])
    table = fastest.set_index([*keys, "model"]).seconds.unstack("model").rename(columns=str.lower)
    table = table.assign(ratio=table.sgd / table.als)
    return table.reset_index().sort_values(["variant", "data", "density", "factors"], ignore_index=True)


def shares(frame):
    """Return the share of the real settings that count in which SGD is faster, a data set a repeat: x_share_sgd."""
    table = _counting(frame)
    found = (table.ratio < 1).groupby(table.data).mean().rename("x_share_sgd").reset_index()
    return found.rename_axis("repeat").reset_index()


def told(frame):
    """Return what a line fitted to the other data sets tells rightly of each, a data set a repeat: x_gain.

    The line parts the logarithms of the ratings of a row and of the factors; x_gain is its accuracy less that of
    always naming the model that is faster in most settings of all data sets.
    """
    table = _counting(frame)
    x = np.column_stack([np.ones(len(table)), np.log(table.row_ratings), np.log(table.factors)])
    sgd, data = (table.ratio < 1).to_numpy(), table.data.to_numpy()
    gains = []
    for name in np.unique(data) if len(np.unique(data)) > 1 else []:
        rest = data != name
        right = (x[~rest] @ _logistic(x[rest], sgd[rest]) > 0) == sgd[~rest]
        gains.append(right.mean() - ((sgd.mean() > 0.5) == sgd[~rest]).mean())
    return pd.DataFrame({"repeat": range(len(gains)), "x_gain": gains})


def judged(frame, left_out=True):
    """Return what the fitted times of `gpumf.suggest` name, see `_expected.named`, in the settings that count."""
    settings = counting(frame)[["data", *SHAPE]].drop_duplicates()
    return named(frame, left_out).merge(settings)


def named_gain(frame):
    """Return by how much what is `judged` on real data is more often right than the model that mostly is: x_gain."""
    table = sweep.real_data(judged(frame))
    right, most = table.named == table.faster, table.faster == table.faster.mode().iloc[0] if len(table) else None
    gains = (right.astype(float) - most).groupby(table.data, sort=False).mean() if len(table) else []
    return pd.DataFrame({"repeat": range(len(gains)), "x_gain": list(gains)})


def expected_factor(frame):
    """Return the median factor between expected and measured seconds, a data set a repeat: x_factor."""
    table = expected(frame)
    factors = np.log(table.expected / table.seconds).abs().groupby(table.data, sort=False).median()
    return pd.DataFrame({"repeat": range(len(factors)), "x_factor": np.exp(factors.to_numpy())}).dropna()


def _counting(frame):
    """The real settings of the fastest versions whose error is below that of user and item biases."""
    frame = sweep.real_data(counting(frame))
    table = summary(frame) if len(frame) else pd.DataFrame(columns=["data", "variant", "ratio", *_PLACE])
    return table[(table.variant == "fastest") & table.ratio.notna()]


_PLACE = ["row_ratings", "factors"]


def _logistic(x, y, decay=0.01, steps=50):
    """Weights of a logistic regression, by Newton's method, with a little decay for what a line parts wholly."""
    weights = np.zeros(x.shape[1])
    for _ in range(steps):
        p = 1 / (1 + np.exp(-np.clip(x @ weights, -30, 30)))
        hessian = (x.T * (p * (1 - p))) @ x + decay * np.eye(len(weights))
        weights = weights + np.linalg.solve(hessian, x.T @ (y - p) - decay * weights)
    return weights


def figure(frame):
    """Which of ALS and SGD is faster to the same error, against the ratings of a row and the factors.

    A mark is a part of a data set; purple ones have SGD faster, green ones ALS, by the factor that stands beside it.
    Gray ones do not count, see `reached_by_biases`.
    """
    table, idle = summary(frame).dropna(subset="ratio"), reached_by_biases(frame)
    pairs = [pair for pair in PAIRS if pair in set(table.variant)]
    names = table.data.unique()
    markers = dict(zip(names, "osD^v"[: len(names)], strict=True))
    # Sets whose marks come close have their numbers on different sides.
    sides = dict(zip(names, cycle((9, -15))))
    figure, (axes,) = style.panels(columns=len(pairs), height=4.8, sharey=True)
    for axis, pair in zip(axes, pairs, strict=True):
        rows = table[table.variant == pair]
        for row in rows.itertuples():
            if (row.data, row.density, row.factors) in idle:
                axis.plot(row.row_ratings, row.factors, markers[row.data], markersize=6, color="0.8")
                continue
            colour = style.COLOURS["green" if row.ratio > 1 else "purple"]
            strength = min(0.25 + abs(np.log10(row.ratio)) / 1.5, 1)
            by, place = max(row.ratio, 1 / row.ratio), (row.row_ratings, row.factors)
            # The edge keeps its colour, so that what is nearly even can be told from the rest.
            faces = {"markerfacecolor": (colour, strength), "markeredgecolor": colour}
            axis.plot(*place, markers[row.data], markersize=8, **faces)
            beside = {"textcoords": "offset points", "ha": "center", "size": style.SMALL}
            axis.annotate(style.significant(by, 2), place, (0, sides[row.data]), **beside)
        axis.set(xlabel="ratings of a user or item", ylabel="factors", title=f"{pair} versions")
        axis.set_yscale("log", base=2)
        axis.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axis.margins(0.12)
        style.log_scale(axis.xaxis)
    for name, marker in markers.items():
        axes[0].plot([], [], marker, color="0.6", label=style.data_name(name), markersize=8)
    axes[0].plot([], [], "s", color=style.COLOURS["green"], label="ALS faster", markersize=8)
    counted = [key not in idle for key in zip(table.data, table.density, table.factors, strict=True)]
    if (table.ratio[counted] < 1).any():
        axes[0].plot([], [], "s", color=style.COLOURS["purple"], label="SGD faster", markersize=8)
    axes[0].plot([], [], "s", color="0.8", label="not counted: biases alone reach the error", markersize=6)
    style.legend(figure, axes[0], 2)
    return figure


def _claim(name, publication, section, statement, column, table, criterion=None, **select):
    metric, select = "median", {"column": column} | select
    return Claim(name, publication, section, statement, None, metric, select, criterion, "real", table)


_SPARSEST = PROFILES["full"]["data"]["jester-1"][-1]
CLAIMS = [
    _claim("thesis-sgd-or-als", "thesis", "Section 7.1",
           "Share of the settings in which SGD is faster than ALS to the same error; median of data sets.",
           "x_share_sgd", shares),
    _claim("thesis-sgd-or-als-boundary", "thesis", "Section 7.1",
           "Accuracy of predicting which of ALS and SGD is faster by ratings per user or item and factors, on data "
           "sets left out, minus the majority baseline.", "x_gain", told),
    Claim("thesis-sgd-sparser", "thesis", "Section 7.2",
          f"Speed-up of SGD over ALS to the same error with {100 * _SPARSEST:g} % of the ratings of Jester part 1, "
          "published versions, 16 factors; biases alone reach that error.",
          metric="ratio", select={"column": "seconds",
                                  "where": {"data": "jester-1", "x_share": _SPARSEST, "variant": "published",
                                            "factors": 16},
                                  "over": {"model": "ALS"}, "under": {"model": "SGD"}}),
    _claim("suggest-faster", "gpumf", None,
           "Accuracy of suggest in predicting which of ALS and SGD is faster, on data sets left out, minus the "
           "majority baseline.", "x_gain", named_gain, above(0)),
    _claim("suggest-seconds", "gpumf", None,
           "Factor between the seconds that suggest expects and measured ones, on data sets left out, two of them "
           "synthetic.",
           "x_factor", expected_factor, times=0),  # a ratio: its interval is that of the logarithm
]  # fmt: skip
