"""Errors and intervals of BayesianMF on MovieLens, beside ALS. Both have their defaults but for the factors.

An interval is the prediction plus and minus as many standard deviations as hold a share of a normal distribution. Its
coverage is the share of held-out ratings that are inside.
"""

from itertools import product
from statistics import NormalDist

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import ALS, BayesianMF
from gpumf_study import figure_style as style
from gpumf_study import sweep
from gpumf_study.experiments import load_ratings

LEVELS = [0.5, 0.8, 0.9, 0.95]
PROFILES = {
    "full": {"data": ["ml-1m", "ml-100k"], "splits": ["folds", "90/10"], "factors": 32, "epochs": 100, "repeats": 5},
    "quick": {"data": ["ml-100k"], "splits": ["folds"], "factors": 32, "epochs": 100, "repeats": 5},
    "smoke": {"data": ["ml-100k-synthetic"], "splits": ["folds", "90/10"], "factors": 4, "epochs": 5, "repeats": 2},
}


def run(data, splits, factors, epochs, repeats):
    """Train on each split and judge on its held-out ratings.

    splits : of 'folds', as many as there are repeats, and '90/10', as many draws of a tenth

    Return a DataFrame with the rows of `sweep.rows`, x_split and repeat, the fold or the seed of the draw; those of
    the metric 'coverage' have x_level, the share that an interval is meant to hold
    """
    frames = []
    for name, split in product(data, splits):
        ratings = load_ratings(name)
        tenths = (ratings.split(0.1, seed=seed) for seed in range(repeats))
        pairs = ratings.kfold(repeats) if split == "folds" else tenths
        for repeat, (train, test) in enumerate(tqdm(pairs, total=repeats, desc=f"{name}, {split}", leave=False)):
            als = ALS(device="cpu", seed=repeat).fit(train.select(np.arange(train.nnz)), validation=test)
            bayesian = BayesianMF(factors, device="cpu", seed=repeat).fit(train, epochs, test)
            trained = pd.concat([sweep.rows(model) for model in (als, bayesian)])
            labels = trained.iloc[[-1]][["task", "model", "solver", "device", "factors"]]
            held = [labels.assign(metric="coverage", **row) for row in coverage(bayesian, test)]
            frames.append(pd.concat([trained, *held]).assign(data=ratings.name, x_split=split, repeat=repeat))
    return pd.concat(frames, ignore_index=True)


def coverage(model, test):
    """Return a row for each of LEVELS, a dict of x_level and value."""
    predictions, deviations = model.predict_with_std(test.users, test.items, ids=False)
    errors = np.abs(test.values - predictions) / deviations
    widths = {level: NormalDist().inv_cdf((1 + level) / 2) for level in LEVELS}
    return [{"x_level": level, "value": float(np.mean(errors <= width))} for level, width in widths.items()]


def summary(frame):
    """Return the last RMSE (mean) and seconds of training (median) by data set, split and model, and coverage.

    Coverage is the mean, by data set, split and level.
    """
    by = ["data", "x_split"]
    last = sweep.last_epoch(frame[frame.metric == "rmse"])
    errors = last.groupby([*by, "model"]).agg(rmse=("value", "mean"), seconds=("seconds", "median"))
    return errors, frame[frame.metric == "coverage"].groupby([*by, "x_level"]).value.mean()


def figure(frame):
    """Draw RMSE by epoch (left) and coverage of intervals (right) on the first data set, means over its folds."""
    first = frame.data.iloc[0]
    frame = frame[(frame.data == first) & (frame.x_split == "folds")]
    figure, (axes,) = style.panels(columns=2, height=3.4)
    courses = frame[frame.metric == "rmse"].groupby(["model", "epoch"]).value.mean()
    for name, colour in (("BayesianMF", "blue"), ("ALS", "grey")):
        course = courses[name]
        course = course[course.index > 0]
        axes[0].plot(course.index, course, color=style.COLOURS[colour])
        end, below = (course.index[-1], course.iloc[-1]), name == "ALS"
        shift = {"xytext": (-8, -24) if below else (0, 6), "textcoords": "offset points"}
        side = "left" if below else "right"
        axes[0].annotate(f"{name}: {end[1]:.4f}", end, ha=side, color=style.COLOURS[colour], **shift)
    axes[0].set(xlabel="epochs", ylabel="test RMSE")
    held = summary(frame)[1].loc[(first, "folds")]
    axes[1].plot(held.index, held.index, "--", color=style.COLOURS["grey"])
    axes[1].plot(held.index, held, "o", color=style.COLOURS["blue"])
    axes[1].set(xlabel="share that an interval is meant to hold", ylabel="held-out ratings inside")
    axes[0].margins(y=0.2)
    return figure
