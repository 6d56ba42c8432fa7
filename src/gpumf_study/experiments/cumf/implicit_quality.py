"""What half precision and conjugate gradient cost implicit-feedback ALS in quality: rankings after each epoch.

After Hu, Koren and Volinsky 2008 and Tan et al. 2018, section 5.6. That an item was rated is the feedback, weighted
by the rating; a fifth of the ratings is held out, to be found again among the best items that the user has not rated.
Real data alone: who rates what in a synthetic data set is independent of taste, so that nothing ranks better there
than popularity, which is beside all others here.
"""

import pandas as pd
from matplotlib.ticker import MaxNLocator
from tqdm import tqdm

from gpumf import ImplicitALS, backends
from gpumf_study import figure_style as style
from gpumf_study.claims import Claim, above
from gpumf_study.experiments import load_ratings, present_ratings
from gpumf_study.experiments.cumf.als_versions import PUBLISHED
from gpumf_study.experiments.gpumf.als_implicit_cpu import POPULAR, popularity

REAL = ["ml-100k", "ml-latest-small", "douban-monti"]
EXACT, HALF = "cumf_cholesky", "tensor_core"
METRICS = ["precision", "recall", "map", "ndcg"]

PROFILES = {
    "quick": {"data": ["ml-100k"], "factors": 16, "epochs": 4, "seeds": 1, "k": 10},
    "full": {"data": REAL, "factors": 16, "epochs": 10, "seeds": 5, "k": 10},
}
PROFILES["smoke"] = PROFILES["quick"] | {"data": ["ml-100k-synthetic"], "factors": 8, "epochs": 2}


def run(data, factors, epochs, seeds, k):
    """Train the exact solver, and the tensor-core one where there is a GPU, and rank after each epoch.

    data : names of data sets, of which those are used that are here; a synthetic one where none is
    seeds : int, of the split and of the initial factors
    k : int, length of the lists

    Return a DataFrame with a row an epoch and metric (of the first k items, averaged over users); the model
    'popularity' has epoch 0 alone
    """
    rows = []
    for ratings in list(present_ratings(data)) or [load_ratings(data[0])]:
        for seed in range(seeds):
            train, test = ratings.split(0.2, seed=seed)
            what = {"data": ratings.name, "repeat": seed}
            popular = {"model": POPULAR, "device": "cpu", "factors": 1, "epoch": 0}
            rows.append(what | popular | _popular(train, test, k))
            for solver in [EXACT, HALF] if backends.available() else ["parallel"]:
                model = ImplicitALS(factors, **PUBLISHED, solver=solver, seed=seed)
                labels = what | {"model": "ImplicitALS", "solver": solver, "device": model.device, "factors": factors}
                for epoch in tqdm(range(epochs), desc=f"implicit_quality {ratings.name} {solver}", leave=False):
                    last = model.fit(train, 1, warm_start=epoch > 0).history.iloc[-1]
                    reached = {"epoch": int(last.epoch), "phase": "train", "seconds": last.seconds}
                    rows.append(labels | reached | model.evaluate_ranking(test, k))
    frame = pd.DataFrame(rows)
    labels = [column for column in frame if column not in METRICS]
    return frame[[*labels, *METRICS]].melt(labels, METRICS, "metric", "value").assign(task="rank")


def _popular(train, test, k):
    """The metrics of the most popular items."""
    model = ImplicitALS(1, device="cpu").fit(train, 0)
    model.user_factors, model.item_factors = popularity(train)
    return model.evaluate_ranking(test, k)


def figure(frame, metrics=("ndcg", "recall")):
    """Draw ranking metrics against epochs, medians of the splits, a row a data set; grey: popularity."""
    names = frame.data.unique()
    figure, axes = style.panels(columns=len(metrics), rows=len(names), height=1 + 2.6 * len(names))
    for row, name in zip(axes, names, strict=True):
        for axis, metric in zip(row, metrics, strict=True):
            runs = frame[(frame.data == name) & (frame.metric == metric)]
            popular = runs[runs.model == POPULAR].value.median()
            axis.axhline(popular, color=style.COLOURS["grey"], linewidth=1, label=POPULAR)
            for solver, of in runs[runs.model != POPULAR].groupby("solver", sort=False):
                style.curve(axis, of.groupby("epoch").value.median(), "ALS", solver)
            axis.set(xlabel="iterations", ylabel=f"{metric}@10, {style.data_name(name)}", ylim=(0, None))
            axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    style.legend(figure, axes[0, 0], 3)
    return figure


def last(frame):
    """Return the rows of the last epochs, popularity's among them."""
    return frame[frame.epoch == frame.groupby(["data", "model"]).epoch.transform("max")]


def _above(name, statement, over, under, bound):
    return Claim(f"implicit-lists-{name}", "gpumf", None,
                 f"{statement}, on the data set where it is the least, 16 factors, three real data sets.",
                 metric="difference",
                 select={"column": "value", "where": {"metric": "ndcg"}, "each": ["data"], "across": "min",
                         "over": over, "under": under}, criterion=above(bound), table=last)  # fmt: skip


CLAIMS = [
    _above("popularity", "NDCG@10 of tensor cores above popularity", {"solver": HALF}, {"model": POPULAR}, 0.0),
    _above("exact", "NDCG@10 of tensor cores above exact FP32", {"solver": HALF}, {"solver": EXACT}, -0.005),
]
