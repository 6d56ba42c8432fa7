"""ESGD's open question: which th_size, threads of a block, and which st, steps that load its ratings, are best?

After Nassar et al., section 5. More ratings in a block's shared memory are shuffled better, and leave room for fewer
blocks; fewer threads want more blocks. The ratings are shuffled first: in file order popular users decide.
"""

import pandas as pd

from gpumf import SGD, backends
from gpumf_study import figure_style as style
from gpumf_study import sweep
from gpumf_study.claims import Claim
from gpumf_study.experiments import kernels_unavailable
from gpumf_study.experiments.esgd.esgd_errors import rates

PAIR = ["x_th_size", "x_st"]
PUBLISHED = 1000, 2
TOLERANCE = 0.002  # in RMSE above the lowest, of what counts as the same error

PROFILES = {
    "quick": {"data": "ml-100k-synthetic", "part": [120, 100], "factors": 4, "th_size": [16, 64], "st": [1, 2],
              "epochs": 4, "repeats": 1},
    "full": {"data": "ml-10m-synthetic", "part": None, "factors": 16, "th_size": [64, 128, 256, 512, 1000],
             "st": [1, 2, 4, 8], "epochs": 10, "repeats": 5},
}  # fmt: skip
PROFILES["smoke"] = PROFILES["quick"] | {"part": [60, 50], "epochs": 2}

why_unavailable = kernels_unavailable


def run(data, part, factors, th_size, st, epochs, repeats):
    """Train with every pair of th_size and st."""
    device = "cuda" if backends.available() else "emulator"

    def models(train, repeat):
        for threads in th_size:
            for steps in st:
                options = {"th_size": threads, "st": steps, "shuffle": True, "biases": "baseline", **rates(data)}
                model = SGD(factors, solver="esgd", seed=repeat, device=device, clip=False, **options)
                yield {"variant": "shuffled", "x_th_size": threads, "x_st": steps}, model

    return sweep.sweep(models, [data], epochs, repeats, part=part)


def summary(frame):
    """Return by th_size and st the seconds of an iteration and the last RMSE (medians)."""
    table = sweep.epoch_seconds(frame).groupby(PAIR)[["seconds"]].median()
    return table.assign(rmse=sweep.last_epoch(frame).groupby(PAIR).value.median())


def best(frame):
    """Return (th_size, st) of the fastest of those whose error is within TOLERANCE of the lowest."""
    table = summary(frame)
    return table[table.rmse <= table.rmse.min() + TOLERANCE].seconds.idxmin()


def compared(frame):
    """Return the epochs of the published pair and of the best one, told apart by `which`."""
    seconds = sweep.epoch_seconds(frame).set_index(PAIR).sort_index()
    found = {"published": PUBLISHED, "best": best(frame)}
    lots = [seconds.loc[[pair]].assign(which=which) for which, pair in found.items() if pair in seconds.index]
    return pd.concat(lots, ignore_index=True)


def figure(frame):
    """Draw seconds of an iteration (left) and test RMSE (right) against th_size, a line a number of steps."""
    table = summary(frame)
    figure, (axes,) = style.panels(columns=2, height=3.4)
    for colour, (st, rows) in zip(("wine", "orange", "blue", "green"), table.groupby(level="x_st"), strict=False):
        look = {"color": style.COLOURS[colour], "label": f"st = {st}", "markersize": 4}
        for axis, what in zip(axes, ("seconds", "rmse"), strict=True):
            axis.plot(rows[what].droplevel("x_st"), "-o", **look)
    axes[0].set(xlabel="th_size", ylabel="seconds an iteration")
    axes[1].set(xlabel="th_size", ylabel="test RMSE at the end")
    for axis in axes:
        style.log_scale(axis.xaxis)
    style.legend(figure, axes[0], 4)
    return figure


CLAIMS = [
    Claim(
        "esgd-best-block", "esgd", "Section 5",
        "Speed-up of an iteration with the fastest th_size and st over the published 1000 and 2, to the same error.",
        metric="ratio", select={"column": "seconds", "over": {"which": "published"}, "under": {"which": "best"}},
        evidence="synthetic", table=compared,
    )
]  # fmt: skip
