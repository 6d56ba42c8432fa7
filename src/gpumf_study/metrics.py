"""Named metrics: what a claim takes from a stored frame, as a value with its 95 % interval.

A metric gets a frame and `select`, a dict that says which rows and columns it takes:

column : the name of the column that is measured
where : dict of column -> value, or list of values, of the rows taken
over, under : the same, of the two lots of rows that are compared
by : of `growth`, the column with the time
best : the column that names alternatives in `under` (of `ratio`: in `over`); the one with the lowest median is taken
each : list of columns; the metric is taken in each of their groups that has both lots
across : 'median', 'max' or 'min' of the groups, needed with `each`; of `exact`, 'max' or 'min' of the values
times : of `median`, from how many times of one run each value was computed, as their products and ratios. Where it
    is another function of times, the name of a column with the sum of its squared elasticities, one for each time

The value is computed of medians of all rows. The interval is Student's t with the repeats as units: rows of one
repeat count as one, by their median. With one repeat alone the interval is unknown, which is one without ends. Ratios
of times have the spread between runs in their intervals, too, in quadrature: see `_with_runs`.
"""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

LEVEL = 0.95
Spread = dict[str | tuple[str, str, str], tuple[float, float]]
"""Of `spread.between_runs`: by device, or device, model and solver, a variance and its degrees of freedom."""

_TIMES = ["train", "wall", "end_to_end", "x_reduction"]

_MEDIAN = np.sqrt(np.pi / 2)
"""Standard error of a median over that of a mean, for many normal values; for few it is less."""


@dataclass(frozen=True)
class Estimate:
    """A measured value.

    value, low, high : float; NaN where there are no rows; the interval is infinite where the spread is unknown
    n : int, the fewest repeats of what is compared
    unit : str, '' for the unit of the column
    """

    value: float
    low: float
    high: float
    n: int
    unit: str = ""


NOTHING = Estimate(np.nan, np.nan, np.nan, 0)


def is_time(column: str) -> bool:
    """Return whether a column has times, or what is divided by one."""
    return column in _TIMES or "seconds" in column


def rows(frame: pd.DataFrame, where: dict[str, Any]) -> pd.DataFrame:
    """Return the rows that have these values; a list allows each of its values."""
    for column, value in where.items():
        frame = frame[frame[column].isin(value) if isinstance(value, list | tuple) else frame[column] == value]
    return frame


def _lot(frame, column):
    """(values, medians of repeats) of a column."""
    having = frame[frame[column].notna()]
    values = having[column]
    of_repeats = having.groupby("repeat")[column].median() if "repeat" in frame else values
    return values.to_numpy(float), of_repeats.to_numpy(float)


def _error(values):
    """Return (variance of the median, degrees of freedom) of repeats; NaN of one alone."""
    n = len(values)
    if n < 2:
        return np.nan, np.nan
    variance = np.var(values, ddof=1) if np.ptp(values) else 0.0  # which is 1e-33 of equal logarithms
    return _MEDIAN**2 * variance / n, n - 1


def _half_width(errors, level):
    """Return half of the interval of a sum or difference, by Welch's degrees of freedom; infinite where unknown.

    errors : (variance, degrees of freedom) of each, see `_error`
    """
    from scipy.stats import t

    variances = np.array([variance for variance, _ in errors])
    freedom = np.array([f for _, f in errors])
    total = variances.sum()
    if np.isnan(total):
        return np.inf
    if total == 0:
        return 0.0
    return float(t.ppf((1 + level) / 2, total**2 / (variances**2 / freedom).sum()) * np.sqrt(total))


def _compared(frame, select, level, relative):
    """The Estimate of over / under where `relative`, else of over - under."""
    column = select["column"]
    sides = {side: rows(frame, select[side]) for side in ("over", "under")}
    if best := select.get("best"):
        side = "over" if relative else "under"
        medians = sides[side].groupby(best)[column].median().dropna()
        if medians.empty:
            return NOTHING
        sides[side] = rows(sides[side], {best: medians.idxmin()})
    lots = [_lot(side, column) for side in sides.values()]
    if not all(len(values) for values, _ in lots):
        return NOTHING
    over, under = (float(np.median(values)) for values, _ in lots)
    n = min(len(of_repeats) for _, of_repeats in lots)
    if not relative:
        half = _half_width([_error(of_repeats) for _, of_repeats in lots], level)
        return Estimate(over - under, over - under - half, over - under + half, n)
    return _times(over / under, _half_of_logarithm(sides.values(), select, level), n)


def _half_of_logarithm(sides, select, level):
    """Half of the interval of a sum of logarithms of medians; of times, with the variance between runs."""
    errors = [_error(np.log(_lot(side, select["column"])[1])) for side in sides]
    times, between = select.get("times", int(is_time(select["column"]))), select.get("between", {})
    if not (times and between):
        return _with_runs(errors, [], level)
    if not all("device" in side for side in sides):
        raise ValueError("a table of times has to have the column device: runs differ more on CPUs than on GPUs")
    sides_of = Counter(_spread_of(side, between) for side in sides)  # of one key one estimate
    runs = [(times * n * between[key][0], between[key][1]) for key, n in sides_of.items() if key in between]
    return _with_runs(errors, runs, level)


def _spread_of(side, between):
    """The key of a `Spread` for the times of a side: that of its solver, or else of its device."""
    device = side.device.iloc[0]
    if {"model", "solver"} <= set(side) and len(named := side[["model", "solver"]].drop_duplicates()) == 1:
        own = device, *named.iloc[0]
        return own if own in between else device
    return device


def _with_runs(errors, runs, level):
    """Half of the interval of medians with `errors`, see `_error`, whose runs differ by variances alike: `runs`.

    Half widths are added in quadrature. One of the sum of all variances, with Welch's degrees of freedom, is too
    narrow where a variance of few degrees is too small by chance. In quadrature, intervals of normal values exclude
    the truth at most as often as the level says, whatever the variances are (Banerjee 1960).
    """
    return math.hypot(_half_width(errors, level), *(_half_width([one], level) for one in runs))


def _times(value, half, n, unit="x"):
    """The Estimate of a ratio, of half of the interval of its logarithm."""
    low, high = (value * np.exp(-half), value * np.exp(half)) if np.isfinite(half) else (-np.inf, np.inf)
    return Estimate(value, low, high, n, unit)


def _in_groups(frame, select, of):
    """The Estimate of (frame, level), or that across the groups of `each`.

    The function across groups is monotone in each, so that intervals of all groups at once bound it: theirs have the
    level of Bonferroni.
    """
    if "each" not in select:
        return of(frame, LEVEL)
    groups = [group for _, group in frame.groupby(select["each"], sort=False)]
    having = [group for group in groups if not np.isnan(of(group, LEVEL).value)]
    if not having:
        return NOTHING
    found = [of(group, 1 - (1 - LEVEL) / len(having)) for group in having]
    across = {"median": np.median, "max": np.max, "min": np.min}[select["across"]]
    value, low, high = (float(across([getattr(one, key) for one in found])) for key in ("value", "low", "high"))
    return Estimate(value, low, high, min(one.n for one in found), found[0].unit)


def _median(frame, select):
    values, of_repeats = _lot(frame, select["column"])
    if not len(values):
        return NOTHING
    value, n = float(np.median(values)), len(of_repeats)
    if "times" in select:
        if isinstance(times := select["times"], str):
            select = select | {"times": frame[times].median()}
        return _times(value, _half_of_logarithm([frame], select, LEVEL), n, unit="")
    half = _half_width([_error(of_repeats)], LEVEL)
    return Estimate(value, value - half, value + half, n)


def _exact(frame, select):
    """The largest or least of values that are counted, and have no spread."""
    values = frame[select["column"]].dropna()
    if values.empty:
        return NOTHING
    value = float({"max": np.max, "min": np.min}[select["across"]](values))
    return Estimate(value, value, value, len(values))


def _growth(frame, select):
    """By what factor a value grows in a unit of time: the slope of its logarithm by least squares."""
    from scipy.stats import linregress, t

    if len(frame) < 3:
        return NOTHING
    line = linregress(frame[select["by"]], np.log(frame[select["column"]]))
    return _times(float(np.exp(line.slope)), float(t.ppf((1 + LEVEL) / 2, len(frame) - 2) * line.stderr), len(frame))


def _ratio(frame, select):
    return _in_groups(frame, select, lambda group, level: _compared(group, select, level, relative=True))


def _difference(frame, select):
    return _in_groups(frame, select, lambda group, level: _compared(group, select, level, relative=False))


def _percent_more(frame, select):
    """By how many per cent `over` is above `under`."""
    one = _ratio(frame, select)
    return Estimate(*(100 * (value - 1) for value in (one.value, one.low, one.high)), one.n, "%")


def _ratio_of_ratios(frame, select):
    """The ratio in the rows of `here` over that in the rows of `there`."""
    taken = [rows(frame, select[place]) for place in ("here", "there")]
    found = [_compared(one, select, LEVEL, relative=True) for one in taken]
    if np.isnan([one.value for one in found]).any():
        return NOTHING
    sides = [rows(one, select[side]) for one in taken for side in ("over", "under")]
    half = _half_of_logarithm(sides, select, LEVEL)
    return _times(found[0].value / found[1].value, half, min(one.n for one in found))


METRICS: dict[str, Callable[[pd.DataFrame, dict[str, Any]], Estimate]] = {
    "median": _median,
    "exact": _exact,
    "growth": _growth,
    "ratio": _ratio,
    "difference": _difference,
    "percent_more": _percent_more,
    "ratio_of_ratios": _ratio_of_ratios,
}


def estimate(frame: pd.DataFrame, metric: str, select: dict[str, Any], between: Spread | None = None) -> Estimate:
    """Return what a metric takes from a frame; see the module's docstring.

    between : of `spread.between_runs`; None for what has no spread between runs

    Raise KeyError where there is no such metric, or `select` lacks what it needs.
    """
    select = select | ({"between": between} if between else {})
    return METRICS[metric](rows(frame, select.get("where", {})), select)
