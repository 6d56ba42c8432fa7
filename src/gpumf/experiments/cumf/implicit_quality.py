"""What half precision and conjugate gradient cost implicit-feedback ALS in quality: rankings after each epoch.

After Hu, Koren and Volinsky 2008 and Tan et al. 2018, section 5.6. That an item was rated is the feedback, weighted
by the rating; a fifth of the ratings is held out, to be found again among the best items that the user has not rated.
"""

import pandas as pd
from matplotlib.ticker import MaxNLocator
from tqdm import tqdm

from gpumf import ImplicitALS, gpu
from gpumf import figure_style as style
from gpumf.experiments import identity, load_ratings
from gpumf.experiments.cumf.als_versions import ALPHA

PROFILES = {
    "quick": {"data": ["ml-100k"], "factors": 16, "epochs": 4, "k": 10},
    "full": {"data": ["ml-100k", "ml-20m-twin"], "factors": 64, "epochs": 10, "k": 10},
}
PROFILES["smoke"] = PROFILES["quick"] | {"data": ["ml-100k-twin"], "factors": 8, "epochs": 2}


def run(data, factors, epochs, k):
    """Train the exact version, and the tensor-core one where there is a GPU, and rank after each epoch.

    Parameters
    ----------
    data : names of data sets
    factors, epochs : int
    k : int, length of the lists

    Returns
    -------
    DataFrame with a row an epoch: data, kernel, device, factors, epoch, seconds (of training alone, summed up),
    precision, recall, map, ndcg (of the first k items, averaged over users, see `ImplicitALS.rank`)
    """
    rows, identities = [], []
    for name in data:
        ratings = load_ratings(name)
        identities.append(identity(ratings))
        train, test = ratings.split(0.2)
        for kernel in ["cumf_cholesky", "tensor_core"] if gpu.available() else ["parallel"]:
            model = ImplicitALS(factors, alpha=ALPHA, solver=kernel)
            for epoch in tqdm(range(epochs), desc=f"implicit_quality {ratings.name} {kernel}", leave=False):
                last = model.fit(train, 1, warm_start=epoch > 0).history.iloc[-1]
                reached = {"epoch": int(last.epoch), "seconds": last.seconds} | model.rank(test, k)
                what = {"data": ratings.name, "kernel": kernel, "device": model.device, "factors": factors}
                rows.append(what | reached)
    frame = pd.DataFrame(rows)
    frame.attrs["datasets"] = identities
    return frame


def figure(frame, metrics=("ndcg", "recall")):
    """Ranking metrics against epochs, the exact version and the tensor cores."""
    names = frame.data.unique()
    figure, axes = style.panels(columns=len(metrics), rows=len(names), height=1 + 2.6 * len(names))
    for row, name in zip(axes, names, strict=True):
        for axis, metric in zip(row, metrics, strict=True):
            runs = frame[frame.data == name]
            for kernel in runs.kernel.unique():
                values = runs[runs.kernel == kernel].set_index("epoch")[metric]
                style.curve(axis, values, "ALS", kernel)
            axis.set(xlabel="epochs", ylabel=f"{metric} on {name}", ylim=(0, None))
            axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    style.legend(figure, axes[0, 0], 2)
    return figure


def summary(frame):
    """The rankings after the last epoch, from the frame of `run`.

    Returns
    -------
    DataFrame with the index (data, kernel): precision, recall, map, ndcg
    """
    last = frame[frame.epoch == frame.epoch.max()].set_index(["data", "kernel"])
    return last[["precision", "recall", "map", "ndcg"]]


FINDINGS = []
