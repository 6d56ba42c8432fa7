"""Implicit-feedback ALS beside the package `implicit`, on all cores and on the GPU, at the size of the Netflix Prize.

The same ratings, confidences, lambda, number of factors and steps of conjugate gradient: ours makes them all too, and
stops at no residual. The package tells nothing of its iterations: it is fitted with few and with more, and an
iteration is what those take that are more. Its GPU part wants the package rmm. How good the lists are is another
question, for real sets: `als_implicit_cpu`, `implicit_quality`.
"""

import time
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import ImplicitALS, backends
from gpumf._util import threads
from gpumf_study import figure_style as style
from gpumf_study.experiments import identity, load_ratings
from gpumf_study.experiments.gpumf.als_implicit_cpu import STEPS
from gpumf_study.findings import Finding, Holds, ratio, times

ALPHA, REGULARIZATION = 2.0, 0.1
PEERS = {"implicit, all cores": "cpu", "implicit, GPU": "cuda"}
OURS = {"gpumf, all cores": ("parallel_cg", "cpu"), "gpumf, GPU": ("tensor_core", "cuda")}

PROFILES = {
    "quick": {
        "data": "ml-100k-synthetic",
        "factors": [16],
        "iterations": {"cpu": [1, 3], "cuda": [1, 3]},
        "repeats": 2,
        "steps": STEPS,
    },
    "full": {
        "data": "netflix-synthetic",
        "factors": [64, 128],
        "iterations": {"cpu": [1, 2], "cuda": [5, 10]},
        "repeats": 3,
        "steps": STEPS,
    },
}
PROFILES["smoke"] = PROFILES["quick"] | {"factors": [8], "repeats": 1}


def why_unavailable():
    """The package, or None where it is installed."""
    return None if find_spec("implicit") else "the package implicit is not installed; install the extra peers"


def run(data, factors, iterations, repeats, steps):
    """Fit every program with few and with more iterations.

    Parameters
    ----------
    data : name of a data set; its official training set, where it has one
    factors : list of int
    iterations : dict, 'cpu' and 'cuda' -> [few, more]
    repeats : int, of each fit, after one that loads and compiles
    steps : int, of conjugate gradient in a half-sweep

    Returns
    -------
    DataFrame with a row a fit: program, device, factors, iterations, repeat, wall (seconds from a matrix on the
    host to factors on the host), threads, version (of implicit)
    """
    ratings = load_ratings(data)
    train = ratings.official_split()[0] if ratings.test_mask is not None else ratings
    programs = {name: (partial(_peer, device), device) for name, device in PEERS.items()}
    programs |= {name: (partial(_ours, solver), device) for name, (solver, device) in OURS.items()}
    matrix, rows = _confidences(train), []
    for f in factors:
        for name, (fit, device) in tqdm(programs.items(), desc=f"peers_als, {f} factors", leave=False):
            if device == "cuda" and not (backends.available() and (name in OURS or _gpu_of_peer())):
                continue
            for repeat in range(-1, repeats):
                for n in iterations[device][:1] if repeat < 0 else iterations[device]:
                    wall = fit(train, matrix, f, n, steps)
                    rows.append({"program": name, "device": device, "factors": f, "iterations": n, "repeat": repeat})
                    rows[-1]["wall"] = wall
    frame = pd.DataFrame(rows).query("repeat >= 0").reset_index(drop=True)
    frame = frame.assign(data=ratings.name, threads=threads.count(), version=version("implicit"))
    frame.attrs["datasets"] = [identity(ratings)]
    return frame


def _gpu_of_peer():
    from implicit import gpu as theirs

    return theirs.HAS_CUDA


def _confidences(train):
    """1 + alpha r of the rated pairs, users x items."""
    from scipy.sparse import csr_matrix

    values = np.float32(1) + np.float32(ALPHA) * train.values
    return csr_matrix((values, (train.users, train.items)), (train.n_users, train.n_items))


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
        if arrays:
            _ = model.user_factors.to_numpy(), model.item_factors.to_numpy()
        return time.perf_counter() - started


def _ours(solver, train, matrix, factors, n, steps):
    model = ImplicitALS(
        factors,
        REGULARIZATION,
        alpha=ALPHA,
        unobserved_weight=1.0,
        regularization_exponent=0.0,
        solver=solver,
        cg_steps=steps,
        cg_tolerance=0.0,
    )
    times = model.fit(train.select(np.arange(train.nnz)), n).times
    return times.end_to_end - times.compile


def iteration_seconds(frame):
    """Of each repeat: a Series of seconds with the index (factors, program)."""
    walls = frame.pivot_table(index=["factors", "program", "repeat"], columns="iterations", values="wall")
    few, more = walls.T.bfill().iloc[0], walls.T.ffill().iloc[-1]
    counts = frame.groupby(["factors", "program"]).iterations.agg(np.ptp)
    apart = (more - few).droplevel("repeat")
    return apart / counts.reindex(apart.index).to_numpy()


def _longest(frame):
    """The rows of the fits with the most iterations."""
    return frame[frame.iterations == frame.groupby(["factors", "program"]).iterations.transform("max")]


def summary(frame):
    """Medians, from the frame of `run`: a row (factors, program) with iteration (seconds) and wall (of the most)."""
    wall = _longest(frame).groupby(["factors", "program"], sort=False)[["iterations", "wall"]].median()
    return wall.join(iteration_seconds(frame).groupby(level=[0, 1]).median().rename("iteration"))


def figure(frame):
    """Seconds of an iteration of each program, a panel a number of factors."""
    table = summary(frame).iteration
    names = table.index.unique("factors")
    figure, (axes,) = style.panels(columns=len(names), height=2.6, sharey=True)
    for axis, f in zip(axes, names, strict=True):
        seconds = table[f]
        style.marks(axis, seconds, np.arange(len(seconds)), "blue")
        axis.set_yticks(np.arange(len(seconds)), seconds.index)
        axis.set(xlabel=f"seconds of an iteration, {f} factors", xscale="log")
    return figure


def _times(frame, factors, peer, ours):
    """The package's iteration over ours: (ratio, spread, 'x')."""
    seconds = iteration_seconds(frame)
    lots = [seconds[seconds.index == (factors, program)] for program in (peer, ours)]
    return (*ratio(*lots), "x") if all(map(len, lots)) else (np.nan, np.nan, "x")


def _wall_times(frame, factors, peer, ours):
    """The package's wall of its longest fit over ours: (ratio, spread, 'x'); NaN of fewer than three repeats."""
    walls = _longest(frame[frame.factors == factors]).set_index("program").wall
    if min((walls.index == program).sum() for program in (peer, ours)) < 3:
        return np.nan, np.nan, "x"
    return times(walls, peer, ours)


_PAIRS = [
    (factors, name, peer, ours)
    for factors in (64, 128)
    for name, peer, ours in zip(("cores", "gpu"), PEERS, OURS, strict=True)
]
FINDINGS = [
    Finding(
        f"peers-als-{name}-{factors}",
        "gpumf",
        None,
        f"ImplicitALS, {OURS[ours][0]} | Netflix twin | {factors} factors | seconds of an iteration of {peer}, over "
        "its own",
        partial(_times, factors=factors, peer=peer, ours=ours),
        Holds(above=1),
    )
    for factors, name, peer, ours in _PAIRS
] + [
    Finding(
        f"peers-als-{name}-wall-{factors}",
        "gpumf",
        None,
        f"ImplicitALS, {OURS[ours][0]} | Netflix twin | {factors} factors | wall seconds of a fit of {peer}, "
        f"{PROFILES['full']['iterations'][OURS[ours][1]][-1]} iterations, over its own",
        partial(_wall_times, factors=factors, peer=peer, ours=ours),
        Holds(above=1),
    )
    for factors, name, peer, ours in _PAIRS
]
