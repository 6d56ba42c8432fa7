"""Trainings as rows of results: what each epoch reached, and where the seconds of the whole went."""

from copy import copy
from dataclasses import replace

import pandas as pd
from tqdm import tqdm

from gpumf_study.experiments import identity, load_ratings, trained

# Columns of stored frames, and what `gpumf.models.times.Times` calls them.
PHASES = {"prepare": "preprocess", "wall": "end_to_end"}
TIMES = ["prepare", "transfer", "train", "compile", "wall"]
"""Seconds of a whole `fit`, see `gpumf.models.times.Times`."""


def corner(ratings, part):
    """The ratings of the first users by the first items, a set of its own.

    part : (users, items), or None for all
    """
    if part is None:
        return ratings
    users, items = (int(min(most, n)) for most, n in zip(part, (ratings.n_users, ratings.n_items), strict=True))
    inside = ratings.select((ratings.users < users) & (ratings.items < items), f"{ratings.name}, {users} x {items}")
    ids = {"user_ids": ratings.user_ids[:users], "item_ids": ratings.item_ids[:items]}
    return replace(inside, n_users=users, n_items=items, **ids)


def over_splits(trainings, data, part, repeats, held_out, official=False):
    """What trainings give on every set, once a repeat, as one frame.

    Parameters
    ----------
    trainings : function (name, train, test, repeat) -> iterable of DataFrames
    data : names of data sets
    part : (users, items) of each that are taken, or None for all
    repeats : int; repeat k splits the ratings with seed k
    held_out : float, share of the ratings that are for testing
    official : whether a set that has a split of its own is split so instead
    """
    frames, identities = [], []
    for name in data:
        ratings = corner(load_ratings(name), part)
        identities.append(identity(ratings))
        published = official and ratings.test_mask is not None
        for repeat in range(repeats):
            train, test = ratings.official_split() if published else ratings.split(held_out, seed=repeat)
            running = trainings(name, train, test, repeat)
            frames.extend(tqdm(running, desc=f"{ratings.name}, repeat {repeat}", unit=" trainings", leave=False))
    frame = pd.concat(frames, ignore_index=True)
    frame.attrs["datasets"] = identities
    return frame


def warm(model, train):
    """Train a copy for an epoch, so that a timed training pays for nothing that a process does once."""
    trained(copy(model), train, 1, None)


def history(model, train, epochs, test=None, **options):
    """Fit a model, with these options of its `fit`.

    Returns
    -------
    DataFrame with a row an epoch: epoch, seconds (of training alone, summed up), rmse, mae, TIMES (of the whole), and
    diverged, whether the training ended so, with that epoch
    """
    return rows_of(trained(model, train, epochs, test, **options))


def rows_of(model):
    """What `history` returns, of a model that is fitted."""
    diverged = bool(model.history.seconds.isna().any())
    return model.history.assign(
        **{name: getattr(model.times, PHASES.get(name, name)) for name in TIMES}, diverged=diverged
    )


def epoch_seconds(frame, by):
    """What each epoch added to its training's seconds: a Series indexed by these columns, without what diverged.

    frame : as `history` returns it, with a column repeat and those of `by`
    """
    rows = frame[~frame.diverged.astype(bool)]
    added = rows.seconds - rows.groupby(list(dict.fromkeys([*by, "repeat"])), sort=False).seconds.shift()
    index = pd.MultiIndex.from_frame(rows[by]) if len(by) > 1 else pd.Index(rows[by[0]])
    return added.set_axis(index).dropna()


def last_epochs(frame, by):
    """The last row of each training, told apart by these columns and the repeat."""
    return frame.groupby([*by, "repeat"], sort=False).tail(1)


def each_epoch(frame, by):
    """`epoch_seconds` as a table for claims, with the repeat and a column 'seconds'."""
    return epoch_seconds(frame, [*by, "repeat"]).rename("seconds").reset_index()


def each_fit(frame, by):
    """`wall_seconds` as a table for claims, with the repeat and a column 'seconds'."""
    return wall_seconds(frame, by).rename("seconds").reset_index()


def fit_seconds(frame, by):
    """TIMES of each training that did not diverge: a DataFrame indexed by these columns and repeat."""
    return frame[~frame.diverged.astype(bool)].groupby([*by, "repeat"], sort=False)[TIMES].first()


def wall_seconds(frame, by):
    """Wall seconds but for compiling, as of `fit_seconds`: a Series with its index."""
    times = fit_seconds(frame, by)
    return times.wall - times["compile"]
