"""What moves in an epoch of SGD, and how long that takes at least: where the speed of a scheme comes from.

Two plans beside each other: Hogwild and batch-Hogwild fetch and store both rows for every update; `fast` a user's row
for a run of its ratings, an item's once. The time of an epoch is that of the device, with the data resident; the
limit is that of `_limits`, which counts every rating and every row once.
"""

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import SGD, backends
from gpumf.solvers.sgd_fast import Fast
from gpumf.solvers.sgd_partition import tiled
from gpumf_study.experiments import _limits, load_ratings, training_ratings

PROFILES = {
    "quick": {"data": "ml-100k-synthetic", "factors": 16, "repeats": 5},
    "full": {"data": "netflix-synthetic", "factors": 128, "repeats": 10},
}
PROFILES["smoke"] = PROFILES["quick"] | {"data": "ml-100k-synthetic", "repeats": 2}


def run(data, factors, repeats):
    """Time epochs of Hogwild, CuMF_SGD and `fast` on this machine's GPU, or of the CPU's kernels where there is none.

    Beside each timing: x_runs (of a user's ratings for which its row is fetched once; x_nnz for all but `fast`),
    x_bytes, x_flops, x_limit_seconds (the roofline bound), x_fraction_of_limit, x_row_bytes (of user and item rows
    that the plan reads and writes), x_gather_seconds (of ratings and rows at the copy bandwidth, without caches).
    """
    device = "cuda" if backends.available() else "cpu"
    timed, ceilings = _limits.clock(device), _limits.ceilings(device)
    ratings = load_ratings(data)
    train = training_ratings(ratings)
    moved, flops = _limits.epoch_of_updates(train.n_users, train.n_items, train.nnz, factors)
    rows = []
    kernels = ("hogwild", "cumf_sgd", "fast") if device == "cuda" else ("sequential", "parallel")
    for kernel in tqdm(kernels, desc="sgd_limits", leave=False):
        model = SGD(factors, solver=kernel, regularization=0.02, biases=False, clip=False)
        trainer = model.make_solver(train)
        runs, row_bytes = plan(model, train)
        gather = (12 * train.nnz + row_bytes) / ceilings["copy_bytes_per_second"]
        limit = _limits.limit_seconds(moved, flops, ceilings, kernel)
        what = ratings.name, kernel, device, factors
        counted = train.nnz, runs, moved, flops, row_bytes, gather
        rows += [
            (*what, k, seconds, *counted, limit, limit / seconds)
            for k, seconds in enumerate(timed(lambda t=trainer: t.epoch(0), repeats))
        ]
    columns = ["data", "solver", "device", "factors", "repeat", "seconds", "x_nnz", "x_runs", "x_bytes", "x_flops"]
    columns += ["x_row_bytes", "x_gather_seconds", "x_limit_seconds", "x_fraction_of_limit"]
    return pd.DataFrame(rows, columns=columns).assign(task="epoch", model="SGD", phase="train")


def plan(model, train):
    """(runs, bytes of rows read and written in an epoch) of a model's scheme, whatever caches answer."""
    f, nnz = model.factors, train.nnz
    if model.solver != "fast":
        return nnz, 4 * f * nnz * (2 if model.solver == "cumf_sgd" else 4)
    if Fast.turned(model.hyperparameters, train):
        train = train.transposed()
    _, _, n_tiles, most, n_parts = Fast.shape(model.hyperparameters, train, backends.device(model.device))
    tiles = tiled(train, n_tiles, most, n_parts, model.options["longest"], model.seed)
    users = train.users[tiles.order]
    begins = np.r_[True, users[1:] != users[:-1]]
    first_of_tiles = tiles.segments[tiles.tile_segments[:-1]]
    begins[first_of_tiles[first_of_tiles < nnz]] = True
    runs = int(begins.sum())
    # A user's row in its own precision for each run; an item's in FP32 for each part of the users.
    return runs, 2 * model.options["precision"] // 8 * f * runs + 8 * f * train.n_items * n_parts


def summary(frame):
    """Return an epoch of each solver, medians: the rate, the bounds, ratings a run, and bytes an update.

    The bytes of an update are those of its rating and of rows.
    """
    table = frame.groupby("solver", sort=False).median(numeric_only=True).reset_index()
    return pd.DataFrame(
        {"kernel": table.solver, "seconds": table.seconds, "updates_per_second": table.x_nnz / table.seconds,
         "limit_seconds": table.x_limit_seconds, "fraction_of_limit": table.x_fraction_of_limit,
         "gather_seconds": table.x_gather_seconds, "ratings_a_run": table.x_nnz / table.x_runs,
         "bytes_an_update": 12 + table.x_row_bytes / table.x_nnz},
    )  # fmt: skip
