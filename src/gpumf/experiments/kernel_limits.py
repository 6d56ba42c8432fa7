"""How far each kernel is from what the machine allows.

For every kernel two numbers before any time: the bytes it cannot avoid to move (every input read once, every output
written once) and the operations it must do, in FP16 where tensor cores do them and in FP32 elsewhere. Divided by the
ceilings measured in the same run, the larger time is the limit. Reuse that does not fit a cache, latency and uneven
rows all show as a fraction below one.
"""

from functools import partial

import numpy as np
import pandas as pd

from gpumf import ALS, SGD, gpu
from gpumf.cpu import machine
from gpumf.experiments import identity, load_ratings
from gpumf.models.evaluation import Errors

# The schemes of SGD whose plan is to move little; the others are timed by experiments/sgd_schemes.py.
SGD_KERNELS = "sequential", "parallel", "hogwild", "cumf_sgd", "fast"

PROFILES = {
    "quick": {"data": ["jester-1"], "factors": 16, "repeats": 10},
    "full": {"data": ["jester-twin", "douban-twin"], "factors": 16, "repeats": 20},
}


def run(data, factors, repeats):
    """Time this machine's GPU, or its CPU where there is none: ALS, SGD (the kernels of SGD_KERNELS), the errors.

    Returns
    -------
    DataFrame with a row a timing: data, kernel, step, device, repeat, seconds, bytes, flops, limit_seconds,
    fraction_of_limit
    """
    device = "cuda" if gpu.available() else "cpu"
    timed = gpu.device().time if gpu.available() else machine.seconds_of
    ceilings = gpu.device().ceilings() if gpu.available() else machine.ceilings()
    rows, identities = [], []
    for name in data:
        ratings = load_ratings(name)
        identities.append(identity(ratings))
        for kernel, step, work, moved, flops in _steps(ratings, factors, device):
            rate = ceilings["fp16_flops" if "tensor_core" in kernel else "fp32_flops"]
            limit = max(moved / ceilings["copy_bytes_per_second"], flops / rate)
            rows += [
                (ratings.name, kernel, step, device, k, seconds, moved, flops, limit, limit / seconds)
                for k, seconds in enumerate(timed(work, repeats))
            ]
    columns = ["data", "kernel", "step", "device", "repeat", "seconds", "bytes", "flops"]
    frame = pd.DataFrame(rows, columns=[*columns, "limit_seconds", "fraction_of_limit"])
    frame.attrs["datasets"] = identities
    return frame


def _steps(ratings, f, device):
    """(kernel, step, function that does it once, bytes, FLOP) of each thing that training consists of."""
    rows, nnz = {"users": ratings.n_users, "items": ratings.n_items}, ratings.nnz
    factor_bytes = 4 * f * sum(rows.values())

    def trainers(model):
        for kernel, where in model.kernels().items():
            if where == device and (model is not SGD or kernel in SGD_KERNELS):
                made = model(f, kernel=kernel)
                yield kernel, made._trainers[kernel](made, ratings, *made.initial_factors(ratings))

    # A symmetric rank-one update and r v per rating; a third of f^3 and two substitutions per row.
    for kernel, trainer in trainers(ALS):
        for side, solve in (("users", trainer.solve_users), ("items", trainer.solve_items)):
            flops = nnz * (f * (f + 1) + 2 * f) + rows[side] * (f**3 / 3 + 2 * f**2)
            yield f"ALS {kernel}", side, solve, 8 * nnz + 8 * (rows[side] + 1) + factor_bytes, flops

    # The inner product, and five operations for each of the 2 f factors.
    for kernel, updates in trainers(SGD):
        yield f"SGD {kernel}", "epoch", partial(updates.epoch, 0), 12 * nnz + 2 * factor_bytes, 12 * f * nnz

    errors = Errors(ratings, np.ones(nnz, bool), 0.0, f, device)
    factors = trainer.factors()
    yield "errors", "all ratings", lambda: errors(*factors), 12 * nnz + factor_bytes, nnz * (2 * f + 4)
