"""get_hermitian by its ways to load, the solvers, and cuBLAS beside both, over ten iterations.

After Tan et al. 2018, Figures 4, 5 and 7 (a): 100 factors, Netflix, six steps of conjugate gradient. cuBLAS
multiplies matrices of one size in batches; it gets as many ratings a row as a row has on average, and computes whole
products where get_hermitian computes half of a symmetric one. Its LU gets random systems, as many as fit, copied
first because it overwrites them; its time is scaled to all rows.
"""

from functools import partial

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import ALS, backends
from gpumf_study import figure_style as style
from gpumf_study.experiments import _fits, identity, kernels_unavailable, load_ratings
from gpumf_study.findings import Finding, Holds, Near, Open, ratio

LOADS = ["coalesced", "l1", "no_l1"]
SOLVERS = ["cumf_lu", "cumf_cholesky", "cumf_cg", "cumf_cg_fp16"]
CUBLAS = "cuBLAS"
REGULARIZATION = 0.05

PROFILES = {
    "quick": {
        "data": "ml-100k-synthetic",
        "part": [150, 120],
        "factors": 8,
        "iterations": 2,
        "repeats": 2,
        "batch": 64,
    },
    "full": {
        "data": "netflix-synthetic",
        "part": None,
        "factors": 100,
        "iterations": 10,
        "repeats": 10,
        "batch": 16384,
    },
}
PROFILES["smoke"] = PROFILES["quick"] | {"part": [60, 50], "factors": 4, "iterations": 1}

why_unavailable = kernels_unavailable


def run(data, part, factors, iterations, repeats, batch):
    """Time phases.

    Parameters
    ----------
    data : name of a data set
    part : (users, items) that are taken, or None for all
    factors, iterations : int
    repeats : int, of get_hermitian by its ways to load, and of cuBLAS
    batch : int, rows that cuBLAS gets at a time

    Returns
    -------
    DataFrame with a row a time: data, factors, version (of SOLVERS, or CUBLAS), load, side ('users', 'items'), phase
    ('get_hermitian', 'get_bias', 'solve'), repeat (of solvers: the iteration), rows, nnz, seconds
    """
    device = backends.device("cuda" if backends.available() else "emulator")
    ratings = _fits.corner(load_ratings(data), part)
    train = ratings if ratings.test_mask is None else ratings.official_split()[0]
    shapes = {"users": train.n_users, "items": train.n_items}
    found = []
    for version in tqdm(SOLVERS, desc="cumf_phases", leave=False):
        model = ALS(factors, REGULARIZATION, solver=version, device=device.name, clip=False)
        trainer = model.make_solver(train)
        trainer.epoch(0)  # compiles; what is timed goes on from it
        for iteration in range(iterations):
            for side in shapes:
                for phase, work in trainer.phases(side).items():
                    if phase == "get_gram" or (phase == "get_bias" and trainer.fused_bias):
                        continue
                    seconds = device.time(work, repeats=1, warmup=0)
                    found.append((version, LOADS[0], side, phase, iteration, seconds[0]))
        del trainer
    for load in LOADS:
        trainer = ALS(factors, REGULARIZATION, solver="cumf_cholesky", device=device.name, clip=False).make_solver(
            train, load=load
        )
        for side in shapes:
            seconds = device.time(trainer.phases(side)["get_hermitian"], repeats=repeats, warmup=1)
            found += [("loads", load, side, "get_hermitian", k, s) for k, s in enumerate(seconds)]
        del trainer
    for side, n in shapes.items():
        for phase, seconds in _cublas(device, train.nnz / n, factors, min(batch, n), repeats).items():
            found += [(CUBLAS, None, side, phase, k, s * n / min(batch, n)) for k, s in enumerate(seconds)]
    columns = ["version", "load", "side", "phase", "repeat", "seconds"]
    frame = pd.DataFrame(found, columns=columns)
    frame = frame.assign(data=ratings.name, factors=factors, nnz=train.nnz, rows=frame.side.map(shapes))
    frame.attrs["datasets"] = [identity(ratings)]
    return frame


def _cublas(device, mean_ratings, f, batch, repeats):
    """Seconds of products and of solutions of a batch, by phase: a dict of arrays. On the processor NumPy's."""
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


def _both(frame, version, phase, load=None):
    """Seconds of a phase for both sides together, by repeat."""
    rows = frame[(frame.version == version) & (frame.phase == phase)]
    rows = rows if load is None else rows[rows.load == load]
    return rows.groupby("repeat").seconds.sum()


def summary(frame):
    """Seconds of the phases of an iteration (medians).

    Returns
    -------
    DataFrame with the index (version, load) and a column a phase and side
    """
    loads = frame.assign(load=frame.load.fillna("–"))
    by = {"index": ["version", "load"], "columns": ["phase", "side"], "values": "seconds"}
    return loads.pivot_table(**by, aggfunc="median", sort=False)


def figure(frame):
    """get_hermitian by its ways to load (left) and the solvers (right), cuBLAS beside both, a mark a side."""
    table = summary(frame)
    loads = {("loads", "coalesced"): "coalesced", ("loads", "l1"): "non-coalesced, L1"}
    loads |= {("loads", "no_l1"): "non-coalesced, no L1", (CUBLAS, "–"): "cuBLAS, batched products"}
    solvers = {(version, LOADS[0]): style.LOOKS["ALS", version].name for version in SOLVERS}
    solvers |= {(CUBLAS, "–"): "cuBLAS, LU"}
    figure, (axes,) = style.panels(columns=2, height=3.0)
    for axis, phase, names in zip(axes, ("get_hermitian", "solve"), (loads, solvers), strict=True):
        seconds, place = table[phase].loc[list(names)], np.arange(len(names))[::-1]
        for side, label, colour, marker in (
            ("users", "users (update X)", "blue", "o"),
            ("items", "items (update Θ)", "orange", "s"),
        ):
            style.marks(axis, seconds[side], place, colour, label, marker)
        axis.set_yticks(place, names.values())
        axis.set(xlabel=f"seconds of {phase} in an iteration")
        axis.margins(y=0.15)
    axes[0].set_xlim(0)
    style.log_scale(axes[1].xaxis)
    style.legend(figure, axes[0], 2)
    return figure


def _load(frame, other):
    """What another way to load takes over the non-coalesced one through L1."""
    lots = [_both(frame, "loads", "get_hermitian", load) for load in (other, "l1")]
    return *ratio(*lots), "x"


def _solve(frame, version, over):
    return *ratio(_both(frame, version, "solve"), _both(frame, over, "solve")), "x"


def _lu_over_hermitian(frame):
    return *ratio(_both(frame, "cumf_lu", "solve"), _both(frame, "cumf_lu", "get_hermitian")), "x"


def _products(frame):
    """What cuBLAS takes for as many ratings over what get_hermitian takes, in its fastest way to load."""
    ours = min((_both(frame, "loads", "get_hermitian", load) for load in LOADS), key=lambda lot: lot.median())
    return *ratio(_both(frame, CUBLAS, "get_hermitian"), ours), "x"


FINDINGS = [
    *(
        Finding(
            f"cumf-fig-4-{slug}",
            "cumf",
            "Figure 4",
            f"get_hermitian takes less time with non-coalesced loads through L1 than with {name}.",
            partial(_load, other=load),
            Holds(above=1.0),
        )
        for slug, load, name in (
            ("coalesced", "coalesced", "coalesced ones"),
            ("no-l1", "no_l1", "those that bypass it"),
        )
    ),
    Finding(
        "cumf-fig-5-lu",
        "cumf",
        "Figure 5",
        "LU takes almost twice the time of get_hermitian.",
        _lu_over_hermitian,
        Near(2.0, 1.5),
    ),
    Finding(
        "cumf-fig-5-cg",
        "cumf",
        "Figure 5",
        "CG in FP32 takes a quarter of the time of LU.",
        partial(_solve, version="cumf_cg", over="cumf_lu"),
        Near(0.25, 1.5),
    ),
    Finding(
        "cumf-fig-5-cg-cublas",
        "cumf",
        "Figure 5",
        "CG in FP32 takes a quarter of the time of cuBLAS's batched LU.",
        partial(_solve, version="cumf_cg", over=CUBLAS),
        Near(0.25, 1.5),
    ),
    Finding(
        "cumf-fig-5-fp16",
        "cumf",
        "Figure 5",
        "CG in FP16 takes half the time of CG in FP32.",
        partial(_solve, version="cumf_cg_fp16", over="cumf_cg"),
        Near(0.5, 1.5),
    ),
    Finding(
        "cumf-fig-5-l1",
        "cumf",
        "Figure 5",
        "CG takes the same time with L1 and without it.",
        rule=Open(missing="a version of the solver that bypasses L1"),
    ),
    Finding(
        "cumf-fig-7-products",
        "cumf",
        "Figure 7",
        "get_hermitian takes less time than cuBLAS's batched products for as many ratings.",
        _products,
        Holds(above=1.0),
    ),
]
