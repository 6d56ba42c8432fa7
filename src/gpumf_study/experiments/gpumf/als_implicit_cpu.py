"""Without a GPU: ALS by conjugate gradient on the CPU, beside the package `implicit` in the same run.

An iteration of each at a time, so that what slows the machine down slows all of them: the same ratings, confidences,
lambda, steps of conjugate gradient, initial factors and number of threads. The package gets its BLAS on one thread,
as it asks for. Rankings are those of whole fits, each from its own initial factors, by the same metrics.
"""

import os
import time
from importlib.metadata import version
from importlib.util import find_spec

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import ALS, ImplicitALS
from gpumf._util import threads
from gpumf_study.claims import Claim, above
from gpumf_study.experiments import load_ratings

STEPS = 3  # the package's default
EXPLICIT = 0.1  # lambda of ALS
HU = {"unobserved_weight": 1.0, "regularization_exponent": 0.0}  # the objective that `implicit` has
OURS, PEER, POPULAR = ("ImplicitALS", "parallel_cg"), "implicit", "popularity"
EXACT, CG = ("ALS", "parallel"), ("ALS", "parallel_cg")

PROFILES = {
    "quick": {"factors": [16, 64], "exact": 32, "seeds": 3, "iterations": 10},
    "full": {"factors": [16, 32, 64, 128, 256], "exact": 64, "seeds": 5, "iterations": 15},
}
# alpha as `defaults` chose it. With lambda 0.1, the default, lists by 256 factors are worse than those of popularity;
# of 0.1, 1, 10, 30 and 100 a tenth of the training ratings that is held out takes 30, whatever the factors.
_COMMON = {"data": "ml-100k", "k": 10, "alpha": 1.0, "regularization": 30.0}
PROFILES = {name: _COMMON | profile for name, profile in PROFILES.items()}
PROFILES["smoke"] = PROFILES["quick"] | {"data": "ml-100k-synthetic", "factors": [8], "seeds": 2, "iterations": 2}


def why_unavailable():
    """The package, or None where it is installed."""
    return None if find_spec("implicit") else "the package implicit is not installed; install the extra peers"


def run(data, factors, exact, seeds, iterations, k, alpha, regularization):
    """Time iterations and fits, and rank.

    exact : int, the most factors with which ALS is solved exactly too
    seeds : int, of initial factors
    iterations : int, of each fit, and as many that are timed one by one
    k : int, length of the lists
    alpha, regularization : of implicit feedback, ours and the package's

    Return a DataFrame with a row an 'iteration' (seconds of training), a 'fit' (end to end), and a metric on the test
    set of the task 'rank'; x_default, whether the solver is what the class chooses, x_load (of the machine,
    processes)
    """
    ratings = load_ratings(data)
    train, test = ratings.split(0.2)
    rows = _quality({"model": POPULAR}, _rank(train, test, k, *popularity(train)))
    for seed in range(seeds):
        for f in tqdm(factors, desc=f"als_implicit_cpu, seed {seed}", leave=False):
            shared, explicit = {"device": "cpu", "seed": seed}, {"biases": False, "clip": False}
            models = {OURS: ImplicitALS(f, regularization, alpha=alpha, **HU, solver="parallel_cg", **shared)}
            for name in (CG, EXACT) if f <= exact else (CG,):
                models[name] = ALS(f, EXPLICIT, solver=name[1], **shared, **explicit)
            models = {name: _with_steps(model) for name, model in models.items()}
            measured = _iterations(models, train, iterations) + _fits(models, train, test, iterations, k)
            chosen = _defaults(f, train)
            for row in measured:
                default = (row["model"], row.get("solver")) in chosen
                rows.append(row | {"factors": f, "repeat": seed, "x_default": int(default)})
    frame = pd.DataFrame(rows).assign(data=ratings.name, device="cpu", x_nnz=train.nnz, threads=threads.count())
    return frame.assign(x_peer=f"implicit {version('implicit')}")


def _defaults(factors, train):
    """Those of the models that are timed which the classes choose by themselves."""
    implicit = ImplicitALS(factors, 0.1, **HU, device="cpu")
    explicit = ALS(factors, device="cpu", biases=False, clip=False)
    return {("ImplicitALS", implicit.choose(train)), ("ALS", explicit.choose(train))}


def _with_steps(model):
    """The model with exactly as many steps as the package makes."""
    model.cg_steps, model.cg_tolerance = STEPS, 0.0
    return model


def _labels(name):
    return {"model": PEER} if name == PEER else dict(zip(("model", "solver"), name, strict=True))


def _timed(labels, task, phase, seconds, **more):
    return labels | {"task": task, "phase": phase, "seconds": seconds, "x_load": os.getloadavg()[0]} | more


def _quality(labels, metrics):
    return [labels | {"task": "rank", "metric": name, "value": value} for name, value in metrics.items()]


def _peer(ours, iterations):
    """The package's model of the same parameters."""
    from implicit.cpu.als import AlternatingLeastSquares

    options = {"iterations": iterations, "num_threads": threads.count(), "random_state": ours.seed}
    options |= {"alpha": 1.0}  # its ratings are the confidences themselves
    peer = AlternatingLeastSquares(ours.factors, ours.regularization, **options)
    peer.cg_steps = STEPS
    return peer


def confidences(train, alpha):
    """1 + alpha r of the rated pairs, users x items."""
    from scipy.sparse import csr_matrix

    values = np.float32(1) + np.float32(alpha) * train.values
    return csr_matrix((values, (train.users, train.items)), (train.n_users, train.n_items))


def _one_thread_of_blas():
    import implicit.cpu.als  # noqa: F401 - loads the libraries that are to be limited
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1, "blas")


def _iterations(models, train, n):
    """Rows of n iterations of each, one after another."""
    ours, rows = models[OURS], []
    by_user = confidences(train, ours.alpha)
    by_item = by_user.T.tocsr()
    users, items = ours.initial_factors(train)

    with _one_thread_of_blas():
        peer = _peer(ours, n)

        def of_peer(_):
            for ratings, solved, fixed in ((by_user, users, items), (by_item, items, users)):
                peer.solver(ratings, solved, fixed, ours.regularization, num_threads=threads.count())

        work = {name: model.make_solver(train).epoch for name, model in models.items()} | {PEER: of_peer}
        for number in range(n):
            for name, epoch in work.items():
                started = time.perf_counter()
                epoch(number)
                seconds = time.perf_counter() - started
                rows.append(_timed(_labels(name), "iteration", "train", seconds, x_iteration=number))
    return rows


def _fits(models, train, test, iterations, k):
    """Rows of one fit of each, from the columns of the ratings on."""
    rows = []
    for name, model in models.items():
        model.fit(train.select(np.arange(train.nnz)), iterations)  # without the orders that are made by now
        rows.append(_timed(_labels(name), "fit", "end_to_end", model.times.end_to_end))
        quality = _kept(model.evaluate_ranking(test, k)) | {"rmse": model.score(test)["rmse"]}
        rows += _quality(_labels(name), quality)
    with _one_thread_of_blas():
        peer = _peer(models[OURS], iterations)
        started = time.perf_counter()
        peer.fit(confidences(train, models[OURS].alpha), show_progress=False)
        seconds = time.perf_counter() - started
    rows.append(_timed({"model": PEER}, "fit", "end_to_end", seconds))
    return rows + _quality({"model": PEER}, _rank(train, test, k, peer.user_factors, peer.item_factors))


def _rank(train, test, k, user_factors, item_factors):
    """The metrics of these factors, by the same code for all."""
    model = ImplicitALS(user_factors.shape[1], device="cpu").fit(train, 0)
    model.user_factors, model.item_factors = user_factors, item_factors
    return _kept(model.evaluate_ranking(test, k))


def _kept(metrics):
    return {name: metrics[name] for name in ("precision", "ndcg")}


def popularity(train):
    """Factors of users and items whose products are how often each item was rated."""
    return np.ones((train.n_users, 1), np.float32), train.item_counts.astype(np.float32)[:, None]


def seconds(frame):
    """Return the median seconds of an iteration of each repeat by model, solver ('-' of the package) and factors."""
    rows = frame[frame.task == "iteration"].fillna({"solver": "-"})
    by = ["factors", "model", "solver", "x_default", "repeat"]
    return rows.groupby(by, sort=False).seconds.median().reset_index()


CLAIMS = [
    Claim("als-implicit-cpu-ndcg", "gpumf", None,
          "NDCG@10 of ImplicitALS above that of implicit, by 16 to 256 factors, where it is the least, MovieLens "
          "100K.", metric="difference",
          select={"column": "value", "where": {"task": "rank", "metric": "ndcg"}, "each": ["factors"],
                  "across": "min", "over": {"model": "ImplicitALS"}, "under": {"model": PEER}},
          criterion=above(-0.01), device="cpu"),
    Claim("als-cpu-choice", "gpumf", None,
          "Time of an iteration of ALS by the other CPU solver over that by the default, 16 to 64 factors, where it "
          "is the least, MovieLens 100K.", metric="ratio",
          select={"column": "seconds", "where": {"model": "ALS", "factors": [16, 32, 64]}, "each": ["factors"],
                  "across": "min", "over": {"x_default": 0}, "under": {"x_default": 1}}, criterion=above(0.8),
          table=seconds, device="cpu"),
]  # fmt: skip
