"""The one way from columns of raw ratings to positions and float32 values: every set passes these checks."""

import numpy as np


class DataError(ValueError):
    """Ratings that cannot be used. The message names the file, the line or row, and what to do."""


def checked(users, items, values, *, scale, shape, duplicates, test_mask, source, locate):
    """Check raw columns and map ids to positions; see `Ratings.from_arrays` for the arguments.

    Returns
    -------
    dict of the fields of `Ratings` that follow from the columns

    Raises
    ------
    DataError : for the first thing found wrong
    """
    if duplicates not in ("error", "mean", "last"):
        raise ValueError(f"duplicates must be 'error', 'mean' or 'last', not {duplicates!r}")
    if not len(users) == len(items) == len(values):
        raise DataError(f"{source}: {len(users)} users, {len(items)} items and {len(values)} ratings; give as many")
    if test_mask is not None and len(test_mask) != len(values):
        raise DataError(f"{source}: {len(values)} ratings and a test mask of {len(test_mask)}; give as many")
    if len(values) == 0:
        raise DataError(f"{source} holds no ratings; check that this is the right file and complete")
    values = _finite(values, locate)
    if scale is not None:
        off = (values < scale[0]) | (values > scale[1])
        if off.any():
            k = off.argmax()
            raise DataError(
                f"{locate(k)}: rating {values[k]:g} is off the scale {scale[0]:g} to {scale[1]:g}; "
                "correct or remove it, or check the columns"
            )
    users, user_ids = _positions(users, "user", shape and shape[0], locate)
    items, item_ids = _positions(items, "item", shape and shape[1], locate)
    if users.min() == users.max():
        raise DataError(
            f"{source}: all ratings are by one user, {user_ids[users[0]]}, which leaves nothing to factorize; "
            "check the columns"
        )
    keep, values = _without_duplicates(users, items, values, user_ids, item_ids, duplicates, locate)
    return {
        "users": users[keep],
        "items": items[keep],
        "values": values,
        "n_users": len(user_ids),
        "n_items": len(item_ids),
        "scale": scale,
        "user_ids": user_ids,
        "item_ids": item_ids,
        "test_mask": None if test_mask is None else test_mask[keep],
    }


def _finite(values, locate):
    """The ratings as float64, every one a finite number."""
    import pandas as pd

    raw = np.asarray(values)
    if raw.dtype.kind not in "fiubOSUT":
        raise DataError(f"{locate(0)}: ratings of type {raw.dtype} are not numbers")
    numbers = raw if raw.dtype.kind in "fiu" else pd.to_numeric(pd.Series(raw), errors="coerce").to_numpy(np.float64)
    numbers = numbers.astype(np.float64, copy=False)
    with np.errstate(over="ignore"):
        finite = np.isfinite(numbers.astype(np.float32))
    if not finite.all():
        k = finite.argmin()
        problem = "beyond the range of 32 bits" if np.isfinite(numbers[k]) else "not a finite number"
        raise DataError(f"{locate(k)}: rating {raw[k]} is {problem}; correct or remove it")
    return numbers


def _positions(ids, side, count, locate):
    """Map ids to positions in ascending order of id; with a count, the ids are positions already.

    Returns
    -------
    positions : int32 (ratings,)
    ids : (count,), the id of each position
    """
    codes, names = _factorized(ids, side, locate)
    if names.dtype.kind == "i" and names.min() < 0:
        k = (codes == names.argmin()).argmax()
        raise DataError(f"{locate(k)}: negative {side} id {names.min()}; ids are strings or integers from 0")
    if count is not None:
        if names.dtype.kind not in "iu" or names.max() >= count:
            k = (codes == names.argmax()).argmax()
            raise DataError(f"{locate(k)}: {side} {names.max()} is not a position below the {count} of the shape")
        return names[codes].astype(np.int32), np.arange(count)
    order = np.argsort(names, kind="stable")
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return rank[codes], names[order]


def _factorized(ids, side, locate):
    """(code of each rating, distinct ids): integers, or an object array of strings."""
    import pandas as pd

    if isinstance(ids, pd.Categorical):
        ids = ids.remove_unused_categories()
        codes, names = ids.codes, np.asarray(ids.categories)
    else:
        # A Series keeps the types of a list's elements, where an array would turn integers among strings to strings.
        codes, names = pd.factorize(ids if isinstance(ids, np.ndarray) else np.asarray(pd.Series(ids)))
    if (codes < 0).any():
        raise DataError(f"{locate((codes < 0).argmax())}: the {side} id is missing; fill it in or remove the rating")
    if names.dtype.kind in "iu":
        return codes, names
    if names.dtype.kind == "f":  # integers may come as floats, which have every integer up to 2 / eps
        strange = (names != np.floor(names)) | (np.abs(names) >= 2 / np.finfo(names.dtype).eps)
        if not strange.any():
            return codes, names.astype(np.int64)
    else:
        names = np.asarray(names, object)
        strange = np.array([not isinstance(name, str) for name in names])
        if not strange.any():
            return codes, names
    k = (codes == strange.argmax()).argmax()
    raise DataError(
        f"{locate(k)}: {side} id {names[codes[k]]} among others; give all as integers of 64 bits or all as strings"
    )


def _without_duplicates(users, items, values, user_ids, item_ids, how, locate):
    """Which ratings to keep, a slice or positions, and their float32 values: one rating a pair of user and item."""
    key = users.astype(np.int64) * len(item_ids) + items
    ordered = np.sort(key)
    if not (ordered[1:] == ordered[:-1]).any():
        return slice(None), values.astype(np.float32)
    order = np.argsort(key, kind="stable")
    repeats = key[order[1:]] == key[order[:-1]]
    if how == "error":
        at = np.flatnonzero(repeats)[order[1:][repeats].argmin()]
        first, second = order[at], order[at + 1]
        raise DataError(
            f"{locate(second)}: user {user_ids[users[second]]} rates item {item_ids[items[second]]} again, first at "
            f"{locate(first)}; remove one, or pass duplicates='mean' or 'last'"
        )
    starts = np.flatnonzero(np.append(True, ~repeats))
    last = order[np.append(starts[1:], len(order)) - 1]  # the order is stable: the last of each pair as given
    in_order = np.argsort(last)
    if how == "last":
        return last[in_order], values[last[in_order]].astype(np.float32)
    means = np.add.reduceat(values[order], starts) / np.diff(np.append(starts, len(order)))
    return last[in_order], means[in_order].astype(np.float32)
