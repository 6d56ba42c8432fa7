"""ALS with more ratings than the device holds: both orders lie on the host, and rows are streamed in chunks.

The twin of Hugewiki, made on the device, is brought to the host, 8 bytes a rating in each order; the device keeps the
factors and two chunks. Without a GPU a small set of the same kind goes through the same kernels on the processor.
"""

import time

import pandas as pd

from gpumf import ALS, gpu
from gpumf import figure_style as style
from gpumf.datasets import CompressedRows, gpu_twins
from gpumf.experiments import identity, kernels_unavailable
from gpumf.findings import Finding, Target, median
from gpumf.models.als.tensor_core import TensorCore
from gpumf.models.initial import uniform_factors

PROFILES = {
    "quick": {"data": "hugewiki-small-twin", "factors": 16, "chunk": 1_000, "iterations": 3},
    "full": {"data": "hugewiki-twin", "factors": 100, "chunk": 64 << 20, "iterations": 3},
}
PROFILES["smoke"] = PROFILES["quick"] | {"iterations": 1}

_LONGEST = 1 << 15
"""Ratings of a segment: with shorter ones the sums of the popular items' many parts would take much of the memory."""

why_unavailable = kernels_unavailable


class _OnHost:
    """A twin whose orders lie on the host. They are taken from the one on the device, one after another."""

    def __init__(self, twin, device):
        self.n_users, self.n_items = twin.n_users, twin.n_items
        self.by_user, self.by_item = (
            CompressedRows(rows.indptr, device.to_numpy(rows.indices), device.to_numpy(rows.values))
            for rows in (twin.by_user, twin.by_item)
        )


def run(data, factors, chunk, iterations):
    """Make a twin, bring it to the host, and train the tensor-core kernel on it in chunks.

    Parameters
    ----------
    data : str, one of `gpu_twins.TWINS`
    factors, iterations : int
    chunk : most ratings on the device at a time

    Returns
    -------
    DataFrame with a row a step: data, device, factors, chunk, nnz (ratings trained on), iteration (0 before the
    first), step ('prepare' factors and work lists, half-sweeps 'users' and 'items', the 'iteration' of both), seconds

    Raises
    ------
    gpumf.gpu.DeviceError : where the twin while it is made, or the factors and a chunk, do not fit the device
    """
    device = gpu.device("cuda" if gpu.available() else "host")
    model = ALS(factors, 0.05, solver="tensor_core", device=device.name, chunk=chunk)
    twin = gpu_twins.twin(data, device=device.name)
    facts, mean = identity(twin), twin.mean
    ratings = _OnHost(twin, device)
    del twin
    rows = []

    def record(iteration, step, seconds):
        nnz = len(ratings.by_user.values)
        rows.append((data, device.name, factors, chunk, nnz, iteration, step, seconds))

    started = time.perf_counter()
    sides = enumerate((ratings.n_users, ratings.n_items))
    start = (uniform_factors(n, factors, mean, side << 60, device) for side, n in sides)
    trainer = TensorCore(model, ratings, *start, longest=_LONGEST)
    trainer.synchronize()
    record(0, "prepare", time.perf_counter() - started)
    for iteration in range(1, iterations + 1):
        seconds = []
        for step, solve in (("users", trainer.solve_users), ("items", trainer.solve_items)):
            # By the host's clock: it copies, too.
            started = time.perf_counter()
            solve()
            trainer.synchronize()
            seconds.append(time.perf_counter() - started)
            record(iteration, step, seconds[-1])
        record(iteration, "iteration", sum(seconds))
    columns = ["data", "device", "factors", "chunk", "nnz", "iteration", "step", "seconds"]
    frame = pd.DataFrame(rows, columns=columns)
    frame.attrs["datasets"] = [facts]
    return frame


def summary(frame):
    """Seconds by iteration: a DataFrame with the columns users, items, iteration."""
    return frame[frame.iteration > 0].pivot(index="iteration", columns="step", values="seconds")


def figure(frame):
    """Seconds of the half-sweeps of each iteration."""
    table = summary(frame)
    figure, ((axis,),) = style.panels()
    below = 0
    for side, colour in (("users", "sky"), ("items", "purple")):
        axis.bar(table.index, table[side], 0.7, bottom=below, color=style.COLOURS[colour], label=side)
        below = table[side]
    axis.set(xlabel="iteration", ylabel="seconds")
    style.legend(figure, axis, 2)
    return figure


def _iteration(frame):
    return *median(frame[frame.step == "iteration"].seconds), "s"


FINDINGS = [
    Finding(
        "als-streamed-seconds",
        "gpumf",
        None,
        "ALS, tensor_core | Hugewiki twin, ratings on the host | 100 factors | an iteration on one GPU",
        _iteration,
        Target(3, 1.5),
    )
]
