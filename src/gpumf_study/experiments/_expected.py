"""Times fitted to what `crossover` measured, which `gpumf.suggest` rests on, and what they are worth elsewhere."""

import numpy as np
import pandas as pd

from gpumf import suggestion

SHAPE = ["x_n_users", "x_n_items", "x_nnz", "factors"]


def fastest_versions(frame):
    """What each version of the fastest pair takes in each setting, from the frame of `crossover.run`.

    Return a DataFrame with a row a version and setting: data, those of SHAPE, model, solver, seconds (to the same
    error, median over the repeats; missing where one of them did not reach it)
    """
    keys = ["data", *SHAPE, "model", "solver"]
    groups = frame[frame.variant != "published"].groupby(keys, sort=False).seconds
    return groups.agg(lambda seconds: seconds.median(skipna=False)).reset_index()


def time_weights(versions):
    """What the seconds of each version follow: the weights of `suggestion.terms`, of least squares of ln(seconds).

    versions : rows as of `fastest_versions`; those whose error was not reached say nothing

    Return a dict (model, solver) -> array (4,)
    """
    reached = versions.dropna(subset="seconds")
    return {
        key: np.linalg.lstsq(_terms(rows), np.log(rows.seconds.to_numpy()), rcond=None)[0]
        for key, rows in reached.groupby(["model", "solver"], sort=False)
    }


def _terms(rows):
    return np.array([suggestion.terms(*row) for row in rows[SHAPE].to_numpy()])


def expected(frame, left_out=True):
    """The seconds that fitted times expect of each setting of the fastest pair, beside what was measured.

    frame : of `crossover.run`
    left_out : bool, expect a data set's by the times of all the others; else by those of all, its own among them

    Return a DataFrame with a row a version and setting: the columns of `fastest_versions`, expected (seconds; missing
    where no other data set has been measured, or none with this version)
    """
    versions = fastest_versions(frame)
    parts = []
    for data, rows in versions.groupby("data", sort=False):
        weights = time_weights(versions[versions.data != data] if left_out else versions)
        for key, of_version in rows.groupby(["model", "solver"], sort=False):
            logarithms = _terms(of_version) @ weights.get(key, np.full(4, np.nan))
            parts.append(of_version.assign(expected=np.exp(logarithms)))
    return pd.concat(parts, ignore_index=True)


def named(frame, left_out=True):
    """Which model fitted times name as the faster one, in each setting that both were measured in.

    frame, left_out : as of `expected`

    Return a DataFrame with a row a setting: data, those of SHAPE, named and faster ('ALS' or 'SGD', by expected and
    by measured seconds)
    """
    settings = ["data", *SHAPE]
    least = expected(frame, left_out).groupby([*settings, "model"], sort=False)[["seconds", "expected"]].min()
    table = least.unstack("model").dropna()
    if table.empty:
        return pd.DataFrame(columns=[*settings, "named", "faster"])
    columns = {name: table[column].idxmin(axis=1) for name, column in (("named", "expected"), ("faster", "seconds"))}
    return pd.DataFrame(columns).reset_index()
