"""What half precision and conjugate gradient cost implicit-feedback ALS in quality: rankings after each epoch.

After Hu, Koren and Volinsky 2008 and Tan et al. 2018, section 5.6. That an item was rated is the feedback, weighted
by the rating; a fifth of the ratings is held out, to be found again among the best items that the user has not rated.
Real sets alone: who rates what in a twin is independent of taste, so that no list there can be better than that of
the most popular items, which is beside all others here.
"""

from functools import partial

import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator
from tqdm import tqdm

from gpumf import ImplicitALS, backends
from gpumf_study import figure_style as style
from gpumf_study.experiments import identity, load_ratings, present_ratings
from gpumf_study.experiments.cumf.als_versions import PUBLISHED
from gpumf_study.experiments.gpumf.als_implicit_cpu import POPULAR, popularity
from gpumf_study.findings import Finding, Holds

REAL = ["ml-100k", "ml-latest-small", "douban-monti"]
EXACT, HALF = "cumf_cholesky", "tensor_core"
METRICS = ["precision", "recall", "map", "ndcg"]

PROFILES = {
    "quick": {"data": ["ml-100k"], "factors": 16, "epochs": 4, "seeds": 1, "k": 10},
    "full": {"data": REAL, "factors": 16, "epochs": 10, "seeds": 3, "k": 10},
}
PROFILES["smoke"] = PROFILES["quick"] | {"data": ["ml-100k-synthetic"], "factors": 8, "epochs": 2}


def run(data, factors, epochs, seeds, k):
    """Train the exact version, and the tensor-core one where there is a GPU, and rank after each epoch.

    Parameters
    ----------
    data : names of data sets, of which those are used that are here; the twin of the first where none is
    factors, epochs : int
    seeds : int, of the split and of the initial factors
    k : int, length of the lists

    Returns
    -------
    DataFrame with a row an epoch: data, kernel (or 'popularity', of epoch 0 alone), device, factors, seed, epoch,
    seconds (of training alone, summed up), precision, recall, map, ndcg (of the first k items, averaged over users,
    see `ImplicitALS.evaluate_ranking`)
    """
    rows, identities = [], []
    for ratings in list(present_ratings(data)) or [load_ratings(data[0])]:
        identities.append(identity(ratings))
        for seed in range(seeds):
            train, test = ratings.split(0.2, seed=seed)
            what = {"data": ratings.name, "seed": seed}
            rows.append(
                what | {"kernel": POPULAR, "device": "cpu", "factors": 1, "epoch": 0, **_popular(train, test, k)}
            )
            for kernel in [EXACT, HALF] if backends.available() else ["parallel"]:
                model = ImplicitALS(factors, **PUBLISHED, solver=kernel, seed=seed)
                for epoch in tqdm(range(epochs), desc=f"implicit_quality {ratings.name} {kernel}", leave=False):
                    last = model.fit(train, 1, warm_start=epoch > 0).history.iloc[-1]
                    reached = {"epoch": int(last.epoch), "seconds": last.seconds} | model.evaluate_ranking(test, k)
                    rows.append(what | {"kernel": kernel, "device": model.device, "factors": factors} | reached)
    frame = pd.DataFrame(rows)[["data", "kernel", "device", "factors", "seed", "epoch", "seconds", *METRICS]]
    frame.attrs["datasets"] = identities
    return frame


def _popular(train, test, k):
    """The metrics of the most popular items."""
    model = ImplicitALS(1, device="cpu").fit(train, 0)
    model.user_factors, model.item_factors = popularity(train)
    return model.evaluate_ranking(test, k)


def figure(frame, metrics=("ndcg", "recall")):
    """Ranking metrics against epochs, the exact version and the tensor cores, medians; grey: popularity."""
    names = frame.data.unique()
    figure, axes = style.panels(columns=len(metrics), rows=len(names), height=1 + 2.6 * len(names))
    for row, name in zip(axes, names, strict=True):
        for axis, metric in zip(row, metrics, strict=True):
            runs = frame[frame.data == name]
            medians = runs.groupby(["kernel", "epoch"], sort=False)[metric].median()
            for kernel in medians.index.unique("kernel"):
                if kernel == POPULAR:
                    axis.axhline(medians[kernel].iloc[0], color=style.COLOURS["grey"], linewidth=1, label=POPULAR)
                else:
                    style.curve(axis, medians[kernel], "ALS", kernel)
            axis.set(xlabel="epochs", ylabel=f"{metric} on {name}", ylim=(0, None))
            axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    style.legend(figure, axes[0, 0], 3)
    return figure


def summary(frame):
    """The rankings after the last epoch, from the frame of `run`.

    Returns
    -------
    DataFrame with the index (data, kernel), popularity among the kernels: precision, recall, map, ndcg (means over
    the seeds)
    """
    return _last(frame).groupby(["data", "kernel"], sort=False)[METRICS].mean()


def _last(frame):
    """The rows of the last epochs, popularity's among them."""
    return frame[frame.epoch == frame.groupby(["data", "kernel"]).epoch.transform("max")]


def _ndcg_above(frame, kernel, other):
    """How far NDCG is above another's on the set where it is the least above: means over seeds, half their range."""
    if not {kernel, other} <= set(frame.kernel) or "seed" not in frame:  # an older result, of one split
        return np.nan, np.nan, "NDCG@10"
    ndcg = _last(frame).pivot_table(index=["data", "seed"], columns="kernel", values="ndcg")
    above = (ndcg[kernel] - ndcg[other]).groupby("data").agg(["mean", np.ptp])
    worst = above.loc[above["mean"].idxmin()]
    return worst["mean"], worst["ptp"] / 2, "NDCG@10"


_LISTS = (
    "ImplicitALS, tensor_core | MovieLens 100K, its latest small set and Douban Monti | 16 factors | NDCG@10 above"
)
FINDINGS = [
    Finding(
        f"implicit-lists-{name}",
        "gpumf",
        None,
        f"{_LISTS} that of {of}, on the set where it is the least so",
        partial(_ndcg_above, kernel=HALF, other=other),
        Holds(above=bound),
    )
    for name, other, of, bound in (
        ("popularity", POPULAR, "the most popular items", 0),
        ("exact", EXACT, "exact FP32: at least -0.005", -0.005),
    )
]
