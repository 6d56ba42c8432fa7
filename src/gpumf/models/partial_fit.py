"""The ratings from before and new ones, of models that take these in without training anew."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from gpumf._util.validation import brief
from gpumf.models.checks import check_finite, check_training
from gpumf.ratings import DataError
from gpumf.ratings.checks import joined_ids
from gpumf.ratings.convert import check_ids, positions_of, ratings_of
from gpumf.ratings.csr import CompressedRows, row_offsets

if TYPE_CHECKING:
    from gpumf.models.estimator import Model
    from gpumf.ratings import Ratings
    from gpumf.ratings.convert import RatingsLike


def with_new(model: Model, new: RatingsLike, grow: bool = False) -> tuple[Ratings, Ratings]:
    """(new, whole): the new ratings, checked, and those that a model was trained on with them, on the host.

    model : fitted Model
    new : Ratings of its users and items, or what `fit` makes them of
    grow : bool, take new users and items too, which get the positions after the model's: of `Ratings` and matrices
        those from the model's shape on, of data that name ids the new ids
    Raises NotFittedError: the model is not fitted
    Raises ValueError: its training set is not known, or that of users folded in alone; ratings of others, not finite
    """
    model._check_fitted()
    if model._training is None:
        raise ValueError("the training set is not known here; tell it by fit(train, epochs=0, warm_start=True)")
    if not model._knows_training:
        raise ValueError(
            "a model with users folded in knows no other ratings of its items; use partial_fit of the model before"
        )
    new = (_grown(model, new) if grow else model._like(new, "new")).on_host()
    check_training(new, None)
    if not grow:
        model._check_shape(new)
    check_finite(new, None)
    return new, renewed(model._training.on_host(), new)[0]


def _grown(model, data):
    """`Ratings` of what `fit` takes, in the positions of a model, and in those after them for who is new."""
    given, named = ratings_of(data, "new", one_user=True)
    if not named:
        check_ids(given, "new", model.user_ids, model.item_ids)
    facts = {}
    for side, count in zip(("user", "item"), model._shape, strict=True):
        known, ids = getattr(model, f"{side}_ids"), getattr(given, f"{side}_ids")
        before = np.arange(count) if known is None else known
        if named:
            if (ids.dtype.kind in "iu") != (before.dtype.kind in "iu"):
                raise DataError(
                    f"new: {side}s such as {brief(ids[0])} are no ids like the model's {brief(before[0])}"
                )
            places = positions_of(ids, before)
            strangers = places < 0
            places[strangers] = count + np.arange(strangers.sum())
            facts[f"{side}s"] = places[getattr(given, f"{side}s")]
            ids = joined_ids([before, ids[strangers]])
        elif len(ids) == count:
            ids = before
        elif len(ids) < count or not np.array_equal(ids[:count], before):
            raise ValueError(
                f"the ratings have other users or items than the model was trained on: {len(ids)} {side}s, of which "
                f"the first have to be its {count}; a data frame names them by their ids"
            )
        facts |= {f"{side}_ids": ids, f"n_{side}s": len(ids)}
    return replace(given, **facts, test_mask=None, times=None)


def renewed(before, new):
    """(both sets in one, items of pairs that both have): with new ratings of these, in the shape of the new set."""
    touched = np.zeros(max(before.n_users, new.n_users), bool)
    touched[new.users] = True
    places = np.flatnonzero(touched[before.users])
    again = places[new.by_user.holds(before.users[places], before.items[places])]
    items, old = before.items[again], before
    if len(again):
        keep = np.ones(before.nnz, bool)
        keep[again] = False
        old = before.select(keep)
    columns = {name: np.concatenate([getattr(r, name) for r in (old, new)]) for name in ("users", "items", "values")}
    if (new.n_users, new.n_items) != (before.n_users, before.n_items):
        columns |= {name: getattr(new, name) for name in ("n_users", "n_items", "user_ids", "item_ids")}
    return replace(old, **columns, times=None, test_mask=None), items


def seen_with(rows, new):
    """(rows, items): what users rated, `rows` without values, with what they rate in `new`, in the shape of that.

    items : of pairs that were there before
    """
    n = np.int64(new.n_items)
    cells, fresh = rows.cells(new.n_items), np.unique(new.users * n + new.items)
    places = np.searchsorted(cells, fresh)
    known = np.append(cells, -1)[places] == fresh
    users, items = np.divmod(fresh[~known], n)
    counts = np.bincount(users, minlength=new.n_users)
    counts[: rows.n_rows] += rows.counts
    indices = np.insert(rows.indices, places[~known], items.astype(np.int32))
    return CompressedRows(row_offsets(counts), indices, None), fresh[known] % n
