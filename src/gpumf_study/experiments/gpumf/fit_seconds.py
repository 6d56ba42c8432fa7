"""Where the time of a `fit` goes, as a user waits for it: from ratings in NumPy arrays to factors in NumPy arrays.

`model.times` counts apart preprocessing, transfer and training; end to end is all of it. Of each model the first fit
of the process, which loads or compiles the kernels, and warm ones after it; with the orders of the ratings made on
the device, and on the host. Where it is installed, the package `implicit` fits the same ratings, with as many factors
and iterations, from the same arrays to its factors in arrays.
"""

import time
from dataclasses import asdict, replace
from importlib.metadata import version
from importlib.util import find_spec

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import ALS, SGD, ImplicitALS, backends
from gpumf.solvers import schedules
from gpumf_study.experiments import load_ratings, training_ratings
from gpumf_study.experiments.gpumf.als_implicit_cpu import confidences

MODELS = {"ALS": ALS, "ImplicitALS": ImplicitALS, "SGD": SGD}
PEER = "implicit"
_POWER = {
    "biases": False, "clip": False, "regularization": 0.05, "learning_rate": 0.03, "schedule": schedules.Power(0.1),
}  # fmt: skip
PARAMETERS = {
    "ALS": {"biases": False, "clip": False, "regularization": 0.05},
    "ImplicitALS": {"regularization": 0.1, "alpha": 40.0, "unobserved_weight": 1.0, "regularization_exponent": 0.0},
    "SGD": _POWER,
}  # fmt: skip
_RECOMMENDED = 10

PROFILES = {
    "quick": {"data": "ml-100k-synthetic",
              "fits": [["ALS", "parallel", 16, 5], ["ImplicitALS", "parallel_cg", 16, 5], [PEER, "cpu", 16, 5],
                       ["SGD", "sequential", 16, 5]], "prepare": ["host"], "repeats": 2},
    "full": {"data": "netflix-synthetic",
             "fits": [["ALS", "tensor_core", 100, 10], ["ALS", "tensor_core", 256, 10],
                      ["ImplicitALS", "tensor_core", 64, 10], [PEER, "gpu", 64, 10],
                      ["ImplicitALS", "tensor_core", 128, 10], ["SGD", "fast", 128, 20],
                      ["SGD", "cumf_sgd", 128, 20]], "prepare": ["device", "host"], "repeats": 5},
}  # fmt: skip
PROFILES["smoke"] = PROFILES["quick"] | {"fits": [["ALS", "parallel", 4, 1]], "repeats": 1}


def run(data, fits, prepare, repeats):
    """Fit models to the ratings of the official training set, or of all where there is none, and recommend with them.

    fits : list of [model, solver, factors, epochs]; of the model 'implicit' the solver is 'gpu' or 'cpu', and it is
        left out where the package is not installed, or not for a GPU
    prepare : of 'device' and 'host', where orders of the ratings are made: on the first of these for all, on the
        others for the first fit of each model alone, and once, after those that have compiled
    repeats : int, warm fits of each, after the first one

    Return a DataFrame with a row a phase of a fit, and a row of the task 'recommend': seconds to find the ten best
    unseen items of all users. variant is where the orders are made, repeat 0 the first of the process
    """
    ratings = load_ratings(data)
    train = training_ratings(ratings)
    rows, met = [], set()
    for fit in tqdm(fits, desc=f"fit_seconds {ratings.name}", leave=False):
        rows += _measured(train, *fit, prepare[:1] if fit[0] in met else prepare, repeats)
        met.add(fit[0])
    columns = ["model", "solver", "device", "factors", "x_epochs", "variant", "repeat", "task", "phase", "seconds"]
    frame = pd.DataFrame(rows, columns=columns).assign(data=ratings.name, x_nnz=train.nnz)
    frame["x_peer"] = f"{PEER} {version(PEER)}" if find_spec(PEER) else f"{PEER} is not installed"
    return frame


def _measured(train, name, solver, factors, epochs, where, repeats):
    """Yield the rows of the fits of one model."""
    if name == PEER:
        for repeat in range(repeats + 1) if _has_peer(solver) else ():
            whole, recommended = _peer_seconds(train, solver, factors, epochs)
            what = name, solver, {"gpu": "cuda"}.get(solver, solver), factors, epochs, "host", repeat
            yield *what, "fit", "end_to_end", whole
            yield *what, "recommend", "end_to_end", recommended
        return
    on_device = MODELS[name].solvers()[solver] != "cpu"
    for prepared in where if on_device else ["host"]:
        again = prepared != where[0] and on_device
        for repeat in [1] if again else range(repeats + 1):
            model = MODELS[name](factors, solver=solver, **PARAMETERS[name])
            if prepared == "host":
                model._takes_from_device = bool  # no: the solver copies the orders that the host makes
            model.fit(replace(train), epochs)  # without the orders that a fit before has made
            started = time.perf_counter()
            model.recommend(np.arange(train.n_users), k=_RECOMMENDED)
            recommended = time.perf_counter() - started
            what = name, solver, model.device, factors, epochs, prepared, repeat
            yield from ((*what, "fit", phase, seconds) for phase, seconds in asdict(model.times).items())
            yield *what, "recommend", "end_to_end", recommended


def _has_peer(solver):
    """Whether the package is installed, for a GPU where it is to run on one."""
    if find_spec(PEER) is None or solver == "cpu":
        return find_spec(PEER) is not None
    from implicit.gpu import HAS_CUDA

    return HAS_CUDA and backends.available()


def _peer_seconds(train, solver, factors, iterations):
    """Seconds of the package's fit, and to recommend to all users."""
    from implicit.als import AlternatingLeastSquares

    started = time.perf_counter()
    by_user = confidences(train, PARAMETERS["ImplicitALS"]["alpha"])
    model = AlternatingLeastSquares(
        factors, regularization=0.1, alpha=1.0, iterations=iterations, use_gpu=solver == "gpu", random_state=0
    )
    model.fit(by_user, show_progress=False)
    for array in (model.user_factors, model.item_factors):
        if solver == "gpu":
            array.to_numpy()
    wall, started = time.perf_counter() - started, time.perf_counter()
    model.recommend(np.arange(train.n_users), by_user, N=_RECOMMENDED)
    return wall, time.perf_counter() - started
