"""SGD at the size of the Netflix Prize: every scheme on the twin, as `sgd_schemes` does it on smaller sets.

The official test set, 128 factors, lambda of cumf (Table 2), and one schedule for all: that of CuMF_SGD (Xie et al.
2017).
"""

import pandas as pd

from gpumf.experiments import sgd_schemes

REFERENCE = "sequential"

# The published program on an H100, at this shape, with 128 factors in FP16. This package has not measured it: it may
# be set beside its times, but not divided by them.
PUBLISHED = pd.DataFrame(
    [("cuMF_SGD", 2.58e9, 0.0384)], columns=["program", "updates_per_second", "seconds_per_epoch"]
)

PROFILES = {
    "quick": sgd_schemes.PROFILES["quick"] | {"data": ["ml-100k-twin"], "schemes": [REFERENCE, "fast"]},
    # An epoch of GPUSGD takes seconds: as many as say how long.
    "full": sgd_schemes.PROFILES["full"] | {"data": ["netflix-twin"], "repeats": 2, "shorter": {"gpusgd": 3}},
}


def run(**parameters):
    """The frame of `sgd_schemes.run`."""
    return sgd_schemes.run(**parameters)
