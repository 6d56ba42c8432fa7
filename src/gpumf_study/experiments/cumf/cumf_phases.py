"""The kernels of cuMF beside cuBLAS: products of get_hermitian, and solutions by conjugate gradient.

Source: Tan et al. 2018, Figures 5 and 7 (a): 100 factors, Netflix, six steps of conjugate gradient. cuBLAS multiplies
matrices of one size in batches; it gets as many ratings a row as a row has on average, and computes whole products
where get_hermitian computes half of a symmetric one. Its LU gets random systems, copied first because it overwrites
them. Times of a batch are scaled to all rows. Loads and solvers are compared with each other in `als_versions`.
"""

from functools import partial

import numpy as np
import pandas as pd

from gpumf import ALS, backends
from gpumf_study import figure_style as style
from gpumf_study import sweep
from gpumf_study.claims import Claim, above, near
from gpumf_study.experiments import kernels_unavailable, load_ratings, training_ratings

OURS, CUBLAS = "cumf_cg", "cuBLAS"
STEPS = {"get_hermitian": "products", "solve": "solutions"}

PROFILES = {
    "quick": {"data": "ml-100k-synthetic", "part": [150, 120], "factors": 8, "repeats": 2, "batch": 64},
    "full": {"data": "netflix-synthetic", "part": None, "factors": 100, "repeats": 10, "batch": 16384},
}
PROFILES["smoke"] = PROFILES["quick"] | {"part": [60, 50], "factors": 4}

why_unavailable = kernels_unavailable


def run(data, part, factors, repeats, batch):
    """Time the phases of iterations, then cuBLAS on batches of rows."""
    device = backends.device("cuda" if backends.available() else "emulator")
    ratings = sweep.corner(load_ratings(data), part)
    train = training_ratings(ratings)
    shapes = {"users": train.n_users, "items": train.n_items}
    options = {"biases": False, "weighted": True, "clip": False, "cg_steps": 6, "cg_tolerance": 1e-4}
    model = ALS(factors, 0.05, solver=OURS, device=device.name, **options)
    trainer = model.make_solver(train)
    trainer.epoch(0)  # compiles; what is timed goes on from it
    rows = []
    for repeat in range(repeats):
        for side in shapes:
            for step, work in trainer.phases(side).items():
                (seconds,) = device.time(work, repeats=1, warmup=0)
                if step in STEPS:
                    rows.append((OURS, side, step, repeat, seconds, model.columns))
    del trainer
    for side, n in shapes.items():
        count = min(batch, n)
        for step, seconds in _cublas(device, train.nnz / n, factors, count, repeats).items():
            rows += [(CUBLAS, side, step, k, s * n / count, factors) for k, s in enumerate(seconds)]
    frame = pd.DataFrame(rows, columns=["solver", "x_side", "x_step", "repeat", "seconds", "x_columns"])
    frame = frame.assign(data=ratings.name, task="phases", model="ALS", device=device.name, factors=factors)
    return frame.assign(phase="train", x_nnz=train.nnz, x_rows=frame.x_side.map(shapes))


def _cublas(device, mean_ratings, f, batch, repeats):
    """Seconds of products and of solutions of a batch, by step: a dict of arrays. On the CPU NumPy's."""
    xp, most = device.xp, int(2**31 // (4 * f * max(mean_ratings, 1)))
    n, rows = max(round(mean_ratings), 1), max(min(batch, most), 1)  # two gigabytes of factors at a time
    theta = device.array(np.random.default_rng(0).standard_normal((rows, n, f), np.float32))
    products = xp.matmul(theta.transpose(0, 2, 1), theta)
    multiplied = device.time(partial(xp.matmul, theta.transpose(0, 2, 1), theta, out=products), repeats, warmup=1)
    del theta
    count = min(batch, 8192)
    systems = products[np.arange(count) % rows] + n * xp.eye(f, dtype=np.float32)
    right = xp.ones((count, f, 1), np.float32)
    solved = device.time(partial(xp.linalg.solve, systems, right), repeats, warmup=1)
    return {"get_hermitian": multiplied * batch / rows, "solve": solved * batch / count}


def both_sides(frame):
    """Return the seconds of a step of an iteration, users and items added up, by repeat."""
    return frame.groupby(["model", "solver", "x_step", "x_columns", "repeat"]).seconds.sum().reset_index()


def figure(frame):
    """Draw the seconds of products and of solutions in an iteration, a mark a program."""
    median = both_sides(frame).groupby(["x_step", "solver"]).seconds.median()
    figure, ((axis,),) = style.panels(height=2.6)
    place = np.arange(len(STEPS))[::-1]
    for solver, label, colour in ((OURS, "cuMF's kernels", "green"), (CUBLAS, "cuBLAS", "orange")):
        style.marks(axis, median[:, solver].loc[list(STEPS)], place, colour, label)
    axis.set_yticks(place, [f"{step}: {what}" for step, what in STEPS.items()])
    axis.set(xlabel=f"seconds of an iteration, {style.data_name(frame.data.iloc[0])}")
    axis.margins(y=0.3)
    style.log_scale(axis.xaxis)
    style.legend(figure, axis, 2)
    return figure


def _beside(name, figure_or_table, statement, step, over, under, **options):
    sides = {"over": {"solver": over}, "under": {"solver": under}}
    return Claim(f"cumf-fig-{name}", "cumf", figure_or_table, f"{statement}, 100 factors, Netflix (synthetic).",
                 metric="ratio", select={"column": "seconds", "where": {"x_step": step, "x_columns": 100}, **sides},
                 table=both_sides, evidence="synthetic", **options)  # fmt: skip


CLAIMS = [
    Claim("cumf-fig-5-lu-cublas", "cumf", "Figure 5",
          "Time of cuBLAS's batched LU over that of get_hermitian, 100 factors, Netflix (synthetic).", 2.0, "ratio",
          {"column": "seconds", "where": {"x_columns": 100}, "over": {"solver": CUBLAS, "x_step": "solve"},
           "under": {"solver": OURS, "x_step": "get_hermitian"}},
          near(2.0, 1.5), "synthetic", both_sides),
    _beside("5-cg-cublas", "Figure 5", "Time of CG in FP32 over that of cuBLAS's batched LU", "solve", OURS, CUBLAS,
            published=0.25, criterion=near(0.25, 1.5)),
    _beside("7-products", "Figure 7", "Time of cuBLAS's batched products over that of get_hermitian", "get_hermitian",
            CUBLAS, OURS, criterion=above(1.0)),
    Claim("cumf-fig-7-generations", "cumf", "Figure 7",
          "get_hermitian reaches a larger share of the peak on each newer generation of GPUs.",
          missing="GPUs of three generations"),
]  # fmt: skip
