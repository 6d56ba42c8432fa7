"""What the parts of cu2rec are worth: who wins an item, and with which user a step begins.

After Greenquist and Kilitcioglu, "Early Bird Gets the Gradient" and "User Index Striding": 12 to 15 % more speed of
the whole program where the early bird gets the gradient, 2 to 3 % worse errors without striding, almost 8 % on
Netflix. The learning rate stays, so that all versions make the same steps.
"""

from functools import partial
from itertools import product

import pandas as pd

from gpumf import SGD, backends
from gpumf_study import figure_style as style
from gpumf_study.claims import Claim, near
from gpumf_study.experiments import _fits, kernels_unavailable
from gpumf_study.experiments.cu2rec.cu2rec_training import RATES

VERSIONS = {name: dict(v.options) for name, (solver, v) in SGD.versions().items() if solver == "cu2rec"}
GETS, LOSES, ATOMIC, NO_STRIDING = VERSIONS

PROFILES = {
    "quick": {"data": ["ml-100k-synthetic"], "part": [120, 100], "factors": [4], "epochs": 4, "repeats": 2},
    "full": {
        "data": ["ml-100k", "ml-10m-synthetic", "netflix-synthetic"],
        "part": None,
        "factors": [50],
        "epochs": 60,
        "repeats": 3,
    },
}
PROFILES["smoke"] = PROFILES["quick"] | {"part": [60, 50], "epochs": 2}

why_unavailable = kernels_unavailable


def run(data, part, factors, epochs, repeats):
    """Train every version, on each set once before the timed trainings.

    Parameters
    ----------
    data : names of data sets
    part : (users, items) of each that are taken, or None for all
    factors : list of int
    epochs : int
    repeats : int; repeat k draws the factors with seed k, and splits the ratings where nobody has

    Returns
    -------
    DataFrame with a row an epoch: data, nnz, version (of VERSIONS), factors, device, repeat, and what `_fits.history`
    has
    """
    device = "cuda" if backends.available() else "emulator"

    def trainings(name, train, test, repeat):
        for f, version in product(factors, VERSIONS):
            options = RATES | {"initial": "normal"} | VERSIONS[version]
            model = SGD(f, biases=True, clip=False, solver="cu2rec", seed=repeat, device=device, **options)
            what = {"data": name, "nnz": train.nnz, "version": version, "factors": f, "device": device}
            if repeat == 0:
                _fits.warm(model, train)
            yield _fits.history(model, train, epochs, test).assign(**what, repeat=repeat)

    return _fits.over_splits(trainings, data, part, repeats, held_out=0.2, official=True)


def summary(frame):
    """What an epoch of each version takes, and what it learns.

    Returns
    -------
    DataFrame with the index (data, factors, version): seconds (of an epoch), wall (of a training but for compiling),
    rmse (after the last epoch; medians, missing where it diverged), worse (that RMSE over cu2rec's, in per cent)
    """
    by = ["data", "factors", "version"]
    seconds = _fits.epoch_seconds(frame, by).groupby(level=by, sort=False).median().rename("seconds")
    wall = _fits.wall_seconds(frame, by).groupby(by).median().rename("wall")
    last = frame.groupby([*by, "repeat"], sort=False).tail(1).groupby(by, sort=False).rmse.median()
    worse = 100 * (last / last.xs(GETS, level="version").reindex(last.index.droplevel("version")).to_numpy() - 1)
    return pd.DataFrame({"rmse": last, "worse": worse}).join(seconds).join(wall)


def figure(frame):
    """Test RMSE against epochs, a line a version, a data set each, with the fewest factors."""
    names = frame.data.unique()
    figure, (axes,) = style.panels(columns=len(names), height=3.6)
    for axis, name in zip(axes, names, strict=True):
        runs = frame[(frame.data == name) & (frame.factors == frame.factors.min()) & (frame.epoch > 0)]
        for version in VERSIONS:
            of = runs[runs.version == version]
            style.curve(axis, of.groupby("epoch").rmse.median(), "SGD", version)
        axis.set(xlabel="epochs", ylabel=f"test RMSE on {name}")
    style.legend(figure, axes[0], 4)
    return figure


_BY = ["data", "factors", "version"]
_EARLY_BIRD = {
    "over": {"version": LOSES},
    "under": {"version": GETS},
    "each": ["data", "factors"],
    "across": "median",
}
_STRIDING = {"over": {"version": NO_STRIDING}, "under": {"version": GETS}}


CLAIMS = [
    *(
        Claim(
            f"cu2rec-early-bird-{what}",
            "cu2rec",
            "Early bird gets the gradient",
            f"12 to 15 % faster where the early bird gets the gradient than where it loses it ({what}).",
            13.5,
            "percent_more",
            {"column": "seconds", **_EARLY_BIRD},
            near(13.5, 1.25, no_effect=0.0),
            "synthetic",
            partial(times, by=_BY),
        )
        for what, times in (("train", _fits.each_epoch), ("wall", _fits.each_fit))
    ),
    Claim(
        "cu2rec-striding-ml-100k",
        "cu2rec",
        "RMSE",
        "Without striding the test RMSE on MovieLens 100K is 2 to 3 % higher.",
        2.5,
        "percent_more",
        {"column": "rmse", "where": {"data": "ml-100k"}, **_STRIDING},
        near(2.5, 1.5, no_effect=0.0),
        table=partial(_fits.last_epochs, by=_BY),
    ),
    Claim(
        "cu2rec-striding-netflix",
        "cu2rec",
        "RMSE",
        "Without striding the test RMSE on Netflix (synthetic) is almost 8 % higher.",
        8.0,
        "percent_more",
        {"column": "rmse", "where": {"data": "netflix-synthetic"}, **_STRIDING},
        near(8.0, 1.5, no_effect=0.0),
        "synthetic",
        partial(_fits.last_epochs, by=_BY),
    ),
]
