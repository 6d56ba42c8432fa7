"""Where the time of a `fit` goes, as a user waits for it: from ratings in NumPy arrays to factors in NumPy arrays.

`model.times` counts apart what prepares the ratings, moves them and trains; `wall` is all of it. Of each model the
first fit of the process, which loads or compiles the kernels, and warm ones after it.
"""

import time
from functools import partial

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import ALS, SGD, ImplicitALS
from gpumf import figure_style as style
from gpumf.experiments import identity, load_ratings
from gpumf.findings import Finding, Target
from gpumf.models.sgd import schedules

MODELS = {"ALS": ALS, "ImplicitALS": ImplicitALS, "SGD": SGD}
PHASES = {"prepare": "blue", "transfer": "orange", "train": "green", "compile": "grey"}
_POWER = {"regularization": 0.05, "learning_rate": 0.03, "schedule": schedules.Power(0.1)}
_RECOMMENDED = 10

PROFILES = {
    "quick": {
        "data": "ml-100k-twin",
        "fits": [["ALS", "parallel", 16, 5], ["ImplicitALS", "parallel", 16, 5], ["SGD", "sequential", 16, 5]],
        "repeats": 2,
    },
    "full": {
        "data": "netflix-twin",
        "fits": [
            ["ALS", "tensor_core", 100, 10],
            ["ImplicitALS", "tensor_core", 64, 10],
            ["ImplicitALS", "tensor_core", 128, 10],
            ["SGD", "fast", 128, 20],
            ["SGD", "cumf_sgd", 128, 20],
        ],
        "repeats": 3,
    },
}
PROFILES["smoke"] = PROFILES["quick"] | {"fits": [["ALS", "parallel", 4, 1]], "repeats": 1}


def run(data, fits, repeats):
    """Fit models to the ratings of the official training set, or of all where there is none; recommend to all users.

    Parameters
    ----------
    data : name of a data set
    fits : list of [model, kernel, factors, epochs]
    repeats : int, warm fits of each, after the first one

    Returns
    -------
    DataFrame with a row a fit: data, model, kernel, device, factors, epochs, nnz, repeat (0 is the first of the
    process), prepare, transfer, train, compile, wall (seconds, see `gpumf.models.times`), recommend (seconds to find
    the ten best unseen items of all users with the fitted model)
    """
    ratings = load_ratings(data)
    train = ratings.official_split()[0] if ratings.test_mask is not None else ratings
    rows = []
    for name, kernel, factors, epochs in tqdm(fits, desc="fit_seconds", leave=False):
        rates = _POWER if name == "SGD" else {}
        for repeat in range(repeats + 1):
            model = MODELS[name](factors, solver=kernel, **rates).fit(train, epochs)
            started = time.perf_counter()
            model.recommend(np.arange(train.n_users), k=_RECOMMENDED)
            seconds = time.perf_counter() - started
            what = train.name, name, kernel, model.device, factors, epochs, train.nnz, repeat
            rows.append((*what, *vars(model.times).values(), seconds))
    columns = ["data", "model", "kernel", "device", "factors", "epochs", "nnz", "repeat"]
    frame = pd.DataFrame(rows, columns=[*columns, *vars(model.times), "recommend"])
    frame.attrs["datasets"] = [identity(ratings)]
    return frame


def summary(frame):
    """Medians of the warm fits.

    Returns
    -------
    DataFrame with a row a fit: data, model, kernel, factors, epochs, prepare, transfer, train, wall, recommend,
    first_wall (of the first fit of the process)
    """
    keys = ["data", "model", "kernel", "factors", "epochs"]
    warm = frame[frame.repeat > 0].groupby(keys, sort=False)
    table = warm[["prepare", "transfer", "train", "wall", "recommend"]].median()
    first = frame[frame.repeat == 0].set_index(keys).wall
    return table.assign(first_wall=first).reset_index()


def figure(frame):
    """The phases of warm fits, a bar a model, a part a phase."""
    table = summary(frame)
    figure, ((axis,),) = style.panels(height=1.2 + 0.4 * len(table))
    place, left = np.arange(len(table))[::-1], np.zeros(len(table))
    for phase, colour in PHASES.items():
        if phase in table:
            axis.barh(place, table[phase], left=left, color=style.COLOURS[colour], label=phase)
            left += table[phase]
    axis.barh(place, table.wall - left, left=left, color="#dddddd", label="errors, copies and all else")
    axis.set_yticks(
        place, [f"{r.model}, {r.kernel}, {r.factors} factors, {r.epochs} epochs" for r in table.itertuples()]
    )
    axis.set(xlabel="seconds of a fit, from arrays to arrays")
    style.legend(figure, axis, 4)
    return figure


def _median(frame, column, model, factors, kernel):
    """Of the warm fits, and half of what they cover."""
    fits = frame.query("repeat > 0 and model == @model and factors == @factors and kernel == @kernel")
    seconds = fits[column]
    return seconds.median(), (seconds.max() - seconds.min()) / 2, "s"


FINDINGS = [
    Finding(
        id,
        "gpumf",
        None,
        f"{model}, {kernel} | Netflix twin | {factors} factors | {metric}",
        partial(_median, column=column, model=model, factors=factors, kernel=kernel),
        Target(target, stretch),
    )
    for id, model, kernel, factors, column, metric, target, stretch in (
        (
            "als-explicit-wall10",
            "ALS",
            "tensor_core",
            100,
            "wall",
            "wall seconds of a fit, 10 iterations",
            0.50,
            0.30,
        ),
        ("sgd-fast-wall20", "SGD", "fast", 128, "wall", "wall seconds of a fit, 20 epochs", 0.75, 0.45),
        ("sgd-cumf-wall20", "SGD", "cumf_sgd", 128, "wall", "wall seconds of a fit, 20 epochs", 1.8, 1.2),
        ("als-implicit64-wall10", "ImplicitALS", "tensor_core", 64, "wall", "wall seconds of a fit", 0.45, 0.25),
        (
            "recommend-all-seconds",
            "ALS",
            "tensor_core",
            100,
            "recommend",
            "ten items to all users, seconds",
            0.15,
            0.08,
        ),
    )
]
