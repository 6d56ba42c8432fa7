"""`search` and what other packages have: Surprise's GridSearchCV, and scikit-learn's around the package `implicit`.

The same grids and numbers of folds, of epochs and of processes or threads; each makes folds of its own, of the same
ratings. They alternate, after searches of one setting that compile and start
what they need.
"""

import os
import time
from importlib.metadata import version
from importlib.util import find_spec

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import SGD, ImplicitALS, search
from gpumf._util import threads
from gpumf_study.experiments import load_ratings

SURPRISE, IMPLICIT, OURS = "Surprise, GridSearchCV", "implicit, scikit-learn's GridSearchCV", "gpumf, search"
_RATES, _LAMBDAS = [0.002, 0.005, 0.01, 0.02], [0.02, 0.05, 0.1, 0.2, 0.4]

PROFILES = {
    "smoke": {"data": "ml-100k-synthetic", "settings": 2, "folds": 2, "epochs": 1, "repeats": 1},
    "quick": {"data": "ml-100k", "settings": 4, "folds": 3, "epochs": 10, "repeats": 2},
    "full": {"data": "ml-100k", "settings": 20, "folds": 3, "epochs": 10, "repeats": 5},
}


def why_unavailable():
    """The packages, or None where both are installed."""
    missing = [name for name in ("surprise", "implicit", "sklearn") if find_spec(name) is None]
    return f"not installed: {', '.join(missing)}; install the extra peers" if missing else None


def run(data, settings, folds, epochs, repeats):
    """Time searches of SGD and of implicit ALS, 32 factors each.

    Return a DataFrame with a row a search: model, variant (the program), seconds, metric and its best value,
    x_winner, x_settings, x_folds, x_version (of the peer), x_load (processes at work on the machine before)
    """
    ratings = load_ratings(data)
    grids = {
        "SGD": {"learning_rate": _RATES[: -(-settings // 5)], "regularization": _LAMBDAS[:settings]},
        "ImplicitALS": {"alpha": [1.0, 4.0, 10.0, 40.0][: -(-settings // 5)], "regularization": _LAMBDAS[:settings]},
    }
    ours = {
        "SGD": (SGD(32, biases=True, device="cpu"), "rmse"),
        "ImplicitALS": (ImplicitALS(32, unobserved_weight=1.0, regularization_exponent=0.0, device="cpu"), "ndcg@10"),
    }
    peers = {"SGD": (SURPRISE, _surprise, "scikit-surprise"), "ImplicitALS": (IMPLICIT, _implicit, "implicit")}
    rows = []
    for name, (model, metric) in ours.items():
        few = {key: values[:1] for key, values in grids[name].items()}
        peer, searched, package = peers[name]
        search(model, few, ratings, 1, folds=folds, metric=metric), searched(ratings, few, 1, folds)
        for repeat in tqdm(range(repeats), desc=f"search_peers {name}", leave=False):
            for variant in (OURS, peer):
                load, started = os.getloadavg()[0], time.perf_counter()
                if variant == OURS:
                    found = search(model, grids[name], ratings, epochs, folds=folds, metric=metric)
                    best = found.best_parameters, found.best_score
                else:
                    best = searched(ratings, grids[name], epochs, folds)
                measured = {"seconds": time.perf_counter() - started, "value": best[1], "metric": metric}
                labels = {"model": name, "variant": variant, "repeat": repeat, "x_winner": str(best[0])}
                size = int(np.prod([len(values) for values in grids[name].values()]))
                labels |= {"x_settings": size, "x_folds": folds, "x_load": load}
                rows.append(labels | measured | {"x_version": None if variant == OURS else version(package)})
    frame = pd.DataFrame(rows).assign(data=ratings.name, task="search", factors=32, device="cpu")
    return frame.assign(threads=threads.count(), phase="end_to_end")


def _surprise(ratings, grid, epochs, folds):
    """(best parameters, best RMSE) of Surprise's SVD, refitted, with a process a thread."""
    from surprise import SVD, Dataset, Reader
    from surprise.model_selection import GridSearchCV

    columns = {"user": ratings.users, "item": ratings.items, "rating": ratings.values}
    data = Dataset.load_from_df(pd.DataFrame(columns), Reader(rating_scale=ratings.scale or ratings.bounds))
    tried = {"n_factors": [32], "n_epochs": [epochs], "lr_all": grid["learning_rate"]}
    tried["reg_all"] = grid["regularization"]
    found = GridSearchCV(SVD, tried, ["rmse"], cv=folds, refit=True, n_jobs=threads.count())
    found.fit(data)
    return found.best_params["rmse"], found.best_score["rmse"]


def _implicit(ratings, grid, epochs, folds):
    """(best parameters, best NDCG@10) of implicit's ALS, refitted, with a process of one thread a thread."""
    from sklearn.model_selection import GridSearchCV, KFold

    pairs = np.stack([ratings.users, ratings.items], axis=1)
    model = _estimator()(shape=(ratings.n_users, ratings.n_items), iterations=epochs)
    found = GridSearchCV(model, grid, cv=KFold(folds, shuffle=True, random_state=0), n_jobs=threads.count())
    found.fit(pairs, ratings.values)
    return found.best_params_, found.best_score_


def _estimator():
    """Make a class of estimators of scikit-learn, which learn from pairs of positions and their ratings."""
    from implicit.als import AlternatingLeastSquares
    from implicit.evaluation import ranking_metrics_at_k
    from scipy.sparse import csr_matrix
    from sklearn.base import BaseEstimator

    class Implicit(BaseEstimator):
        def __init__(self, shape=(0, 0), iterations=10, alpha=1.0, regularization=0.1):
            self.shape, self.iterations = shape, iterations
            self.alpha, self.regularization = alpha, regularization

        def _matrix(self, pairs, values):
            return csr_matrix((values, pairs.T), shape=self.shape, dtype=np.float32)

        def fit(self, pairs, values):
            self.seen_ = self._matrix(pairs, values)
            given = {"alpha": self.alpha, "regularization": self.regularization, "iterations": self.iterations}
            self.model_ = AlternatingLeastSquares(32, **given, num_threads=1, random_state=0, use_gpu=False)
            self.model_.fit(self.seen_, show_progress=False)
            return self

        def score(self, pairs, values):
            test, given = self._matrix(pairs, values), {"K": 10, "show_progress": False, "num_threads": 1}
            return ranking_metrics_at_k(self.model_, self.seen_, test, **given)["ndcg"]

    return Implicit
