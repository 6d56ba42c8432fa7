"""ALS at the size of the Netflix Prize: seconds an iteration and test error, tensor cores against exact FP32.

After Tan et al. 2018, section 5: 100 factors, lambda 0.05, the official test set; here on the twin. An iteration is
both half-sweeps with the data resident and the model updated.
"""

from functools import partial

import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator

from gpumf import ALS, backends
from gpumf_study import figure_style as style
from gpumf_study.experiments import identity, load_ratings
from gpumf_study.findings import Finding, Target, median

EXACT = "cumf_cholesky"

PROFILES = {
    "quick": {"data": "ml-100k-synthetic", "factors": 32, "epochs": 3, "repeats": 1},
    "full": {"data": "netflix-synthetic", "factors": 100, "epochs": 10, "repeats": 3},
}
PROFILES["smoke"] = PROFILES["quick"] | {"data": "ml-100k-synthetic", "epochs": 2}


def run(data, factors, epochs, repeats):
    """Train an exact solver in FP32 and the tensor-core kernel; without a GPU the exact one on all cores alone.

    repeats : int, trainings of each, from initial factors of seed k

    Returns
    -------
    DataFrame with a row an epoch: kernel, device, repeat, epoch, seconds (of training alone, summed up), rmse, mae
    (on the official test set, else on a fifth)
    """
    ratings = load_ratings(data)
    train, test = ratings.split(0.2) if ratings.test_mask is None else ratings.official_split()
    frames = []
    for kernel in [EXACT, "tensor_core"] if backends.available() else ["parallel"]:
        for repeat in range(repeats):
            fitted = ALS(factors, 0.05, solver=kernel, seed=repeat, biases=False, clip=False).fit(train, epochs, test)
            frames.append(fitted.history.assign(kernel=kernel, device=fitted.device, repeat=repeat))
    frame = pd.concat(frames, ignore_index=True)[["kernel", "device", "repeat", "epoch", "seconds", "rmse", "mae"]]
    frame.attrs["datasets"] = [identity(ratings)]
    return frame


def figure(frame):
    """Test RMSE against iterations (left) and against seconds of training (right), one line a kernel."""
    figure, (axes,) = style.panels(columns=2, height=3.8, sharey=True)
    runs = frame[frame.epoch > 0]
    for kernel in runs.kernel.unique():
        median = runs[runs.kernel == kernel].groupby("epoch")[["seconds", "rmse"]].median()
        style.curve(axes[0], median.rmse, "ALS", kernel)
        style.curve(axes[1], median.set_index("seconds").rmse, "ALS", kernel)
    axes[0].set(xlabel="iterations", ylabel="test RMSE")
    axes[0].xaxis.set_major_locator(MaxNLocator(integer=True))
    axes[1].set(xlabel="seconds of training")
    style.log_scale(axes[1].xaxis)
    style.legend(figure, axes[0], 3)
    return figure


def epoch_seconds(frame):
    """Of each repeat of each kernel the median of what an epoch adds to its seconds.

    Returns
    -------
    Series with the index (kernel, repeat)
    """
    added = frame.groupby(["kernel", "repeat"], sort=False).seconds.diff()
    return added.groupby([frame.kernel, frame.repeat], sort=False).median()


def summary(frame):
    """An iteration of each kernel, and where it ends, from the frame of `run`.

    Returns
    -------
    DataFrame with a row a kernel: kernel, seconds (of an iteration; the median over the repeats), spread (largest
    less smallest), rmse, mae (after the last epoch; medians)
    """
    seconds = epoch_seconds(frame).groupby("kernel", sort=False)
    last = frame[frame.epoch == frame.epoch.max()].groupby("kernel", sort=False)[["rmse", "mae"]].median()
    return seconds.agg(seconds="median", spread=np.ptp).join(last).reset_index()


def _iteration(frame, kernel):
    seconds = epoch_seconds(frame)
    return *median(seconds[seconds.index.get_level_values("kernel") == kernel]), "s"


def _rmse_gap(frame, kernel, epoch):
    """How far the test RMSE is from that of exact FP32 after an epoch, above or below: medians over the repeats."""
    after = frame[frame.epoch == epoch]
    (value, spread), (exact, spread_exact) = (median(after.rmse[after.kernel == name]) for name in (kernel, EXACT))
    return abs(value - exact), spread + spread_exact, "rating"


FINDINGS = [
    Finding(
        "als-explicit-seconds",
        "gpumf",
        None,
        "ALS, tensor_core | Netflix twin | 100 factors | an iteration",
        partial(_iteration, kernel="tensor_core"),
        Target(0.018, 0.012),
    ),
    Finding(
        "als-explicit-rmse-gap",
        "gpumf",
        None,
        "ALS, tensor_core | Netflix twin | 100 factors | test RMSE after 10 iterations, from that of exact FP32",
        partial(_rmse_gap, kernel="tensor_core", epoch=10),
        Target(0.001, 0.0003),
    ),
]
