"""ALS and SGD by `gpumf.distributed.fit` on one, two and four GPUs, beside a plain `fit` on one.

Source: Tan et al. 2018, section 5.5 and Figure 8 (ALS and SGD on one and four GPUs): 100 factors. ALS shares out rows
and gathers factors; SGD trains on workers x workers blocks, items going round a ring. Without GPUs two processes of
this machine are the workers.
"""

from contextlib import ExitStack
from functools import cache, partial
from itertools import product

import pandas as pd
from tqdm import tqdm

from gpumf import ALS, SGD, backends
from gpumf_study import sweep
from gpumf_study.claims import Claim
from gpumf_study.experiments import _kept, load_ratings, official, usable_workers, workers_unavailable

PLAIN = 0
"""In the place of a number of workers: a plain `fit`, without Dask."""

PROFILES = {
    "quick": {"data": "ml-100k-synthetic", "part": [150, 120],
              "fits": [["ALS", "parallel", 8, 3], ["SGD", "ordered", 8, 4]], "workers": [1, 2], "repeats": 1},
    "full": {"data": "netflix-synthetic", "part": None,
             "fits": [["ALS", "tensor_core", 100, 10], ["SGD", "fast", 100, 20]], "workers": [1, 2, 4], "repeats": 5},
}  # fmt: skip
PROFILES["smoke"] = PROFILES["quick"] | {"part": [60, 50], "workers": [2]}
_MODELS = {
    "ALS": partial(ALS, regularization=0.05, biases=False, clip=False),
    "SGD": partial(SGD, regularization=0.05, learning_rate=0.03, biases=False, clip=False),
}

why_unavailable = workers_unavailable


def run(data, part, fits, workers, repeats):
    """Train each model plainly, and on each number of workers that the machine has a GPU for.

    part : (users, items) of it that are taken, or None for all
    fits : list of [model, solver, factors, epochs]
    repeats : int, trainings after a first one of one epoch, which compiles; all from the same factors

    Return a DataFrame with the rows of `sweep.rows`, and x_workers (PLAIN for none); repeats count from 1. Each
    training is a piece of a recording, see `_kept.once`
    """
    from gpumf.distributed import fit, local_cluster

    ratings = sweep.corner(load_ratings(data), part)
    train, test = official(ratings)
    gpus, counts, frames = backends.gpus(), usable_workers(workers), []
    with ExitStack() as stack:

        @cache
        def client():
            """One cluster for all: its workers have what they compiled."""
            return stack.enter_context(local_cluster(max(counts)))

        def trained(n, name, solver, factors, epochs):
            model = _MODELS[name](factors, solver=solver, device="cuda" if gpus else "cpu")
            if n == PLAIN:
                return model.fit(train, epochs, test)
            return fit(model, train, epochs, test, client=client(), workers=n)

        @cache
        def warm(n, name, solver, factors):
            trained(n, name, solver, factors, 1)

        def measured(n, *of_fit):
            warm(n, *of_fit[:-1])
            return sweep.rows(trained(n, *of_fit), ("rmse", "mae"))

        todo = list(product([PLAIN, *counts], fits, range(1, repeats + 1)))
        for n, of_fit, repeat in tqdm(todo, desc="trainings", leave=False):
            rows = _kept.once(f"{n} {of_fit[0]} {repeat}", partial(measured, n, *of_fit))
            frames.append(rows.assign(data=data, x_nnz=train.nnz, x_workers=n, repeat=repeat))
    frame = pd.concat(frames, ignore_index=True)
    frame.attrs["gpus"] = max(gpus, 1)
    return frame


epochs = sweep.epoch_seconds
_BY = ["model", "x_workers"]


def summary(frame):
    """Return by model and workers medians: seconds (of an epoch), end_to_end (without compiling), rmse (last epoch),
    speed_up (a plain fit's seconds over these) and gap (of the error from a plain fit's)."""
    seconds = epochs(frame).groupby(_BY, sort=False).seconds.median()
    whole = sweep.phase_seconds(frame, without=("compile",)).groupby(_BY).seconds.median()
    rmse = sweep.last_epoch(frame).groupby(_BY).value.median()
    table = pd.DataFrame({"seconds": seconds, "end_to_end": whole, "rmse": rmse}).reindex(seconds.index)
    plain = table.xs(PLAIN, level="x_workers").reindex(table.index.get_level_values("model"))
    table["speed_up"] = plain.seconds.to_numpy() / table.seconds
    return table.assign(gap=table.rmse - plain.rmse.to_numpy())


def _faster(model):
    return Claim(f"{model.lower()}-netflix-4gpu-speedup", "gpumf", None,
                 f"Time of an epoch of {model} on one GPU over that on four, Netflix (synthetic).", metric="ratio",
                 select={"column": "seconds", "where": {"model": model}, "over": {"x_workers": PLAIN},
                         "under": {"x_workers": 4}}, evidence="synthetic", table=epochs,
                 device="nvidia-h200-x4")  # fmt: skip


CLAIMS = [
    _faster("ALS"),
    _faster("SGD"),
    Claim("distributed-wall", "gpumf", None,
          "End-to-end seconds of ALS on one worker of Dask above those of a plain fit, Netflix (synthetic).",
          metric="difference",
          select={"column": "seconds", "where": {"model": "ALS"}, "over": {"x_workers": 1},
                  "under": {"x_workers": PLAIN}}, evidence="synthetic",
          table=partial(sweep.phase_seconds, without=("compile",)), device="nvidia-h200-x4"),
]  # fmt: skip
