"""ALS at the size of Hugewiki: 3.1 billion ratings made on one GPU, 2.79 billion of which it trains on.

Source: Tan et al. 2018, section 5: 100 factors, lambda 0.05, a tenth of the ratings for the test. Items are numbered
without regard to how popular they are. Table 4 has four GPUs, which share the matrix; here one holds it, in both
orders, beside the factors. Without a GPU the emulator runs the same kernels on a small data set.
"""

import time

import numpy as np

from gpumf import backends
from gpumf.ratings import synthetic_device
from gpumf_study import figure_style as style
from gpumf_study.claims import Claim
from gpumf_study.experiments import _published, identity, kernels_unavailable
from gpumf_study.experiments.cumf import _half_sweeps

PROFILES = {
    "quick": {"data": "hugewiki-small-synthetic", "factors": 16, "iterations": 3, "repeats": 1},
    "full": {"data": "hugewiki-synthetic", "factors": 100, "iterations": 10, "repeats": 5},
}
PROFILES["smoke"] = PROFILES["quick"] | {"data": "hugewiki-small-synthetic", "iterations": 1}

why_unavailable = kernels_unavailable
of_trainings = _half_sweeps.of_trainings


def run(data, factors, iterations, repeats):
    """Make a data set on the device and fit a model to it, where it is.

    data : str, one of `gpumf.ratings.synthetic_device.RECIPES`
    repeats : int, trainings, each from other factors

    Return a DataFrame with a row a step: repeat, x_iteration (0 for what is not of one), x_step ('generate' the
    ratings, and those of `_half_sweeps.fit`), seconds, the test RMSE as value, x_held_bytes (of device memory, when
    it was noted)

    Raise gpumf.backends.DeviceError where the ratings and factors do not fit the device.
    """
    device = backends.device("cuda" if backends.available() else "emulator")
    free = device.free_bytes()
    spec = synthetic_device.RECIPES[data]
    # Each rating twice, 8 bytes; factors in FP32, and in FP16 with their padding; 32 bytes a row of the work lists.
    needed = 16 * spec.ratings + (spec.users + spec.items) * (4 * factors + 2 * (factors + 16) + 32)
    if needed > free:
        raise backends.DeviceError(
            f"{data} with {factors} factors takes about {needed / 1e9:.0f} GB of device memory, and "
            f"{free / 1e9:.0f} GB are free; take a larger "
            f"device or a smaller data set of {', '.join(synthetic_device.RECIPES)}"
        )
    rows = []

    def record(repeat, iteration, step, seconds, rmse=np.nan):
        row = {"repeat": repeat, "x_iteration": iteration, "x_step": step, "seconds": seconds, "value": rmse}
        rows.append(row | {"x_held_bytes": free - device.free_bytes()})

    synthetic_device.synthetic_ratings("hugewiki-small-synthetic", device=device.name)  # compiles
    started = time.perf_counter()
    ratings = synthetic_device.synthetic_ratings(data, device=device.name)
    device.synchronize()
    record(0, 0, "generate", time.perf_counter() - started)
    _half_sweeps.trainings(ratings.train, ratings.test, factors, iterations, repeats, record, device=device.name)
    frame = _half_sweeps.frame_of(rows, data=data, device=device.name, factors=factors)
    frame.attrs["datasets"] = [identity(ratings)]
    return frame


def errors(frame):
    """Return the test RMSE after each iteration, the median of trainings: a Series."""
    return frame[frame.x_step == "iteration"].groupby("x_iteration").value.median()


def figure(frame):
    """Draw seconds of the updates of each iteration (left), and the test RMSE after it (right)."""
    figure, (axes,) = style.panels(columns=2)
    table, error = _half_sweeps.table(frame), errors(frame)
    _half_sweeps.bars(axes[0], table)
    axes[0].axhline(median := table.iteration.median(), color="0.4", linestyle=":")
    axes[0].set_title(f"median of an iteration: {median:.2f} s", fontsize=10)
    style.curve(axes[1], error, "ALS", "tensor_core")
    axes[1].axhline(goal := _published.value("Table 2", "acceptable error", "hugewiki", source="cumf"), color="0.6")
    axes[1].set_title(f"RMSE {goal:g} after {seconds_to_052(frame):.1f} s of training", fontsize=10)
    axes[1].set(xlabel="iteration", ylabel=f"test RMSE, {style.data_name(frame.data.iloc[0])}")
    style.legend(figure, axes[0], 2)
    return figure


def seconds_to_052(frame):
    """Return the seconds of the iterations until the published acceptable error, the median of trainings."""
    return to_052(frame).median()


def to_052(frame):
    """As `seconds_to_052`, by training: a Series; NaN where no iteration reaches it."""
    level = _published.value("Table 2", "acceptable error", "hugewiki", source="cumf")
    rows = frame[frame.x_step == "iteration"]
    seconds = rows.groupby("repeat").seconds.cumsum().where(rows.value <= level)
    return seconds.groupby(rows.repeat).min()


def over_p100(frame):
    """Return the published seconds on four P100 over those of each training until the acceptable error."""
    stated = _published.value("Table 4", "time to the acceptable error", "hugewiki", "cuMF_ALS, Pascal", "cumf")
    return (stated / to_052(frame)).rename("value").reset_index()


CLAIMS = [
    Claim("cumf-table-4-hugewiki", "cumf", "Table 4",
          "Speed-up of one H200, tensor cores, over four P100 to RMSE 0.52, Hugewiki (synthetic).", metric="median",
          select={"column": "value", "times": 1}, evidence="built in", table=over_p100, device="nvidia-h200"),
]  # fmt: skip
