"""SGD at the size of the Netflix Prize: updates a second and test error of the fastest schemes, against one core.

The twin, the official test set, 128 factors, lambda of cumf (Table 2), and one schedule for all: that of CuMF_SGD
(Xie et al. 2017).
"""

import pandas as pd
from tqdm import tqdm

from gpumf import SGD, gpu
from gpumf.experiments import identity, load_ratings
from gpumf.models.sgd import schedules

REFERENCE = "sequential"

# The published program on an H100, at this shape, with 128 factors in FP16. This package has not measured it: it may
# be set beside its times, but not divided by them.
PUBLISHED = pd.DataFrame(
    [("cuMF_SGD", 2.58e9, 0.0384)], columns=["program", "updates_per_second", "seconds_per_epoch"]
)

_COMMON = {"kernels": [REFERENCE, "cumf_sgd", "fast"], "regularization": 0.05, "learning_rate": 0.03}
_COMMON |= {"schedule": {"name": "Power", "beta": 0.1, "power": 1.5}}
PROFILES = {
    "quick": {"data": "ml-100k-twin", "factors": 16, "epochs": 20, "repeats": 1, **_COMMON},
    "full": {"data": "netflix-twin", "factors": 128, "epochs": 20, "repeats": 3, **_COMMON},
}


def run(data, kernels, factors, regularization, learning_rate, schedule, epochs, repeats):
    """Train the kernels that this machine has.

    Parameters
    ----------
    data : name of a data set; a fifth of it is the test set where it has no official one
    kernels : of SGD
    factors, regularization, learning_rate : as of SGD
    schedule : what `schedules.described` says of one
    epochs : int
    repeats : int, runs of the kernels on a GPU, run k with seed k; the others run once

    Returns
    -------
    DataFrame with a row an epoch: data, model ('SGD'), kernel, device, repeat, nnz (of the training set), epoch,
    seconds (of training alone, summed up), rmse, mae (on the test set)
    """
    ratings = load_ratings(data)
    train, test = ratings.split(0.2) if ratings.test_mask is None else ratings.official_split()
    parameters = {"factors": factors, "regularization": regularization, "learning_rate": learning_rate}
    return histories(ratings, train, test, kernels, repeats, epochs, schedule=schedules.made(schedule), **parameters)


def histories(ratings, train, test, kernels, repeats, epochs, stop=None, **parameters):
    """The frame of `run`, of `SGD(**parameters)` on ratings so split; `stop` ends a training as it does in `fit`."""
    frames = []
    for kernel, repeat in tqdm(list(_runs(kernels, repeats)), desc=f"SGD {ratings.name}", leave=False):
        fitted = SGD(kernel=kernel, seed=repeat, **parameters).fit(train, epochs, test, stop=stop)
        frames.append(fitted.history.assign(kernel=kernel, device=fitted.device, repeat=repeat))
    frame = pd.concat(frames, ignore_index=True).assign(data=ratings.name, model="SGD", nnz=train.nnz)
    frame = frame[["data", "model", "kernel", "device", "repeat", "nnz", "epoch", "seconds", "rmse", "mae"]]
    frame.attrs["datasets"] = [identity(ratings)]
    return frame


def _runs(kernels, repeats):
    """(kernel, repeat) of all that run here."""
    for kernel in kernels:
        device = SGD.kernels()[kernel]
        if device == "cpu" or gpu.available():
            for repeat in range(repeats if device == "cuda" else 1):
                yield kernel, repeat
