"""SGD at the size of the Netflix Prize: every scheme on the synthetic data set, as in `sgd_schemes` on smaller ones.

The official test set, 128 factors, lambda of cumf (Table 2), and one schedule for all: that of CuMF_SGD (Xie et al.
2017). A full run gives single-threaded schemes as many epochs as say how long they take.
"""

from gpumf_study.experiments.gpumf import sgd_schemes
from gpumf_study.experiments.gpumf.sgd_schemes import DRAWN, ONCE_EACH

PROFILES = {
    "quick": sgd_schemes.PROFILES["quick"] | {"data": ["ml-100k-synthetic"], "schemes": [DRAWN, ONCE_EACH, "fast"]},
    # Where an epoch takes seconds, as many as say how long.
    "full": sgd_schemes.PROFILES["full"]
    | {
        "data": ["netflix-synthetic"],
        "repeats": 5,
        "shorter": {DRAWN: 2, "ordered": 2, "parallel": 5, "gpusgd": 2, "newgpusgd, FP64": 5},
    },
}
PROFILES["smoke"] = PROFILES["quick"] | {"data": ["ml-100k-synthetic"], "epochs": 2}

summary, figure = sgd_schemes.summary, sgd_schemes.figure


def run(**parameters):
    """Return the frame of `sgd_schemes.run`."""
    return sgd_schemes.run(**parameters)
