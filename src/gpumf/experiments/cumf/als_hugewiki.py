"""ALS at the size of Hugewiki: 3.1 billion ratings, made and trained on one GPU.

After Tan et al. 2018, section 5: 100 factors, lambda 0.05, a tenth of the ratings for the test. There four GPUs share
the matrix; here one holds it, in both orders, beside the factors. Without a GPU a small set of the same kind goes
through the same kernels on the processor.
"""

import time

import numpy as np
import pandas as pd

from gpumf import ALS, gpu
from gpumf.datasets import gpu_twins
from gpumf.experiments import identity
from gpumf.models.als.tensor_core import TensorCore
from gpumf.models.evaluation import kernel_sums
from gpumf.models.initial import uniform_factors

PROFILES = {
    "quick": {"data": "hugewiki-small-twin", "factors": 16, "iterations": 3},
    "full": {"data": "hugewiki-twin", "factors": 100, "iterations": 10},
}

_LONGEST = 1 << 15
"""Ratings of a segment: with shorter ones the sums of the popular items' many parts would take much of the memory."""


def run(data, factors, iterations):
    """Make a twin on the device and train the tensor-core kernel on it.

    Parameters
    ----------
    data : str, one of `gpu_twins.TWINS`
    factors, iterations : int

    Returns
    -------
    DataFrame with a row a step: data, device, factors, iteration (0 before the first), step ('generate' the ratings,
    'prepare' factors and work lists, half-sweeps 'users' and 'items', the 'iteration' of both), seconds, rmse (on the
    test set, after it; of an 'iteration' and, at 0, of the initial factors), held_bytes (of device memory, after it)

    Raises
    ------
    gpumf.gpu.DeviceError : where the ratings and factors do not fit the device
    """
    device = gpu.device("cuda" if gpu.available() else "host")
    model = ALS(factors, 0.05, kernel="tensor_core", device=device.name)
    free = device.free_bytes()
    spec = gpu_twins.TWINS[data]
    # Each rating twice, 8 bytes; factors in FP32, and in FP16 with their padding; 32 bytes a row of the work lists.
    needed = 16 * spec.ratings + (spec.users + spec.items) * (4 * factors + 2 * (factors + 16) + 32)
    if needed > free:
        raise gpu.DeviceError(
            f"{data} with {factors} factors takes about {needed / 1e9:.0f} GB of device memory, and "
            f"{free / 1e9:.0f} GB are free; take a larger device or a smaller twin of {', '.join(gpu_twins.TWINS)}"
        )
    rows = []

    def record(iteration, step, seconds, rmse=np.nan):
        held = free - device.free_bytes()
        rows.append((data, device.name, factors, iteration, step, seconds, rmse, held))

    def timed(work):
        started = time.perf_counter()
        result = work()
        device.synchronize()
        return result, time.perf_counter() - started

    gpu_twins.twin("hugewiki-small-twin", device=device.name)  # compiles
    ratings, seconds = timed(lambda: gpu_twins.twin(data, device=device.name))
    record(0, "generate", seconds)

    def trainer_and_errors():
        sides = enumerate((ratings.n_users, ratings.n_items))
        start = (uniform_factors(device, n, factors, ratings.mean, side << 60) for side, n in sides)
        return TensorCore(model, ratings, *start, longest=_LONGEST), kernel_sums(ratings.test, factors, device)

    (trainer, sums), seconds = timed(trainer_and_errors)

    def rmse():
        _, squared = sums(*trainer.factors())
        return float(np.sqrt(squared / len(ratings.test.values)))

    record(0, "prepare", seconds, rmse())
    for iteration in range(1, iterations + 1):
        halves = {"users": trainer.solve_users, "items": trainer.solve_items}
        seconds = {step: device.time(solve, repeats=1, warmup=0)[0] for step, solve in halves.items()}
        for step in halves:
            record(iteration, step, seconds[step])
        record(iteration, "iteration", sum(seconds.values()), rmse())

    columns = ["data", "device", "factors", "iteration", "step", "seconds", "rmse", "held_bytes"]
    frame = pd.DataFrame(rows, columns=columns)
    frame.attrs["datasets"] = [identity(ratings)]
    return frame
