"""What the parts of cu2rec are worth: who wins an item, and with which user a step begins.

Source: Greenquist and Kilitcioglu, "Early Bird Gets the Gradient" and "User Index Striding". The learning rate is
constant, so that all versions make the same steps. A group of lanes takes a user; in the publication one thread does.
"""

from functools import partial

from gpumf import SGD, backends
from gpumf_study import figure_style as style
from gpumf_study import sweep
from gpumf_study.claims import Claim, near
from gpumf_study.experiments import kernels_unavailable
from gpumf_study.experiments.cu2rec import RATES

VERSIONS = {name: dict(v.options) for name, (solver, v) in SGD.versions().items() if solver == "cu2rec"}
GETS, LOSES, ATOMIC, NO_STRIDING = VERSIONS

PROFILES = {
    "quick": {"data": ["ml-100k-synthetic"], "part": [120, 100], "factors": 4, "epochs": 4, "repeats": 2},
    "full": {"data": ["ml-100k", "ml-10m-synthetic", "netflix-synthetic"], "part": None, "factors": 50, "epochs": 60,
             "repeats": 5},
}  # fmt: skip
PROFILES["smoke"] = PROFILES["quick"] | {"part": [60, 50], "epochs": 2}

why_unavailable = kernels_unavailable


def run(data, part, factors, epochs, repeats):
    """Train every version, on each data set once before the timed trainings."""
    device = "cuda" if backends.available() else "emulator"

    def models(train, repeat):
        for version, options in VERSIONS.items():
            options = RATES | {"initial": "normal"} | options
            model = SGD(factors, biases=True, clip=False, solver="cu2rec", seed=repeat, device=device, **options)
            if repeat == 0:
                sweep.warm(model, train)
            yield {"variant": version}, model

    return sweep.sweep(models, data, epochs, repeats, held_out=0.2, part=part, official=True)


def figure(frame):
    """Draw test RMSE against epochs, a line a version, a panel a data set."""
    names = frame.data.unique()
    figure, (axes,) = style.panels(columns=len(names), height=3.6)
    course = sweep.course(frame, "rmse")
    for axis, name in zip(axes, names, strict=True):
        runs = course[(course.data == name) & (course.epoch > 0)]
        for version in VERSIONS:
            style.curve(axis, runs[runs.variant == version].groupby("epoch").value.median(), "SGD", version)
        axis.set(xlabel="epochs", ylabel="test RMSE", title=style.data_name(name))
    style.legend(figure, axes[0], 4)
    return figure


def without_striding(frame):
    """Return by how many per cent the RMSE is higher without striding, by data set and repeat.

    Versions of one repeat share the split and the start.
    """
    table = sweep.last_epoch(frame).pivot(index=["data", "repeat"], columns="variant", values="value")
    return (100 * (table[NO_STRIDING] / table[GETS] - 1)).rename("percent_more").reset_index()


def _striding(name, data, percent, statement, evidence):
    return Claim(
        f"cu2rec-striding-{name}", "cu2rec", "RMSE",
        f"By how many per cent the test RMSE is higher without striding, {statement}.", percent, "median",
        {"column": "percent_more", "where": {"data": data}}, near(percent, 1.5, no_effect=0.0), evidence,
        without_striding,
    )  # fmt: skip


CLAIMS = [
    *(Claim(f"cu2rec-early-bird-{what}", "cu2rec", "Early bird gets the gradient",
            f"By how much {of} is longer where the early bird loses the gradient, median of three data sets.", 13.5,
            "percent_more",
            {"column": "seconds", "over": {"variant": LOSES}, "under": {"variant": GETS}, "each": ["data", "factors"],
             "across": "median"}, near(13.5, 1.25, no_effect=0.0), "synthetic", table)
      for what, of, table in (
          ("train", "the time of an epoch", sweep.epoch_seconds),
          ("wall", "the end-to-end time", partial(sweep.phase_seconds, without=("compile",))),
      )),
    _striding("ml-100k", "ml-100k", 2.5, "MovieLens 100K", "real"),
    _striding("netflix", "netflix-synthetic", 8.0, "Netflix (synthetic)", "synthetic"),
]  # fmt: skip
