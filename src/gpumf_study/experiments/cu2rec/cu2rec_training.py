"""cu2rec against the processor: seconds until the same error, and the errors reached.

After Greenquist and Kilitcioglu, "Results": biases, a normal start, a learning rate that falls on patience, 80 % of
the ratings for training. Their sequential library is not named; here one core draws ratings or takes each once, and
all cores do. Rates are not published either; all have the same start of the rate, and lambda. An epoch of cu2rec
makes about as many updates as there are ratings, but of a popular item only one a step, so that it gets more epochs.
"""

import numpy as np
import pandas as pd

from gpumf import SGD, backends
from gpumf_study import figure_style as style
from gpumf_study.claims import Claim, below, near
from gpumf_study.experiments import _fits, kernels_unavailable

RATES = {"learning_rate": 0.02, "regularization": 0.02}
PUBLISHED_START = {"initial": "normal", "patience": 2}
OURS = "cu2rec"
ONE_CORE = ("sequential", "ordered")
SCHEMES = ("sequential", "ordered", "ordered_parallel", OURS, "fast")

PROFILES = {
    "quick": {
        "data": ["ml-100k-synthetic"],
        "part": [120, 100],
        "schemes": ["sequential", "ordered", OURS],
        "factors": 4,
        "epochs": 6,
        "longer": {OURS: 2},
        "repeats": 2,
    },
    "full": {
        "data": ["ml-100k", "ml-1m-synthetic", "ml-10m-synthetic", "ml-20m-synthetic"],
        "part": None,
        "schemes": list(SCHEMES),
        "factors": 50,
        "epochs": 20,
        "longer": {OURS: 10},
        "repeats": 3,
    },
}
PROFILES["smoke"] = PROFILES["quick"] | {"part": [60, 50], "epochs": 2}
_LARGE = 4_000_000  # ratings, from which the processor trains once

why_unavailable = kernels_unavailable


def run(data, part, schemes, factors, epochs, longer, repeats):
    """Train with each scheme, from the same split.

    Parameters
    ----------
    data : names of data sets
    part : (users, items) of each that are taken, or None for all
    schemes : names of solvers of SGD
    factors, epochs : int
    longer : dict, scheme -> by how many times more epochs
    repeats : int; repeat k splits the ratings and draws the factors with seed k; on large sets one for the processor

    Returns
    -------
    DataFrame with a row an epoch: data, nnz, scheme, factors, device, repeat, and what `_fits.history` has
    """
    there = "cuda" if backends.available() else "emulator"
    devices = SGD.solvers()

    def trainings(name, train, test, repeat):
        for scheme in schemes:
            if repeat and devices[scheme] == "cpu" and train.nnz > _LARGE:
                continue
            device = "cpu" if devices[scheme] == "cpu" else there
            options = PUBLISHED_START if scheme == OURS else {}
            model = SGD(
                factors, biases=True, clip=False, solver=scheme, seed=repeat, device=device, **RATES, **options
            )
            what = {"data": name, "nnz": train.nnz, "scheme": scheme, "factors": factors, "device": device}
            history = _fits.history(model, train, epochs * longer.get(scheme, 1), test)
            yield history.assign(**what, repeat=repeat)

    return _fits.over_splits(trainings, data, part, repeats, held_out=0.2)


def levels(frame):
    """The test RMSE that all schemes reach, by data set: half a per cent above the highest of their last ones."""
    last = frame[~frame.diverged.astype(bool)].groupby(["data", "scheme", "repeat"]).rmse.last()
    return 1.005 * last.groupby(["data", "scheme"]).median().groupby("data").max()


def reached(frame):
    """When each training that did not diverge first had the level of its set.

    Returns
    -------
    DataFrame with a row a training: data, scheme, repeat, epoch, train (seconds until then), wall (the same with all
    else that its `fit` took, but for compiling and for what the epochs after it took, evaluations included)
    """
    level = levels(frame)
    rows = frame[~frame.diverged.astype(bool) & (frame.epoch > 0) & (frame.rmse <= frame.data.map(level))]
    first = (
        rows.groupby(["data", "scheme", "repeat"], sort=False).head(1).groupby(["data", "scheme", "repeat"]).first()
    )
    epochs = frame.groupby(["data", "scheme", "repeat"]).epoch.max()
    of_epochs = first.wall - first["prepare"] - first["transfer"] - first["compile"]
    wall = first["prepare"] + first["transfer"] + of_epochs * first.epoch / epochs.loc[first.index]
    return pd.DataFrame({"epoch": first.epoch, "train": first.seconds, "wall": wall}).reset_index()


def summary(frame):
    """What each scheme reaches and when.

    Returns
    -------
    DataFrame with the index (data, scheme): rmse (after the last epoch, median), spread (largest less smallest),
    level (of the set), epochs, train, wall (until the level, medians)
    """
    last = (
        frame.groupby(["data", "scheme", "repeat"], sort=False).tail(1).groupby(["data", "scheme"], sort=False).rmse
    )
    table = last.agg(rmse="median", spread=np.ptp)
    soon = reached(frame).groupby(["data", "scheme"])[["epoch", "train", "wall"]].median()
    level = table.index.get_level_values("data").map(levels(frame))
    return table.assign(level=level).join(soon.rename(columns={"epoch": "epochs"}))


def figure(frame):
    """Test RMSE against seconds of training, a line a scheme, a data set each."""
    names = frame.data.unique()
    columns = min(len(names), 2)
    rows = -(-len(names) // columns)
    figure, axes = style.panels(columns=columns, rows=rows, height=1 + 2.8 * rows)
    level = levels(frame)
    for axis, name in zip(axes.flat, names, strict=False):
        for scheme in frame.scheme.unique():
            runs = frame[(frame.data == name) & (frame.scheme == scheme) & (frame.epoch > 0)]
            median = runs.groupby("epoch")[["seconds", "rmse"]].median()
            style.curve(axis, median.set_index("seconds").rmse, "SGD", scheme)
        axis.axhline(level[name], linestyle=":", color=style.COLOURS["black"])
        axis.set(xlabel="seconds of training", ylabel=f"test RMSE on {name}")
        style.log_scale(axis.xaxis)
    for axis in axes.flat[len(names) :]:
        axis.set_visible(False)
    style.legend(figure, axes[0, 0], 3)
    return figure


def _last(frame):
    return _fits.last_epochs(frame, ["data", "scheme"])


CLAIMS = [
    *(
        Claim(
            f"cu2rec-speed-up-{what}",
            "cu2rec",
            "Speed-up",
            f"Ten times as fast as one core, to the same error, on MovieLens 20M ({what}).",
            10.0,
            "ratio",
            {
                "column": what,
                "where": {"data": "ml-20m-synthetic"},
                "over": {"scheme": list(ONE_CORE)},
                "best": "scheme",
                "under": {"scheme": OURS},
            },
            near(10.0, 2.0),
            "synthetic",
            reached,
        )
        for what in ("train", "wall")
    ),
    Claim(
        "cu2rec-rmse",
        "cu2rec",
        "RMSE",
        "Its test RMSE matches the best: on no set is it more than a hundredth above the lowest of the processor's.",
        metric="difference",
        select={
            "column": "rmse",
            "each": ["data"],
            "across": "max",
            "over": {"scheme": OURS},
            "under": {"scheme": [scheme for scheme in SCHEMES if SGD.solvers()[scheme] == "cpu"]},
            "best": "scheme",
        },
        criterion=below(0.01),
        table=_last,
    ),
]
