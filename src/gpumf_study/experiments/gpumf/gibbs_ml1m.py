"""Errors and intervals of BayesianMF on MovieLens 1M, five folds, beside ALS. Both have their defaults.

An interval is the prediction plus and minus as many standard deviations as hold a share of a normal distribution. Its
coverage is the share of held-out ratings that are inside.
"""

from statistics import NormalDist

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import ALS, BayesianMF
from gpumf_study import figure_style as style
from gpumf_study import sweep
from gpumf_study.experiments import identity, load_ratings

LEVELS = [0.5, 0.8, 0.9, 0.95]
PROFILES = {
    "full": {"data": "ml-1m", "factors": 32, "epochs": 100, "folds": 5},
    "quick": {"data": "ml-100k", "factors": 32, "epochs": 100, "folds": 5},
    "smoke": {"data": "ml-100k-synthetic", "factors": 4, "epochs": 5, "folds": 2},
}


def run(data, factors, epochs, folds):
    """Train on each fold and judge on its held-out ratings.

    Parameters
    ----------
    data : name of a data set
    factors, epochs, folds : int

    Returns
    -------
    DataFrame with the rows of `sweep.rows`, repeat the fold; those of the metric 'coverage' have x_level, the share
    that an interval is meant to hold
    """
    ratings, frames = load_ratings(data), []
    for fold, (train, test) in enumerate(tqdm(ratings.kfold(folds), total=folds, desc="gibbs_ml1m", leave=False)):
        als = ALS(device="cpu", seed=fold).fit(train.select(np.arange(train.nnz)), validation=test)
        bayesian = BayesianMF(factors, device="cpu", seed=fold).fit(train, epochs, test)
        frames += [sweep.rows(model).assign(repeat=fold) for model in (als, bayesian)]
        labels = frames[-1].iloc[[0]][["task", "model", "solver", "device", "factors", "repeat"]]
        frames += [labels.assign(metric="coverage", **row) for row in coverage(bayesian, test)]
    frame = pd.concat(frames, ignore_index=True).assign(data=ratings.name)
    frame.attrs["datasets"] = [identity(ratings)]
    return frame


def coverage(model, test):
    """Return a row for each of LEVELS, a dict of x_level and value."""
    predictions, deviations = model.predict_with_std(test.users, test.items, ids=False)
    errors = np.abs(test.values - predictions) / deviations
    widths = (NormalDist().inv_cdf((1 + level) / 2) for level in LEVELS)
    return [
        {"x_level": level, "value": float(np.mean(errors <= width))}
        for level, width in zip(LEVELS, widths, strict=True)
    ]


def summary(frame):
    """Return by model the last RMSE (mean) and seconds of training (median), and by level the mean coverage."""
    last = sweep.last_epoch(frame[frame.metric != "coverage"])
    errors = last.groupby("model").agg(rmse=("value", "mean"), seconds=("seconds", "median"))
    held = frame[frame.metric == "coverage"].groupby("x_level").value.mean()
    return errors, held


def figure(frame):
    """Draw test RMSE by epoch (left) and coverage of intervals (right; the line is nominal), means over the folds."""
    figure, (axes,) = style.panels(columns=2, height=3.4)
    courses = frame[frame.metric == "rmse"].groupby(["model", "epoch"]).value.mean()
    for name, colour in (("BayesianMF", "blue"), ("ALS", "grey")):
        course = courses[name]
        course = course[course.index > 0]
        axes[0].plot(course.index, course, color=style.COLOURS[colour])
        end, below = (course.index[-1], course.iloc[-1]), name == "ALS"
        shift = {"xytext": (0, -14 if below else 6), "textcoords": "offset points"}
        axes[0].annotate(f"{name}: {end[1]:.4f}", end, ha="right", color=style.COLOURS[colour], **shift)
    axes[0].set(xlabel="epochs", ylabel="test RMSE")
    _, held = summary(frame)
    axes[1].plot(held.index, held.index, "--", color=style.COLOURS["grey"])
    axes[1].plot(held.index, held, "o", color=style.COLOURS["blue"])
    axes[1].set(xlabel="share that an interval is meant to hold", ylabel="held-out ratings inside")
    axes[0].margins(y=0.15)
    return figure


CLAIMS = []
