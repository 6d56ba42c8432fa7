"""ALS with more ratings than the device holds: both orders lie on the host, and rows are streamed in chunks.

The twin of Hugewiki, made on the device, is brought to the host, 8 bytes a rating in each order; the device keeps the
factors and two chunks. Without a GPU a small set of the same kind goes through the same kernels on the processor.
"""

import pandas as pd

from gpumf import backends
from gpumf.ratings import synthetic_device
from gpumf_study import figure_style as style
from gpumf_study.experiments import identity, kernels_unavailable
from gpumf_study.experiments.cumf import _half_sweeps
from gpumf_study.findings import Finding, Target

PROFILES = {
    "quick": {"data": "hugewiki-small-synthetic", "factors": 16, "chunk": 1_000, "iterations": 3},
    "full": {"data": "hugewiki-synthetic", "factors": 100, "chunk": 64 << 20, "iterations": 3},
}
PROFILES["smoke"] = PROFILES["quick"] | {"iterations": 1}

why_unavailable = kernels_unavailable


def run(data, factors, chunk, iterations):
    """Make a twin, bring it to the host, and fit a model to it in chunks.

    Parameters
    ----------
    data : str, one of `gpumf.ratings.synthetic_device.RECIPES`
    factors, iterations : int
    chunk : most ratings on the device at a time

    Returns
    -------
    DataFrame with a row a step: data, device, factors, chunk, nnz (ratings trained on), iteration (0 for what is not
    of one), step (those of `_half_sweeps.fit`), seconds

    Raises
    ------
    gpumf.backends.DeviceError : where the twin while it is made, or the factors and a chunk, do not fit the device
    """
    device = backends.device("cuda" if backends.available() else "emulator")
    twin = synthetic_device.synthetic_ratings(data, device=device.name)
    facts, train = identity(twin), twin.train.on_host()
    del twin
    rows = []

    def record(iteration, step, seconds, rmse):
        rows.append((data, device.name, factors, chunk, train.nnz, iteration, step, seconds))

    _half_sweeps.fit(train, None, factors, iterations, record, device=device.name, chunk=chunk)
    columns = ["data", "device", "factors", "chunk", "nnz", "iteration", "step", "seconds"]
    frame = pd.DataFrame(rows, columns=columns).sort_values("iteration", kind="stable", ignore_index=True)
    frame.attrs["datasets"] = [facts]
    return frame


summary = _half_sweeps.table


def figure(frame):
    """Seconds of the half-sweeps of each iteration."""
    figure, ((axis,),) = style.panels()
    _half_sweeps.bars(axis, summary(frame))
    style.legend(figure, axis, 2)
    return figure


FINDINGS = [
    Finding(
        "als-streamed-seconds",
        "gpumf",
        None,
        "ALS, tensor_core | Hugewiki twin, ratings on the host | 100 factors | an iteration on one GPU",
        _half_sweeps.iteration,
        Target(3, 1.5),
    )
]
