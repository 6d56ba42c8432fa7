"""SGD with biases and the package Surprise on MovieLens 100K: the same folds, searches of the same size.

Every program tries as many settings, fold by fold, on the same tenth of the training ratings that is held out, trains
on all of them with the one that was best there, and is judged on the fold's test ratings once. Predictions of all are
clipped to the scale. Beside them the two that have no parameters to choose: Surprise's SVD as it comes, and biases
alone. Times are of one training at a time, after all others have ended.
"""

import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from itertools import product
from multiprocessing import get_context

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import SGD
from gpumf._util import threads
from gpumf_study import sweep
from gpumf_study.claims import Claim, above
from gpumf_study.experiments import _kept, load_ratings

OURS, SVD, SVD_PLUS_PLUS = "gpumf, SGD", "Surprise, SVD", "Surprise, SVD++"
OURS_SMALL = "gpumf, SGD, 32 factors"  # with the grid of SVD++
DEFAULTS, BIASES = "Surprise, SVD, defaults", "Surprise, biases alone"

# An epoch of SVD++ takes longer, and its factors of what a user has rated stand for some of the others.
_OF_ALL = {"factors": [128], "regularization": [0.06, 0.07, 0.08], "init_std": [0.003, 0.01]}
_OF_ALL |= {"learning_rate": [0.005], "epochs": [60, 80, 100]}
_OF_ALL_IMPLICIT = {"factors": [32], "regularization": [0.04, 0.06, 0.08], "init_std": [0.01, 0.03]}
_OF_ALL_IMPLICIT |= {"learning_rate": [0.004, 0.006, 0.01], "epochs": [50]}
PROFILES = {
    "quick": {"data": "ml-100k", "folds": 1,
              "grids": {OURS: {"factors": [16], "regularization": [0.06, 0.1], "learning_rate": [0.01],
                               "epochs": [20]},
                        SVD: {"factors": [16], "regularization": [0.06, 0.1], "learning_rate": [0.01],
                              "epochs": [20]}, DEFAULTS: {}, BIASES: {}}, "seeds": 1, "repeats": 1},
    "full": {"data": "ml-100k", "folds": 5,
             "grids": {OURS: _OF_ALL, SVD: _OF_ALL, SVD_PLUS_PLUS: _OF_ALL_IMPLICIT, OURS_SMALL: _OF_ALL_IMPLICIT,
                       DEFAULTS: {}, BIASES: {}}, "seeds": 5, "repeats": 5},
}  # fmt: skip
PROFILES["smoke"] = PROFILES["quick"] | {"data": "ml-100k-synthetic"}


def why_unavailable():
    """The package, or None where it is installed."""
    return None if find_spec("surprise") else "the package Surprise is not installed; install the extra peers"


def run(data, folds, grids, seeds, repeats):
    """Choose and judge, fold by fold, on all threads; then time each program alone.

    folds : int, how many of the five
    grids : for each program a dict of lists of its parameters, all of whose combinations are tried; empty for those
        that have no choice
    seeds : int, of the initial factors when the chosen parameters are judged
    repeats : int, timings of each program with its parameters, on the first fold

    The choice and the test of each program and fold are pieces of a recording, see `_kept.once`.

    `model` is the program. Rows are of x_step 'choice', on the held-out ratings, 'test' or 'timed'; `repeat` is the
    seed, of 'timed' the timing. Errors and seconds of the phases train and end_to_end have rows of their own.
    """
    ratings = load_ratings(data)
    sets = list(ratings.kfold(5))[:folds]
    keys, rows, chosen = list(product(grids, range(folds))), [], {}

    def judged(step, key, settings):
        name = f"{step}-{list(grids).index(key[0])}-{key[1]}"
        return _kept.once(name, partial(_all, sets, [(*key, step, *setting) for setting in settings]))

    for key in tqdm(keys, desc="peers_ml100k, choice", leave=False):
        grid, found = grids[key[0]], []
        if grid:
            found = judged("choice", key, [(0, p) for p in sweep.combinations(grid)])
        best = min(found, key=lambda row: row["rmse"], default={})
        chosen[key] = {name: best[name] for name in grid}
        rows += found
    for key in tqdm(keys, desc="peers_ml100k, test", leave=False):
        rows += judged("test", key, [(seed, chosen[key]) for seed in range(seeds)])
    for repeat in range(repeats):
        timed = [_trained(sets, (program, 0, "timed", 0, chosen[program, 0])) for program in grids]
        rows += [row | {"seed": repeat} for row in timed]
    return in_rows(pd.DataFrame(rows)).assign(data=ratings.name, task="fit", x_version=version("scikit-surprise"))


_NAMES = {"program": "model", "epochs": "epoch", "seed": "repeat"}
_NAMES |= {name: f"x_{name}" for name in ("fold", "step", "regularization", "init_std", "learning_rate")}


def in_rows(trainings):
    """Return a row for each error of each training, and for its seconds where it was timed."""
    timed = trainings[trainings.step == "timed"]
    rows = [trainings.assign(metric=name, value=trainings[name]) for name in ("rmse", "mae")]
    rows += [
        timed.assign(phase=phase, seconds=timed[name]) for name, phase in (("train", "train"), ("wall", "end_to_end"))
    ]
    return pd.concat(rows, ignore_index=True).drop(columns=["rmse", "mae", "train", "wall"]).rename(columns=_NAMES)


def _all(sets, jobs):
    """The rows of these trainings, each in a process with one thread."""
    with ProcessPoolExecutor(threads.count(), get_context("spawn"), _take, [sets]) as pool:
        return list(pool.map(_of_pool, jobs))


def _take(sets):
    """Keep the folds in a process of the pool."""
    global _sets
    _sets = sets


def _of_pool(job):
    return _trained(_sets, job)


def _trained(sets, job):
    """The row of one training: (program, fold, step, seed, parameters)."""
    program, fold, step, seed, parameters = job
    train, judge = sets[fold]
    if step == "choice":
        train, judge = train.split(0.1, seed=fold)
    train_of = _ours if program in (OURS, OURS_SMALL) else surprise_model
    predicted, seconds, wall = train_of(program, train, judge, seed, parameters)
    apart = np.clip(predicted, *train.scale) - judge.values
    errors = {"rmse": float(np.sqrt(np.mean(apart**2))), "mae": float(np.abs(apart).mean())}
    what = {"program": program, "fold": fold, "step": step, "seed": seed}
    return what | parameters | errors | {"train": seconds, "wall": wall}


def _ours(program, train, judge, seed, parameters):
    arguments = dict(parameters)
    epochs, lambda_ = arguments.pop("epochs"), arguments["regularization"]
    model = SGD(
        biases=True, clip=False, bias_regularization=lambda_, solver="ordered", device="cpu", seed=seed, **arguments
    )
    model.fit(train, epochs)
    return model.predict(judge.users, judge.items), model.times.train, model.times.end_to_end - model.times.compile


def surprise_model(program, train, judge, seed, parameters):
    """Predictions of one of Surprise's programs, seconds of its training, and of all from columns to predictions."""
    import surprise

    started = time.perf_counter()
    columns = pd.DataFrame({"user": train.users, "item": train.items, "rating": train.values})
    reader = surprise.Reader(rating_scale=tuple(map(float, train.scale)))
    trainset = surprise.Dataset.load_from_df(columns, reader).build_full_trainset()
    names = {"factors": "n_factors", "regularization": "reg_all", "learning_rate": "lr_all", "epochs": "n_epochs"}
    names |= {"init_std": "init_std_dev"}
    arguments = {names[name]: value for name, value in parameters.items()}
    if program == BIASES:
        model = surprise.BaselineOnly(verbose=False)
    elif program == SVD_PLUS_PLUS:
        model = surprise.SVDpp(random_state=seed, cache_ratings=True, **arguments)
    else:
        model = surprise.SVD(random_state=seed, **arguments)
    ready = time.perf_counter()
    model.fit(trainset)
    ended = time.perf_counter()
    predicted = [model.predict(*pair).est for pair in zip(judge.users.tolist(), judge.items.tolist(), strict=True)]
    return np.array(predicted), ended - ready, ended - started


def by_seed(frame):
    """Return the means over the folds of the test errors: model, metric, repeat, value."""
    tests = frame[(frame.x_step == "test") & frame.metric.notna()]
    return tests.groupby(["model", "metric", "repeat"], sort=False, as_index=False).value.mean()


def summary(frame):
    """Return where each program ends, by program.

    Columns are tried (settings a fold), rmse, mae (as the claims have them: means over the folds, medians over the
    seeds), rmse_spread, mae_spread (standard deviations over the seeds), train, end_to_end (seconds, medians).
    """
    seeds = by_seed(frame).groupby(["model", "metric"], sort=False).value
    medians, spreads = seeds.median().unstack(sort=False), seeds.std().unstack(sort=False)
    choices = frame[(frame.x_step == "choice") & (frame.x_fold == 0) & (frame.metric == "rmse")]
    table = medians.join(spreads.add_suffix("_spread"))
    table.insert(0, "tried", choices.groupby("model").size().reindex(table.index, fill_value=1))
    return table.join(frame[frame.phase.notna()].groupby(["model", "phase"]).seconds.median().unstack())


CLAIMS = [
    Claim(f"peers-ml100k-{measure}-{name}", "gpumf", None,
          f"Test {measure.upper()} of {peer} less that of SGD with as large a search, MovieLens 100K, five folds.",
          metric="difference",
          select={"column": "value", "where": {"metric": measure}, "over": {"model": peer}, "under": {"model": ours}},
          criterion=above(0), table=by_seed, device="cpu")
    for measure in ("rmse", "mae")
    for name, peer, ours in (("svd", SVD, OURS), ("svd-plus-plus", SVD_PLUS_PLUS, OURS_SMALL))
]  # fmt: skip
