"""Steps of cu2rec at the size of MovieLens 10M, as its publication times them: few and many factors.

A step updates every user once. With biases, 80 % of the ratings for training. Its learning rate decays on patience,
which takes validation; the steps are timed alone.
"""

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import SGD, backends
from gpumf_study import figure_style as style
from gpumf_study.experiments import identity, kernels_unavailable, load_ratings
from gpumf_study.findings import Finding, Target, median

_COMMON = {"regularization": 0.02, "learning_rate": 0.01}
PROFILES = {
    "quick": {"data": "ml-100k-synthetic", "factors": [4], "steps": 3, "repeats": 2, **_COMMON},
    "full": {"data": "ml-10m-synthetic", "factors": [50, 300], "steps": 3000, "repeats": 10, **_COMMON},
}
PROFILES["smoke"] = PROFILES["quick"] | {"data": "ml-100k-synthetic", "steps": 1}

why_unavailable = kernels_unavailable


def run(data, factors, steps, repeats, regularization, learning_rate):
    """Time steps on the GPU, or on the processor in its place where there is none.

    Parameters
    ----------
    data : name of a data set
    factors : list of int
    steps : int, of a timing; a repeat goes on where the one before ended
    repeats : int
    regularization, learning_rate : as of SGD

    Returns
    -------
    DataFrame with a row a timing: data, kernel, device, factors, repeat, steps, updates (as many as there are users
    with ratings, a step), seconds, rmse, mae (on the training set, after it, by the publication's loss kernels)
    """
    device = backends.device("cuda" if backends.available() else "emulator")
    ratings = load_ratings(data)
    train, _ = ratings.split(0.2)
    train = replace(train, values=train.values - np.float32(train.mean))  # as a model with biases counts them
    updates = steps * int((train.by_user.counts > 0).sum())
    rows = []
    for f in tqdm(factors, desc="sgd_cu2rec", leave=False):
        model = SGD(
            f,
            regularization,
            learning_rate=learning_rate,
            biases=True,
            clip=False,
            solver="cu2rec",
            device=device.name,
        )
        trainer = model.make_solver(train)
        trainer.take_steps(0, 1)  # whatever the first launch has to do
        for repeat in range(repeats):
            first = 1 + repeat * steps
            (seconds,) = device.time(lambda t=trainer, s=first: t.take_steps(s, steps), repeats=1, warmup=0)
            rows.append((ratings.name, "cu2rec", device.name, f, repeat, steps, updates, seconds))
            rows[-1] += trainer.training_errors()
    columns = ["data", "kernel", "device", "factors", "repeat", "steps", "updates", "seconds", "rmse", "mae"]
    frame = pd.DataFrame(rows, columns=columns)
    frame.attrs["datasets"] = [identity(ratings)]
    return frame


def summary(frame):
    """What the steps take, from the frame of `run`.

    Returns
    -------
    DataFrame with the index factors: steps, updates, seconds (median), spread (largest less smallest), rmse (on the
    training set after the first of the repeats)
    """
    repeats = frame.groupby("factors")
    first = repeats[["steps", "updates", "rmse"]].first()
    return first.assign(seconds=repeats.seconds.median(), spread=repeats.seconds.agg(np.ptp))


def figure(frame):
    """Seconds of the steps against the number of factors, a dot a repeat."""
    figure, ((axis,),) = style.panels(height=3.2)
    style.curve(axis, summary(frame).seconds, "SGD", "cu2rec", "median")
    axis.plot(frame.factors, frame.seconds, "o", color=style.COLOURS["teal"], alpha=0.4, label="a repeat")
    axis.set(xlabel="factors", ylabel=f"seconds of {frame.steps.iloc[0]:,} steps", ylim=(0, None))
    style.legend(figure, axis, 2)
    return figure


def _steps(frame, factors):
    rows = frame[(frame.data == "ml-10m-synthetic") & (frame.steps == 3000) & (frame.factors == factors)]
    return *median(rows.seconds), "s"


FINDINGS = [
    Finding(
        f"sgd-cu2rec{factors}-seconds",
        "gpumf",
        None,
        f"SGD, cu2rec | MovieLens 10M twin | {factors} factors | 3,000 steps",
        partial(_steps, factors=factors),
        Target(target, stretch),
    )
    for factors, target, stretch in ((50, 0.30, 0.10), (300, 1.2, 0.5))
]
