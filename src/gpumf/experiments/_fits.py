"""Trainings as rows of results: what each epoch reached, and where the seconds of the whole went."""

from dataclasses import replace

import pandas as pd

from gpumf.experiments import trained

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


def history(model, train, epochs, test=None, **options):
    """Fit a model, with these options of its `fit`.

    Returns
    -------
    DataFrame with a row an epoch: epoch, seconds (of training alone, summed up), rmse, mae, TIMES (of the whole), and
    diverged, whether the training ended so, with that epoch
    """
    model = trained(model, train, epochs, test, **options)
    diverged = bool(model.history.seconds.isna().any())
    return model.history.assign(**{name: getattr(model.times, name) for name in TIMES}, diverged=diverged)


def epoch_seconds(frame, by):
    """What each epoch added to its training's seconds: a Series indexed by these columns, without what diverged.

    frame : as `history` returns it, with a column repeat and those of `by`
    """
    rows = frame[~frame.diverged.astype(bool)]
    added = rows.seconds - rows.groupby([*by, "repeat"], sort=False).seconds.shift()
    index = pd.MultiIndex.from_frame(rows[by]) if len(by) > 1 else pd.Index(rows[by[0]])
    return added.set_axis(index).dropna()


def fit_seconds(frame, by):
    """TIMES of each training that did not diverge: a DataFrame indexed by these columns and repeat."""
    return frame[~frame.diverged.astype(bool)].groupby([*by, "repeat"], sort=False)[TIMES].first()
