"""Which solver of SGD is the fastest on which data set: what the default is chosen by.

Of the two solvers with shuffled epochs that lose few updates on any data set: `fast`, which needs many rows to
keep a GPU busy, and `kato_hosino`, whose sweeps over rows lose none.
"""

from functools import partial

import pandas as pd
from tqdm import tqdm

from gpumf import SGD, backends
from gpumf._util.counter_rng import random_subset
from gpumf_study import figure_style as style
from gpumf_study.experiments import load_ratings

KERNELS = "kato_hosino", "fast"
RATE = 0.003  # of the steps: no set diverges

PROFILES = {
    "quick": {"data": ["ml-100k-synthetic"], "factors": [16], "share": 0.02, "repeats": 2, "device": "emulator"},
    "full": {"data": ["ml-100k", "ml-1m-synthetic", "jester-1", "ml-10m-synthetic", "douban-synthetic"],
             "factors": [16, 32, 64, 128], "share": 1.0, "repeats": 10, "device": "cuda"},
}  # fmt: skip
PROFILES["smoke"] = PROFILES["quick"] | {"factors": [4], "repeats": 1}

why_unavailable = partial(backends.why_unavailable, "emulator")


def run(data, factors, share, repeats, device):
    """Time epochs of both solvers by the device's events.

    share : float in (0, 1], of the ratings, drawn at random
    repeats : int, epochs timed, after two that are not
    device : 'cuda' or 'emulator'

    x_default : of the rows: 1 where SGD chooses this solver, else 0
    """
    rows = []
    for name in data:
        ratings = load_ratings(name)
        if share < 1:
            ratings = ratings.select(random_subset(ratings.nnz, round(share * ratings.nnz), seed=0))
        for f in tqdm(factors, desc=f"sgd_choice {name}", leave=False):
            options = {"device": device, "regularization": 0.02, "biases": False, "clip": False}
            default = SGD(f, **options).choose(ratings)
            for kernel in KERNELS:
                seconds = _seconds(SGD(f, learning_rate=RATE, solver=kernel, **options), ratings, repeats)
                what = ratings.name, kernel, device, f, int(kernel == default), ratings.nnz
                rows += [(*what, k, s) for k, s in enumerate(seconds)]
    columns = ["data", "solver", "device", "factors", "x_default", "x_nnz", "repeat", "seconds"]
    return pd.DataFrame(rows, columns=columns).assign(task="epoch", model="SGD", phase="train")


def _seconds(model, ratings, repeats):
    trainer = model.make_solver(ratings)
    epochs = iter(range(repeats + 2))
    return backends.device(model.device).time(lambda: trainer.epoch(next(epochs)), repeats, warmup=2)


def summary(frame):
    """Return the median of the updates a second, a row a data set and number of factors.

    Columns are the solvers, default (the solver that SGD chooses), and of_fastest: the default's updates a second
    over those of the faster one.
    """
    rates = frame.assign(rate=frame.x_nnz / frame.seconds)
    keys = ["data", "factors"]
    table = rates.pivot_table(index=keys, columns="solver", values="rate", aggfunc="median", sort=False)
    default = frame[frame.x_default == 1].groupby(keys, sort=False).solver.first()
    of_default = pd.Series([table.loc[key, kernel] for key, kernel in default.items()], default.index)
    return table.assign(default=default, of_fastest=of_default / table.max(axis=1)).reset_index()


def figure(frame):
    """Draw updates a second against factors, a panel a data set."""
    table = summary(frame)
    names = list(table.data.unique())
    figure, (axes,) = style.panels(columns=len(names), height=2.8, sharey=True)
    for axis, name in zip(axes, names, strict=True):
        rows = table[table.data == name].set_index("factors")
        for kernel in KERNELS:
            style.curve(axis, rows[kernel], "SGD", kernel)
        axis.set(xscale="log", yscale="log", xlabel="factors")
        axis.set_title(style.data_name(name).replace(" (", "\n("), fontsize=10)
        axis.set_xticks(rows.index, rows.index)
        axis.minorticks_off()
    axes[0].set_ylabel("updates a second")
    style.legend(figure, axes[0], len(KERNELS))
    return figure
