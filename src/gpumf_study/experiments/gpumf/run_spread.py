"""What the seconds of the same epochs differ by between runs, on the CPU and on the GPU; for `gpumf_study.spread`.

A run is a process of its own, so that a recording is started as often as it has runs, best on a machine that was
started anew each time: take build/measured along. The work is what claims on times are about, on sets that are drawn
in seconds: epochs long enough for a clock, memory traffic, and all threads or one.
"""

from functools import partial

import pandas as pd

from gpumf import ALS, SGD, ImplicitALS
from gpumf._util import threads
from gpumf_study import sweep
from gpumf_study.experiments import _kept, load_ratings, usable_devices

_ALS = {"regularization": 0.05, "biases": False, "clip": False}
_SGD = _ALS | {"learning_rate": 0.01}
_IMPLICIT = {"regularization": 0.1, "unobserved_weight": 1.0, "regularization_exponent": 0.0}
_SOLVERS = [
    *((ALS, 16, solver, _ALS) for solver in ("sequential", "parallel")),
    (ALS, 64, "parallel_cg", _ALS),
    (ALS, 16, "thesis_shared", _ALS),
    *((ALS, 100, solver, _ALS) for solver in ("cumf_lu", "cumf_cholesky", "cumf_cg", "cumf_cg_fp16", "tensor_core")),
    *((ImplicitALS, 64, solver, _IMPLICIT) for solver in ("parallel_cg", "tensor_core")),
    *((SGD, 16, solver, _SGD) for solver in ("ordered", "parallel")),
    (SGD, 64, "ordered_parallel", _SGD),
    *((SGD, 128, solver, _SGD) for solver in ("hogwild", "newgpusgd", "cumf_sgd", "fast")),
]
PROFILES = {
    "quick": {"data": ["ml-100k-synthetic"], "epochs": 20, "runs": 2},
    "full": {"data": ["douban-synthetic", "ml-10m-synthetic"], "epochs": 12, "runs": 8},
}
PROFILES["smoke"] = PROFILES["quick"] | {"epochs": 2}


def run(data, epochs, runs):
    """Time so many epochs of every solver in each run, after a fit that is not timed.

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
            seconds = sweep.median_epoch(kind(factors, solver=solver, seed=0, **options), ratings, 1 + epochs)
            rows.append({"data": ratings.name, "model": kind.__name__, "solver": solver, "device": device,
                         "factors": factors, "seconds": seconds, "x_nnz": ratings.nnz})  # fmt: skip
    return pd.DataFrame(rows).assign(task="epoch", phase="train", threads=threads.count())
