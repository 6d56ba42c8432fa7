"""Whether every version of ALS learns the same: test errors after each epoch on real ratings.

After the thesis, section 6.2: 16 factors, 80 % of the ratings for training. All versions start from the same factors.
"""

import pandas as pd
from tqdm import tqdm

from gpumf import ALS
from gpumf.experiments import identity, load_ratings, usable_devices
from gpumf.experiments.thesis import first_comparison

EXACT = "sequential"

PROFILES = {name: {"data": ["jester-1", "ml-100k"], "factors": 16, "epochs": 20} for name in ("quick", "full")}


def run(data, factors, epochs):
    """Train every version that this machine has.

    Parameters
    ----------
    data : names of data sets
    factors, epochs : int

    Returns
    -------
    DataFrame with a row an epoch: data, kernel, device, epoch, seconds (of training alone, summed up), rmse, mae
    (both on the test set)
    """
    usable = usable_devices()
    kernels = [kernel for kernel, device in ALS.kernels().items() if device in usable]
    frames, identities = [], []
    for name in data:
        ratings = load_ratings(name)
        identities.append(identity(ratings))
        train, test = ratings.split(0.2)
        regularization = first_comparison.tuned(ratings.name)["ALS"]["regularization"]
        for kernel in tqdm(kernels, desc=f"als_convergence {ratings.name}", leave=False):
            if factors <= ALS._trainers[kernel].max_factors:
                fitted = ALS(factors, regularization, kernel=kernel).fit(train, epochs, test)
                frames.append(fitted.history.assign(data=ratings.name, kernel=kernel, device=fitted.device))
    frame = pd.concat(frames, ignore_index=True)
    frame = frame[["data", "kernel", "device", "epoch", "seconds", "rmse", "mae"]]
    frame.attrs["datasets"] = identities
    return frame


def summary(frame):
    """Where each version ends, from the frame of `run`.

    Returns
    -------
    DataFrame with a row a data set and kernel: data, kernel, device, rmse, mae (after the last epoch),
    rmse_difference, mae_difference (to the exact solution on one core)
    """
    last = frame[frame.epoch == frame.groupby("data").epoch.transform("max")]
    exact = last[last.kernel == EXACT].set_index("data")[["rmse", "mae"]]
    table = last[["data", "kernel", "device", "rmse", "mae"]].reset_index(drop=True)
    for metric in ("rmse", "mae"):
        table[f"{metric}_difference"] = table[metric] - table.data.map(exact[metric])
    return table
