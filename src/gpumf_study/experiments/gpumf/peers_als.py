"""Implicit-feedback ALS beside the package `implicit`, on the CPU and on the GPU, at the size of the Netflix Prize.

The same ratings, confidences, lambda, number of factors and steps of conjugate gradient: ours makes them all too, and
stops at no residual; on the GPU once in FP32, as the package, and once on tensor cores. The loss after equal
iterations, by a sample of the ratings, says whether an iteration of either gains as much. The package tells nothing
of its iterations: it is fitted with few and with more, and an iteration is what those take that are more. Its GPU
part wants the package rmm. How well the models rank is another question, for real data: `als_implicit_cpu`,
`implicit_quality`.
"""

import time
from functools import partial
from importlib.metadata import version

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import ImplicitALS, backends
from gpumf._util import threads
from gpumf._util.counter_rng import random_subset
from gpumf_study.claims import Claim, above, below
from gpumf_study.experiments import _kept, load_ratings, training_ratings
from gpumf_study.experiments.gpumf.als_implicit_cpu import STEPS, confidences
from gpumf_study.experiments.gpumf.als_implicit_cpu import (
    why_unavailable as why_unavailable,  # of this one as of that
)

ALPHA, REGULARIZATION = 2.0, 0.1
_SAMPLE = 1_000_000  # ratings
PEER = "implicit"
PROGRAMS = [(PEER, "cg", "cpu"), (PEER, "cg", "cuda")]
PROGRAMS += [("ImplicitALS", "parallel_cg", "cpu"), ("ImplicitALS", "cumf_cg", "cuda")]
PROGRAMS += [("ImplicitALS", "tensor_core", "cuda")]
"""Model, solver, device."""

PROFILES = {
    "quick": {"data": "ml-100k-synthetic", "factors": [16], "iterations": {"cpu": [1, 3], "cuda": [1, 3]},
              "repeats": 2, "steps": STEPS},
    "full": {"data": "netflix-synthetic", "factors": [64, 128], "iterations": {"cpu": [1, 2], "cuda": [5, 10]},
             "repeats": 5, "steps": STEPS},
}  # fmt: skip
PROFILES["smoke"] = PROFILES["quick"] | {"factors": [8], "repeats": 1}


def run(data, factors, iterations, repeats, steps):
    """Fit every program with few and with more iterations.

    data : name of a data set; its official training set, where it has one
    iterations : dict, 'cpu' and 'cuda', or one of them, -> [few, more]
    repeats : int, of each fit, after one that loads and compiles
    steps : int, of conjugate gradient in an update

    Return a DataFrame with a row a fit: seconds from a matrix on the host to factors on the host, the metric loss
    (see `_loss`), x_iterations, x_version (of implicit)
    """
    ratings = load_ratings(data)
    train = training_ratings(ratings)
    matrix, rows = confidences(train, ALPHA), []
    for f in factors:
        for device, of_device in iterations.items():  # a ratio is of programs of one device, in one process
            fits = partial(_of_device, device, train, matrix, f, of_device, repeats, steps)
            rows += _kept.once(f"{device}-{f}", fits)
    columns = ["model", "solver", "device", "factors", "repeat", "x_iterations", "seconds", "value"]
    frame = pd.DataFrame(rows, columns=columns)
    frame = frame.assign(data=ratings.name, task="fit", phase="end_to_end", threads=threads.count())
    frame = frame.assign(x_cg_steps=steps, x_version=version(PEER))
    frame["metric"] = np.where(frame.value.notna(), "loss", None)
    return frame


def _of_device(device, train, matrix, factors, iterations, repeats, steps):
    """The rows of all programs of a device, with so many factors."""
    programs = [(model, solver) for model, solver, of in PROGRAMS if of == device]
    rows = []
    for model, solver in tqdm(programs, desc=f"peers_als, {device}, {factors} factors", leave=False):
        if device == "cpu" or (backends.available() and (model != PEER or _gpu_of_peer())):
            fit = partial(_peer, device) if model == PEER else partial(_ours, solver)
            found = _fits(partial(fit, train, matrix, factors), train, iterations, repeats, steps)
            rows += [(model, solver, device, factors, *row) for row in found]
    return rows


def _fits(fit, train, iterations, repeats, steps):
    """(repeat, iterations, seconds, loss or NaN) of each fit of a program, after one that is not kept."""
    fit(iterations[0], steps)
    rows = []
    for repeat in range(repeats):
        for n in iterations:
            seconds, found = fit(n, steps)
            rows.append((repeat, n, seconds, _loss(train, *found) if n == max(iterations) else np.nan))
    return rows


def _gpu_of_peer():
    from implicit import gpu as theirs

    return theirs.HAS_CUDA


def _peer(device, train, matrix, factors, n, steps):
    from threadpoolctl import threadpool_limits

    if device == "cuda":
        from implicit.gpu.als import AlternatingLeastSquares

        model, arrays = AlternatingLeastSquares(factors, REGULARIZATION, iterations=n, random_state=0), "to_numpy"
    else:
        from implicit.cpu.als import AlternatingLeastSquares

        model = AlternatingLeastSquares(
            factors, REGULARIZATION, iterations=n, random_state=0, num_threads=threads.count()
        )
        arrays = None
    model.cg_steps = steps
    with threadpool_limits(1, "blas"):  # as it asks for
        started = time.perf_counter()
        model.fit(matrix, show_progress=False)
        found = model.user_factors, model.item_factors
        if arrays:
            found = tuple(array.to_numpy() for array in found)
        return time.perf_counter() - started, found


def _ours(solver, train, matrix, factors, n, steps):
    model = ImplicitALS(
        factors, REGULARIZATION, alpha=ALPHA, unobserved_weight=1.0, regularization_exponent=0.0, solver=solver,
        cg_steps=steps, cg_tolerance=0.0,
    )  # fmt: skip
    times = model.fit(train.select(np.arange(train.nnz)), n).times
    return times.end_to_end - times.compile, (model.user_factors, model.item_factors)


def _loss(train, users, items):
    """The objective of Hu et al. over the number of ratings, the rated pairs by a sample."""
    taken = random_subset(train.nnz, min(train.nnz, _SAMPLE), 0)
    u, i, confidence = train.users[taken], train.items[taken], 1 + ALPHA * train.values[taken]
    predicted = np.einsum("rf,rf->r", users[u], items[i], dtype=np.float64)
    of_rated = np.mean(confidence * (1 - predicted) ** 2 - predicted**2)
    users, items = (np.asarray(array, np.float64) for array in (users, items))
    of_all = np.sum((users.T @ users) * (items.T @ items))
    return of_rated + (of_all + REGULARIZATION * (np.sum(users**2) + np.sum(items**2))) / train.nnz


_BY = ["factors", "model", "solver", "device", "repeat"]


def iteration_seconds(frame):
    """Return the seconds of an iteration of each repeat, the difference of fits with more and with few."""
    runs = frame.sort_values("x_iterations", kind="stable").groupby(_BY, sort=False)
    apart = runs[["seconds", "x_iterations"]].last() - runs[["seconds", "x_iterations"]].first()
    return (apart.seconds / apart.x_iterations).rename("seconds").reset_index()


def of_equal_steps(frame):
    """Return `iteration_seconds` of a frame whose programs make equal numbers of steps; no rows of another."""
    found = iteration_seconds(frame)
    return found if "x_cg_steps" in frame else found.iloc[:0]


def losses(frame):
    """Return a frame with its losses, which are missing where none were recorded."""
    return frame.reindex(columns=frame.columns.union(["value"], sort=False))


def _claim(name, factors, statement, metric, device, over, under, criterion):
    return Claim(
        f"peers-als-{name}-{factors}", "gpumf", None, f"{statement}, {factors} factors, Netflix (synthetic).",
        metric=metric,
        select={
            "column": "seconds" if metric == "ratio" else "value",
            "where": {"factors": factors, "device": device}, "over": over, "under": under,
        },
        criterion=criterion, evidence="synthetic", table=of_equal_steps if metric == "ratio" else losses,
    )  # fmt: skip


CLAIMS = [
    _claim(name, factors, f"Speed-up of an iteration of ImplicitALS over implicit, {where}", "ratio", device,
           {"model": PEER}, {"solver": solver, "model": "ImplicitALS"}, above(1.0))
    for factors in (64, 128)
    for name, device, solver, where in (
        ("cores", "cpu", "parallel_cg", "same CPU"), ("gpu", "cuda", "tensor_core", "same GPU"),
        ("gpu-fp32", "cuda", "cumf_cg", "same GPU, both in FP32"),
    )
]  # fmt: skip
CLAIMS += [
    _claim("loss", factors, "Loss of ImplicitALS on tensor cores above that of implicit, after equal iterations",
           "percent_more", "cuda", {"solver": "tensor_core"}, {"model": PEER}, below(1.0))
    for factors in (64, 128)
]  # fmt: skip
