"""SGD at the size of the Netflix Prize: every scheme on the twin, as `sgd_schemes` does it on smaller sets.

The official test set, 128 factors, lambda of cumf (Table 2), and one schedule for all: that of CuMF_SGD (Xie et al.
2017). A full run gives one core as many epochs as say how long they take. What it learns in all of them depends on no
GPU, and is recorded without one:

    make experiment NAME=sgd_netflix ARGS='--profile full --record schemes=["sequential"] shorter={}'
"""

from functools import partial

import numpy as np
import pandas as pd

from gpumf import results
from gpumf.experiments.gpumf import sgd_schemes
from gpumf.findings import Finding, Target, median

REFERENCE = "sequential"

# The published program on an H100, at this shape, with 128 factors in FP16. This package has not measured it: it may
# be set beside its times, but not divided by them.
PUBLISHED = pd.DataFrame(
    [("cuMF_SGD", 2.58e9, 0.0384)], columns=["program", "updates_per_second", "seconds_per_epoch"]
)

PROFILES = {
    "quick": sgd_schemes.PROFILES["quick"] | {"data": ["ml-100k-twin"], "schemes": [REFERENCE, "fast"]},
    # Where an epoch takes seconds, as many as say how long.
    "full": sgd_schemes.PROFILES["full"]
    | {
        "data": ["netflix-twin"],
        "repeats": 1,
        "shorter": {REFERENCE: 2, "parallel": 5, "gpusgd": 2, "newgpusgd, FP64": 5},
    },
}
PROFILES["smoke"] = PROFILES["quick"] | {"data": ["ml-100k-twin"], "epochs": 2}


def run(**parameters):
    """The frame of `sgd_schemes.run`."""
    return sgd_schemes.run(**parameters)


def epoch_seconds(frame, scheme):
    """The median, over epochs and repeats, of what an epoch adds to a scheme's seconds."""
    return frame[frame.scheme == scheme].groupby("repeat").seconds.diff().median()


summary, figure = sgd_schemes.summary, sgd_schemes.figure


def _updates(frame, scheme):
    """Billions of updates a second: the ratings of the training set over the seconds of an epoch."""
    seconds = frame[frame.scheme == scheme].groupby("repeat").seconds.diff().dropna()
    return *median(frame.nnz.iloc[0] / seconds / 1e9), "G/s"


def _rmse_excess(frame, of_cpu, scheme, epoch):
    """The test RMSE after an epoch, less that of one core with the same schedule."""
    after = pd.concat([frame, of_cpu]).query("epoch == @epoch")
    (value, spread), (reference, spread_reference) = (
        median(after.rmse[after.scheme == name]) for name in (scheme, REFERENCE)
    )
    # A scheme that was trained once has no known spread.
    return value - reference, spread + np.nan_to_num(spread_reference), "rating"


FINDINGS = [
    Finding(
        "sgd-fast-updates",
        "gpumf",
        None,
        "SGD, fast | Netflix twin | 128 factors | updates a second",
        partial(_updates, scheme="fast"),
        Target(5, 8, "higher"),
    ),
    Finding(
        "sgd-fast-rmse-gap",
        "gpumf",
        None,
        "SGD, fast | Netflix twin | 128 factors | test RMSE after 20 epochs above that of one core, which draws with "
        "replacement",
        partial(_rmse_excess, scheme="fast", epoch=20),
        Target(0.003, 0),
        devices=(results.REFERENCE, "cpu"),
    ),
    Finding(
        "sgd-cumf-updates",
        "gpumf",
        None,
        "SGD, cumf_sgd | Netflix twin | 128 factors | updates a second",
        partial(_updates, scheme="cumf_sgd"),
        Target(2.6, better="higher"),
    ),
]
