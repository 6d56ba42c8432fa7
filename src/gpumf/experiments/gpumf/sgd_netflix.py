"""SGD at the size of the Netflix Prize: every scheme on the twin, as `sgd_schemes` does it on smaller sets.

The official test set, 128 factors, lambda of cumf (Table 2), and one schedule for all: that of CuMF_SGD (Xie et al.
2017). A full run gives one core as many epochs as say how long they take. What it learns in all of them depends on no
GPU, and is recorded without one:

    make experiment NAME=sgd_netflix ARGS='--profile full --record schemes=["sequential"] shorter={}'
"""

import pandas as pd

from gpumf.experiments.gpumf import sgd_schemes

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
