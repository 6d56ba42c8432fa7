"""What the experiments at the size of Hugewiki share: `fit` with each half-sweep timed, its rows and its figure."""

import time
from typing import ClassVar

import numpy as np
from matplotlib.ticker import MaxNLocator

from gpumf import ALS
from gpumf.solvers.als_tensor_core import TensorCore
from gpumf_study import figure_style as style
from gpumf_study.findings import median

_RECOMMENDED, _TOLD = 10, 10_000
"""Items to each, and users."""


class _Timed(TensorCore):
    """Waits for each half-sweep, and notes by the host's clock, which sees copies too, what it takes."""

    noted: ClassVar[list] = []  # of each epoch, a dict side -> seconds

    def epoch(self, number):
        self.noted.append({"users": self._seconds(self.solve_users), "items": self._seconds(self.solve_items)})

    def _seconds(self, solve):
        started = time.perf_counter()
        solve()
        self.synchronize()
        return time.perf_counter() - started


class _TimedALS(ALS):
    _solvers: ClassVar = {"tensor_core": _Timed}


def fit(train, validation, factors, iterations, record, **options):
    """Train ALS with lambda 0.05 on a set of ratings, and recommend to the first users.

    Parameters
    ----------
    train : Ratings
    validation : Ratings, or None
    record : function of (iteration, step, seconds, rmse), called when a half-sweep of 'users' and of 'items' and the
        'iteration' of both is done, with the errors on the validation set; of iteration 0 are what `fit` takes to
        'prepare' and 'transfer', its 'wall', and to 'recommend' ten items to each of at most 10,000 users
    **options : of `ALS`
    """
    _Timed.noted.clear()
    model = _TimedALS(factors, 0.05, solver="tensor_core", biases=False, **options)

    def done(row):
        halves = _Timed.noted[-1]
        for step, seconds in halves.items():
            record(row["epoch"], step, seconds, np.nan)
        record(row["epoch"], "iteration", sum(halves.values()), row["rmse"])

    model.fit(train, iterations, validation, stop=done)
    record(0, "prepare", model.times.preprocess, model.history.rmse[0])
    record(0, "transfer", model.times.transfer, np.nan)
    record(0, "wall", model.times.end_to_end, np.nan)
    started = time.perf_counter()
    model.recommend(np.arange(min(_TOLD, train.n_users)), k=_RECOMMENDED)
    record(0, "recommend", time.perf_counter() - started, np.nan)


def table(frame):
    """Seconds by iteration: a DataFrame with the columns users, items, iteration."""
    return frame[frame.iteration > 0].pivot(index="iteration", columns="step", values="seconds")


def bars(axis, table):
    """Draw the seconds of the half-sweeps of each iteration on top of each other."""
    below = 0
    for side, colour in (("users", "sky"), ("items", "purple")):
        axis.bar(table.index, table[side], 0.7, bottom=below, color=style.COLOURS[colour], label=side)
        below = table[side]
    axis.set(xlabel="iteration", ylabel="seconds")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))


def iteration(frame):
    """The median of an iteration's seconds, for a finding."""
    return *median(frame[frame.step == "iteration"].seconds), "s"
