"""What a better GPU gains cu2rec, by size of the data set, number of factors and number of steps.

Source: Greenquist and Kilitcioglu, "GPU vs GPU": a V100 against a TITAN Z with about as many cores and 0.75 of the
memory bandwidth. Here an H200 against an H100: as many multiprocessors, 0.7 of the bandwidth. Steps are timed alone,
without the losses that lower the learning rate. They are replayed from CUDA graphs, which are recorded before.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import SGD, backends
from gpumf_study import sweep
from gpumf_study.claims import Claim, above
from gpumf_study.experiments import kernels_unavailable, load_ratings
from gpumf_study.experiments.cu2rec import RATES

GPUS = LESSER, BETTER = "nvidia-h100-80gb-hbm3", "nvidia-h200"

PROFILES = {
    "quick": {"data": ["ml-100k-synthetic"], "part": [120, 100], "factors": [4, 8], "steps": [5], "repeats": 2},
    "full": {"data": ["ml-100k", "ml-1m-synthetic", "ml-10m-synthetic", "ml-20m-synthetic"], "part": None,
             "factors": [50, 100, 200, 300], "steps": [100, 500, 1000, 5000, 10_000], "repeats": 5},
}  # fmt: skip
PROFILES["smoke"] = PROFILES["quick"] | {"part": [60, 50], "steps": [2]}

why_unavailable = kernels_unavailable

_REPLAYED = "replayed steps"


def run(data, part, factors, steps, repeats):
    """Time steps, an update of every user each; a timing goes on where the one before ended."""
    device = backends.device("cuda" if backends.available() else "emulator")
    rows = []
    for name in data:
        loaded = load_ratings(name)
        ratings = sweep.corner(loaded, part)
        train, _ = ratings.split(0.2)
        labels = {"data": loaded.name, "task": _REPLAYED, "model": "SGD", "solver": "cu2rec", "device": device.name}
        labels |= {"phase": "train", "x_users": train.n_users, "x_nnz": train.nnz}
        train = replace(train, values=train.values - np.float32(train.mean))  # as a model with biases counts them
        for f in tqdm(factors, desc=f"cu2rec_gpus {ratings.name}", leave=False):
            model = SGD(f, biases=True, clip=False, solver="cu2rec", device=device.name, **RATES)
            trainer = model.make_solver(train)
            done = 0
            for repeat in range(-1, repeats):  # the first compiles and records
                for count in steps:
                    (seconds,) = device.time(lambda t=trainer, s=done, n=count: t.take_steps(s, n), 1, warmup=0)
                    done += count
                    if repeat >= 0:
                        rows.append(labels | {"factors": f, "repeat": repeat, "seconds": seconds, "x_steps": count})
    return pd.DataFrame(rows)


def _gain(name, statement, here, there, **options):
    """The claim that the better GPU gains more in a setting, (data, factors, steps), than in another."""
    where = [dict(zip(("data", "factors", "x_steps"), of, strict=True)) | {"task": _REPLAYED} for of in (here, there)]
    machines = {"over": {"machine": LESSER}, "under": {"machine": BETTER}}
    return Claim(f"cu2rec-gpus-{name}", "cu2rec", "GPU against GPU",
                 f"Speed-up of an H200 over an H100, {statement}.", metric="ratio_of_ratios",
                 select={"column": "seconds", **machines, "here": where[0], "there": where[1]}, evidence="synthetic",
                 device=GPUS, **options)  # fmt: skip


_LARGE = "ml-20m-synthetic"

CLAIMS = [
    _gain("size", "MovieLens 20M (synthetic) over 100K, 50 factors, 10,000 steps", (_LARGE, 50, 10_000),
          (["ml-100k", "ml-100k-synthetic"], 50, 10_000),  # of one shape, whichever a machine has
          criterion=above(1.0)),
    _gain("factors", "300 over 50 factors, MovieLens 20M (synthetic), 500 steps", (_LARGE, 300, 500),
          (_LARGE, 50, 500), criterion=above(1.0)),
    # Varied in the publication, whose text draws no conclusion of it.
    _gain("iterations", "10,000 over 100 steps, MovieLens 20M (synthetic), 50 factors", (_LARGE, 50, 10_000),
          (_LARGE, 50, 100)),
]  # fmt: skip
