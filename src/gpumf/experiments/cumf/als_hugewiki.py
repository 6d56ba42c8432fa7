"""ALS at the size of Hugewiki: 3.1 billion ratings, made and trained on one GPU.

After Tan et al. 2018, section 5: 100 factors, lambda 0.05, a tenth of the ratings for the test. There four GPUs share
the matrix; here one holds it, in both orders, beside the factors. Without a GPU a small set of the same kind goes
through the same kernels on the processor.
"""

import time

import numpy as np
import pandas as pd

from gpumf import ALS, gpu
from gpumf import figure_style as style
from gpumf.datasets import gpu_twins
from gpumf.experiments import identity, kernels_unavailable
from gpumf.findings import Finding, Target, median
from gpumf.models.als.tensor_core import TensorCore
from gpumf.models.evaluation import kernel_sums
from gpumf.models.initial import uniform_factors

PROFILES = {
    "quick": {"data": "hugewiki-small-twin", "factors": 16, "iterations": 3},
    "full": {"data": "hugewiki-twin", "factors": 100, "iterations": 10},
}
PROFILES["smoke"] = PROFILES["quick"] | {"data": "hugewiki-small-twin", "iterations": 1}

_LONGEST = 1 << 15
"""Ratings of a segment: with shorter ones the sums of the popular items' many parts would take much of the memory."""

why_unavailable = kernels_unavailable


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
    model = ALS(factors, 0.05, solver="tensor_core", device=device.name)
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
        held_bytes = free - device.free_bytes()
        rows.append((data, device.name, factors, iteration, step, seconds, rmse, held_bytes))

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
        start = (uniform_factors(n, factors, ratings.mean, side << 60, device) for side, n in sides)
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


def summary(frame):
    """What each iteration takes, and leads to, from the frame of `run`.

    Returns
    -------
    DataFrame with the index iteration: users, items, iteration (seconds), rmse, held_bytes (after it)
    """
    trained = frame[frame.iteration > 0]
    after = trained[trained.step == "iteration"].set_index("iteration")[["rmse", "held_bytes"]]
    return trained.pivot(index="iteration", columns="step", values="seconds").join(after)


def figure(frame):
    """Seconds of the half-sweeps of each iteration (left), and the test RMSE after it (right)."""
    table = summary(frame)
    figure, (axes,) = style.panels(columns=2)
    below = 0
    for side, colour in (("users", "sky"), ("items", "purple")):
        axes[0].bar(table.index, table[side], 0.7, bottom=below, color=style.COLOURS[colour], label=side)
        below = table[side]
    axes[0].set(xlabel="iteration", ylabel="seconds")
    style.curve(axes[1], table.rmse, "ALS", "tensor_core")
    axes[1].set(xlabel="iteration", ylabel=f"test RMSE on {frame.data.iloc[0]}")
    style.legend(figure, axes[0], 2)
    return figure


def _iteration(frame):
    return *median(frame[frame.step == "iteration"].seconds), "s"


FINDINGS = [
    Finding(
        "als-hugewiki-seconds",
        "gpumf",
        None,
        "ALS, tensor_core | Hugewiki twin, 90 % of 3.1 billion ratings | 100 factors | an iteration on one GPU",
        _iteration,
        Target(2.0),
        devices=("nvidia-h200",),
    )
]
