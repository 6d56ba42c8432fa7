"""Seconds of an iteration of implicit-feedback ALS, on the GPU and on the CPU, beside the package `implicit`.

Source: Tan et al. 2018, section 5.6, which names neither data set nor GPU for its 2.2, 90 and 360 s: here Netflix
with 100 factors, and as many steps of conjugate gradient for all, those that `implicit` makes. How well the solvers
rank is in `implicit_quality`.
"""

import time
from importlib.util import find_spec

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import ImplicitALS
from gpumf_study import figure_style as style
from gpumf_study.claims import Claim, near
from gpumf_study.experiments import load_ratings, training_ratings, usable_devices
from gpumf_study.experiments.cumf.als_versions import ALPHA, PUBLISHED

CG_STEPS = 3  # of `implicit`, which has no parameter for them
OURS, PEER = "cumf_cg_fp16", "implicit"

PROFILES = {
    "quick": {"data": "ml-100k-synthetic", "factors": 16, "iterations": 3},
    "full": {"data": "netflix-synthetic", "factors": 100, "iterations": 5},
}
PROFILES = {name: profile | {"solvers": ["cumf_cg", "cumf_cg_fp16", "tensor_core", "parallel_cg"]}
            for name, profile in PROFILES.items()}  # fmt: skip
PROFILES["smoke"] = PROFILES["quick"] | {"factors": 4, "iterations": 2}


def run(data, factors, solvers, iterations):
    """Fit with each solver that this machine has, and with `implicit` if it is there; a repeat is an iteration."""
    ratings = load_ratings(data)
    train = training_ratings(ratings)
    places, rows = ImplicitALS.solvers(), []
    for solver in tqdm(solvers, desc="implicit_seconds", leave=False):
        if places[solver] in usable_devices():
            options = {**PUBLISHED, "cg_steps": CG_STEPS, "cg_tolerance": 0.0}
            model = ImplicitALS(factors, solver=solver, **options).fit(train, iterations)
            labels = {"model": "ImplicitALS", "solver": solver, "device": model.device}
            seconds = model.history.seconds.diff().dropna()
            rows += [labels | {"repeat": k, "phase": "train", "seconds": s} for k, s in enumerate(seconds)]
            whole = model.times.end_to_end - model.times.compile
            rows.append(labels | {"repeat": 0, "phase": "end_to_end", "seconds": whole})
    if find_spec(PEER):
        labels = {"model": PEER, "solver": "cg", "device": "cpu", "phase": "train"}
        seconds = _peer(train, factors, iterations)
        rows += [labels | {"repeat": k, "seconds": s} for k, s in enumerate(seconds)]
    frame = pd.DataFrame(rows).assign(data=ratings.name, task="fit", factors=factors)
    return frame.assign(x_nnz=train.nnz, x_cg_steps=CG_STEPS)


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
    """Return the median seconds of an iteration by solver."""
    solvers = frame.solver.where(frame.model != PEER, PEER)
    return frame[frame.phase == "train"].groupby(solvers, sort=False).seconds.median().to_frame()


def figure(frame):
    """Draw seconds of an iteration, a dot a solver."""
    names = {solver: look.name for (model, solver), look in style.LOOKS.items() if model == "ALS"}
    seconds = summary(frame).seconds.rename(names)
    figure = style.dots(seconds, f"seconds an iteration, {style.data_name(frame.data.iloc[0])}")
    figure.axes[0].margins(y=0.15)
    return figure


CLAIMS = [
    *(Claim(f"cumf-section-5.6-{name}", "cumf", "Section 5.6",
            f"Time of an iteration of {of} over that of CG in FP16 on the GPU, 3 steps, Netflix (synthetic).",
            published, "ratio",
            {"column": "seconds", "where": {"phase": "train", "x_cg_steps": CG_STEPS}, "over": over,
             "under": {"solver": OURS}}, published and near(published, 2.0), "synthetic")
      for name, of, over, published in (
          ("cores", "CG on all CPU threads", {"solver": "parallel_cg"}, None),
          ("implicit", "the package implicit", {"model": PEER}, 90 / 2.2),
      )),
    Claim("cumf-section-5.6-qmf", "cumf", "Section 5.6", "Time of an iteration of QMF over that of cuMF.", 360 / 2.2,
          "ratio", missing="QMF, which is not maintained any more"),
]  # fmt: skip
