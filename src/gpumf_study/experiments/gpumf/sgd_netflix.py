"""SGD at the size of the Netflix Prize: every scheme on the twin, as `sgd_schemes` does it on smaller sets.

The official test set, 128 factors, lambda of cumf (Table 2), and one schedule for all: that of CuMF_SGD (Xie et al.
2017). A full run gives one core as many epochs as say how long they take. What schemes learn that take each rating
once is compared with all cores that do (`sgd_schemes.ONCE_EACH`), from as many seeds as `fast`.
"""

from functools import partial

import numpy as np

from gpumf_study.experiments.gpumf import sgd_schemes
from gpumf_study.experiments.gpumf.sgd_schemes import DRAWN, ONCE_EACH
from gpumf_study.findings import Finding, Target, median

PROFILES = {
    "quick": sgd_schemes.PROFILES["quick"] | {"data": ["ml-100k-synthetic"], "schemes": [DRAWN, ONCE_EACH, "fast"]},
    # Where an epoch takes seconds, as many as say how long.
    "full": sgd_schemes.PROFILES["full"]
    | {
        "data": ["netflix-synthetic"],
        "repeats": 3,
        "shorter": {DRAWN: 2, "ordered": 2, "parallel": 5, "gpusgd": 2, "newgpusgd, FP64": 5},
    },
}
PROFILES["smoke"] = PROFILES["quick"] | {"data": ["ml-100k-synthetic"], "epochs": 2}


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


def _rmse_excess(frame, scheme, epoch):
    """The test RMSE after an epoch, less that of the reference that takes each rating once with the same schedule."""
    after = frame[frame.epoch == epoch].groupby("scheme").rmse
    (value, spread), (reference, spread_reference) = (
        median(after.get_group(name)) if name in after.groups else (np.nan, np.nan) for name in (scheme, ONCE_EACH)
    )
    # A scheme that was trained once has no known spread.
    return value - reference, np.hypot(*np.nan_to_num([spread, spread_reference])), "rating"


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
        "SGD, fast | Netflix twin | 128 factors | test RMSE after 20 epochs above that of cores that take each "
        "rating once, in 32 × 32 blocks",
        partial(_rmse_excess, scheme="fast", epoch=20),
        Target(0.003, 0),
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
