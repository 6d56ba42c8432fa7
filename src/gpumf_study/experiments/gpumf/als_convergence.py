"""Whether every version of ALS learns the same: test errors after each epoch on real ratings.

After the thesis, section 6.2: 16 factors, 80 % of the ratings for training. All versions start from the same factors.
"""

import pandas as pd
from matplotlib.ticker import MaxNLocator
from tqdm import tqdm

from gpumf import ALS
from gpumf_study import figure_style as style
from gpumf_study.experiments import identity, load_ratings, usable_devices
from gpumf_study.experiments.tuning import PARAMETERS, chosen

EXACT = "sequential"

PROFILES = {
    name: {"data": ["jester-1", "ml-100k"], "factors": 16, "epochs": 20, "parameters": PARAMETERS}
    for name in ("quick", "full")
}
PROFILES["smoke"] = PROFILES["quick"] | {"data": ["ml-100k-synthetic"], "factors": 8, "epochs": 2}


def run(data, factors, epochs, parameters):
    """Train every version that this machine has.

    Parameters
    ----------
    data : names of data sets
    factors, epochs : int
    parameters : dict, data set -> model -> arguments of the model, see `tuning`

    Returns
    -------
    DataFrame with a row an epoch: data, kernel, device, epoch, seconds (of training alone, summed up), rmse, mae
    (both on the test set)
    """
    usable = usable_devices()
    kernels = [kernel for kernel, device in ALS.solvers().items() if device in usable]
    frames, identities = [], []
    for name in data:
        ratings = load_ratings(name)
        identities.append(identity(ratings))
        train, test = ratings.split(0.2)
        arguments = chosen(parameters, name, "ALS")
        for kernel in tqdm(kernels, desc=f"als_convergence {ratings.name}", leave=False):
            if factors <= ALS.solver_classes()[kernel].max_factors:
                fitted = ALS(factors, solver=kernel, biases=False, clip=False, **arguments).fit(train, epochs, test)
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


def figure(frame):
    """Test RMSE against seconds of training (left), and how far it is from the exact one after each epoch (right)."""
    names = frame.data.unique()
    figure, axes = style.panels(columns=2, rows=len(names), height=1.2 + 2.8 * len(names))
    for (by_time, differences), name in zip(axes, names, strict=True):
        runs = frame[(frame.data == name) & (frame.epoch > 0)]
        exact = runs[runs.kernel == EXACT].set_index("epoch").rmse
        for kernel in runs.kernel.unique():
            run = runs[runs.kernel == kernel]
            style.curve(by_time, run.set_index("seconds").rmse, "ALS", kernel)
            # A logarithmic axis has no place for a difference of nothing.
            apart = (run.set_index("epoch").rmse - exact).abs().clip(lower=1e-9)
            if kernel != EXACT:
                style.curve(differences, apart, "ALS", kernel)
        differences.axhline(1e-3, color="0.4", linewidth=1)
        by_time.set(xlabel="seconds of training", ylabel=f"test RMSE on {name}")
        differences.set(xlabel="epochs", ylabel="difference to the exact one")
        differences.xaxis.set_major_locator(MaxNLocator(integer=True))
        style.log_scale(by_time.xaxis)
        style.log_scale(differences.yaxis)
    style.legend(figure, axes[0, 0], 3)
    return figure


FINDINGS = []
