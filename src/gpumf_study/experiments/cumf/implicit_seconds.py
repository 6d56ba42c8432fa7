"""Seconds of an iteration of implicit-feedback ALS, on the GPU and on all cores, beside the package `implicit`.

After Tan et al. 2018, section 5.6, which names neither data set nor machine for its 2.2, 90 and 360 s: here Netflix
with 100 factors. `implicit` on all cores where it is installed; else this package's own conjugate gradient, which
`als_implicit_cpu` compares with it, stands alone. How well the versions rank is in `implicit_quality`.
"""

import time
from functools import partial
from importlib.util import find_spec

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import ImplicitALS
from gpumf_study import figure_style as style
from gpumf_study.experiments import identity, load_ratings, usable_devices
from gpumf_study.experiments.cumf.als_versions import ALPHA
from gpumf_study.findings import Finding, Near, Open, ratio

PEER = "implicit, all cores"

PROFILES = {
    "quick": {"data": "ml-100k-synthetic", "factors": 16, "iterations": 3},
    "full": {"data": "netflix-synthetic", "factors": 100, "iterations": 3},
}
PROFILES = {
    name: profile | {"solvers": ["cumf_cg", "cumf_cg_fp16", "tensor_core", "parallel_cg"]}
    for name, profile in PROFILES.items()
}
PROFILES["smoke"] = PROFILES["quick"] | {"factors": 4, "iterations": 2}


def run(data, factors, solvers, iterations):
    """Fit with each solver that this machine has, and with the package where it is installed.

    Returns
    -------
    DataFrame with a row an iteration: data, nnz, factors, solver (or PEER), device, repeat, seconds, wall (of the
    whole fit; of PEER missing)
    """
    ratings = load_ratings(data)
    train = ratings if ratings.test_mask is None else ratings.official_split()[0]
    places, rows = ImplicitALS.solvers(), []
    for solver in tqdm(solvers, desc="implicit_seconds", leave=False):
        if places[solver] in usable_devices():
            model = ImplicitALS(factors, alpha=ALPHA, solver=solver).fit(train, iterations)
            seconds, wall = model.history.seconds.diff().dropna(), model.times.wall - model.times.compile
            rows += [(solver, model.device, k, s, wall) for k, s in enumerate(seconds)]
    if find_spec("implicit"):
        rows += [(PEER, "cpu", k, s, np.nan) for k, s in enumerate(_peer(train, factors, iterations))]
    frame = pd.DataFrame(rows, columns=["solver", "device", "repeat", "seconds", "wall"])
    frame = frame.assign(data=ratings.name, nnz=train.nnz, factors=factors)
    frame.attrs["datasets"] = [identity(ratings)]
    return frame


def _peer(train, factors, iterations):
    """Seconds of the iterations of the package's ALS, after a first one."""
    from implicit.cpu.als import AlternatingLeastSquares
    from scipy.sparse import csr_matrix
    from threadpoolctl import threadpool_limits

    rows = train.by_user
    matrix = csr_matrix((rows.values, rows.indices, rows.indptr), (train.n_users, train.n_items))
    ends = []
    model = AlternatingLeastSquares(factors=factors, alpha=ALPHA, iterations=iterations + 1)
    with threadpool_limits(1, "blas"):  # as it asks for
        model.fit(matrix, show_progress=False, callback=lambda *_: ends.append(time.perf_counter()))
    return np.diff(ends)


def summary(frame):
    """A DataFrame with the index solver: device, seconds (of an iteration, median), spread, wall (of a fit)."""
    runs = frame.groupby("solver", sort=False)
    seconds = runs.seconds.agg(seconds="median", spread=np.ptp)
    return pd.DataFrame({"device": runs.device.first()}).join(seconds).assign(wall=runs.wall.first())


def figure(frame):
    """Seconds of an iteration, a dot a solver."""
    names = {solver: look.name for (model, solver), look in style.LOOKS.items() if model == "ALS"}
    figure = style.dots(summary(frame).seconds.rename(names), f"seconds an iteration, {frame.data.iloc[0]}")
    figure.axes[0].margins(y=0.15)
    return figure


def _over(frame, other):
    lots = [frame.seconds[frame.solver == solver] for solver in (other, "cumf_cg_fp16")]
    return (*ratio(*lots), "x") if all(map(len, lots)) else (np.nan, np.nan, "x")


FINDINGS = [
    Finding(
        "cumf-section-5.6-cores",
        "cumf",
        "Section 5.6",
        "An iteration by CG in FP16 on the GPU takes 41 times less than by CG on all cores, 2.2 s against 90 s.",
        partial(_over, other="parallel_cg"),
        Near(90 / 2.2, 2.0),
    ),
    Finding(
        "cumf-section-5.6-implicit",
        "cumf",
        "Section 5.6",
        "An iteration by CG in FP16 on the GPU takes 41 times less than one of the package implicit.",
        partial(_over, other=PEER),
        Near(90 / 2.2, 2.0),
    ),
    Finding(
        "cumf-section-5.6-qmf",
        "cumf",
        "Section 5.6",
        "An iteration takes 164 times less than one of QMF.",
        rule=Open(missing="QMF, which is not maintained any more"),
    ),
]
