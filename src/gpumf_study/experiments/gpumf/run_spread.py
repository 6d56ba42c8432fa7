"""What the seconds of the same epochs differ by between runs, on the CPU and on the GPU; for `gpumf_study.spread`.

A run is a process of its own, so that a recording is started as often as it has runs, best on a machine that was
started anew each time: take build/measured along. The work is what claims on times are about, on sets that are drawn
in seconds: epochs long enough for a clock, memory traffic, and all threads or one.
"""

from functools import partial

import numpy as np
import pandas as pd

from gpumf import ALS, SGD, ImplicitALS
from gpumf._util import threads
from gpumf_study.experiments import _kept, load_ratings, usable_devices

_ALS = {"regularization": 0.05, "biases": False, "clip": False}
_SGD = _ALS | {"learning_rate": 0.01}
_IMPLICIT = {"regularization": 0.1, "unobserved_weight": 1.0, "regularization_exponent": 0.0}
_SOLVERS = [
    *((ALS, 16, solver, _ALS) for solver in ("sequential", "parallel")),
    (ALS, 64, "parallel_cg", _ALS),
    *((ALS, 100, solver, _ALS) for solver in ("cumf_cg", "tensor_core")),
    *((ImplicitALS, 64, solver, _IMPLICIT) for solver in ("parallel_cg", "tensor_core")),
    *((SGD, 16, solver, _SGD) for solver in ("ordered", "parallel")),
    (SGD, 64, "ordered_parallel", _SGD),
    *((SGD, 128, solver, _SGD) for solver in ("cumf_sgd", "fast")),
]
PROFILES = {
    "quick": {"data": ["ml-100k-synthetic"], "epochs": 20, "runs": 2},
    "full": {"data": ["douban-synthetic", "ml-10m-synthetic"], "epochs": 12, "runs": 8},
}
PROFILES["smoke"] = PROFILES["quick"] | {"epochs": 2}


def run(data, epochs, runs):
    """Time so many epochs of every solver in each run, after an epoch that is not timed.

    Return a DataFrame with a row a run, data set and solver: repeat is the run, seconds the median epoch
    """
    found = _kept.of_processes(runs, partial(_one_run, data, epochs))
    return pd.concat([frame.assign(repeat=number) for number, frame in enumerate(found)], ignore_index=True)


def _one_run(data, epochs):
    usable, rows = usable_devices(), []
    for name in data:
        ratings = load_ratings(name)
        for kind, factors, solver, options in _SOLVERS:
            if (device := kind.solvers()[solver]) not in usable:
                continue
            history = kind(factors, solver=solver, seed=0, **options).fit(ratings, 1 + epochs).history
            rows.append({"data": ratings.name, "model": kind.__name__, "solver": solver, "device": device,
                         "factors": factors, "seconds": float(np.median(np.diff(history.seconds))),
                         "x_nnz": ratings.nnz})  # fmt: skip
    return pd.DataFrame(rows).assign(task="epoch", phase="train", threads=threads.count())


def variances(frame):
    """Return by device the variance of the logarithm of a time between runs, its mean over all work: a Series."""
    work = np.log(frame.seconds).groupby([frame.device, frame.data, frame.model, frame.solver])
    return work.var().groupby("device").mean()
