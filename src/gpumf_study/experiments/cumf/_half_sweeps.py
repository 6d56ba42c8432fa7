"""What the experiments at the size of Hugewiki share: `fit` with each update timed, its rows and its figure."""

import time
from typing import ClassVar

import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator

from gpumf import ALS
from gpumf.solvers.als_tensor_core import TensorCore
from gpumf_study import figure_style as style

_RECOMMENDED, _TOLD = 10, 10_000
"""Items to each, and users."""


class _Timed(TensorCore):
    """Waits for each update, and notes by the host's clock, which sees copies too, what it takes."""

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
    """Train ALS with lambda 0.05, and recommend to the first users.

    validation : Ratings, or None
    record : function of (iteration, step, seconds, rmse), called when an update of 'users' and of 'items' and the
        'iteration' of both is done, with the error on the validation set; of iteration 0 are what `fit` takes to
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


def frame_of(rows, **labels):
    """Return rows of (repeat, x_iteration, x_step, seconds, value) and more columns as a frame of the schema."""
    frame = pd.DataFrame(rows).sort_values(["repeat", "x_iteration"], kind="stable", ignore_index=True)
    frame["metric"] = np.where(frame.value.notna(), "rmse", None)
    return frame.assign(task="fit", model="ALS", solver="tensor_core", **labels)


def trainings(train, validation, factors, iterations, repeats, record, **options):
    """`fit` so many times, each from other factors, with the number of the training before what it records.

    Of what is not of an iteration the first training alone is recorded: later ones find the ratings in order.
    """
    for repeat in range(repeats):

        def noted(iteration, *what, repeat=repeat):
            if iteration or not repeat:
                record(repeat, iteration, *what)

        fit(train, validation, factors, iterations, noted, seed=repeat, **options)


def table(frame):
    """Return seconds by iteration, medians of trainings: a DataFrame with the columns users, items, iteration."""
    return frame[frame.x_iteration > 0].pivot_table("seconds", "x_iteration", "x_step", aggfunc="median")


def of_trainings(frame):
    """Return the median seconds of an iteration of each training: a DataFrame of repeat and seconds.

    Where one alone was made its iterations are the repeats, which are no independent runs.
    """
    frame = frame[frame.x_step == "iteration"]
    repeat = frame.repeat if frame.repeat.nunique() > 1 else frame.x_iteration.rename("repeat")
    return frame.groupby(repeat).seconds.median().reset_index()


def bars(axis, table):
    """Draw the seconds of the updates of each iteration on top of each other."""
    below = 0
    for side, colour in (("users", "sky"), ("items", "purple")):
        look = {"color": style.COLOURS[colour], "label": f"{side[:-1]} update"}
        axis.bar(table.index, table[side], 0.7, bottom=below, **look)
        below = table[side]
    axis.set(xlabel="iteration", ylabel="seconds")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
