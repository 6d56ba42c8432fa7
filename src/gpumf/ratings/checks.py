"""The one way from columns of raw ratings to positions and float32 values: every set passes these checks."""

from datetime import date
from typing import Literal, TypeAlias

import numpy as np

from gpumf._util.validation import brief, is_integer, is_number
from gpumf.ratings.columns import Coded, coded_integers, first, in_pieces, pool

Duplicates: TypeAlias = Literal["error", "mean", "last", "sum"]
"""What is done where a user has rated an item twice."""

_LARGEST = int(np.finfo(np.float64).max)
_LARGEST_RATING = float(np.finfo(np.float32).max)


class DataError(ValueError):
    """Ratings that cannot be used. The message names the file, the line or row, and what to do.

    >>> from gpumf.ratings import Ratings
    >>> Ratings([0, 7], [0, 0], [4, 3], n_users=2, n_items=3)
    Traceback (most recent call last):
        ...
    gpumf.ratings.checks.DataError: ratings: users must lie in 0..1; number 1 is 7
    """


def checked(users, items, values, *, scale, shape, duplicates, test_mask, source, locate, times=None, one_user=False):
    """The fields of `Ratings`, a dict, of raw columns; arguments and errors as of `Ratings.from_arrays`."""
    if duplicates is None:
        duplicates = "error" if values is not None else "sum"
    if duplicates not in ("error", "mean", "last", "sum"):
        raise ValueError(f"duplicates must be 'error', 'mean', 'last' or 'sum', not {duplicates!r}")
    if values is None:
        values = np.ones(len(users) if hasattr(users, "__len__") else 0, np.float32)
    check_scale(scale, source)
    if shape is not None and not (_pair(shape) and all(is_integer(count) and 0 < count < 2**31 for count in shape)):
        raise DataError(f"{source}: the shape must be (users, items), not {brief(shape)}")
    for what, column in (("users", users), ("items", items), ("ratings", values)):
        if not hasattr(column, "__len__") or isinstance(column, str | bytes) or getattr(column, "ndim", 1) != 1:
            found = f"{type(column).__name__} {getattr(column, 'shape', '')}".rstrip()
            raise DataError(f"{source}: {what} must be a column, of one dimension, not {found}")
        if np.ma.is_masked(column):
            place = locate(int(np.ma.getmaskarray(column).argmax()))
            raise DataError(f"{place}: {what} are masked; fill them in, or remove these ratings")
    if not len(users) == len(items) == len(values):
        raise DataError(f"{source}: {len(users)} users, {len(items)} items and {len(values)} ratings; give as many")
    if test_mask is not None and len(test_mask) != len(values):
        raise DataError(f"{source}: {len(values)} ratings and a test mask of {len(test_mask)}; give as many")
    if times is not None:
        times = _times(times, len(values), source, locate)
    if test_mask is not None:
        test_mask = np.asarray(test_mask)
    if len(values) == 0:
        raise DataError(f"{source} holds no ratings; check that this is the right file and complete")
    values = _finite(values, locate)
    if scale is not None and (k := _off(scale, values)) is not None:
        raise DataError(
            f"{locate(k)}: rating {values[k]:g} is off the scale {scale[0]:g} to {scale[1]:g}; "
            "correct or remove it, or check the columns"
        )
    users, user_ids = _positions(users, "user", shape and shape[0], locate)
    items, item_ids = _positions(items, "item", shape and shape[1], locate)
    if not one_user and (len(user_ids) == 1 or (users[0] == users[-1] and users.min() == users.max())):
        raise DataError(
            f"{source}: all ratings are by one user, {brief(user_ids[users[0]])}, which leaves nothing to factorize; "
            "check the columns"
        )
    kept, values = _without_duplicates(users, items, values, user_ids, item_ids, duplicates, times, locate)
    if scale is not None and duplicates == "sum" and (k := _off(scale, values)) is not None:
        user, item = user_ids[users[kept][k]], item_ids[items[kept][k]]
        raise DataError(
            f"{source}: the ratings of item {brief(item)} by user {brief(user)} have the sum {values[k]:g}, off "
            f"the scale {scale[0]:g} to {scale[1]:g}; give a scale of sums, or none"
        )
    return {
        "users": users[kept],
        "items": items[kept],
        "values": values,
        "n_users": len(user_ids),
        "n_items": len(item_ids),
        "scale": scale,
        "user_ids": user_ids,
        "item_ids": item_ids,
        "test_mask": None if test_mask is None else test_mask[kept],
        "times": None if times is None else times[kept],
    }


def _off(scale, values):
    """The position of the first rating that is off a scale, or None."""
    return first(lambda part: (values[part] < scale[0]) | (values[part] > scale[1]), len(values))


def _pair(given):
    return isinstance(given, tuple | list | np.ndarray) and np.ndim(given) == 1 and len(given) == 2


def check_scale(scale, source="read"):
    """Raise DataError unless the scale is None or two numbers of float32, the lowest and the highest rating."""
    if scale is not None and not (
        _pair(scale) and all(map(is_number, scale)) and -_LARGEST_RATING <= scale[0] <= scale[1] <= _LARGEST_RATING
    ):
        raise DataError(f"{source}: the scale must be (lowest, highest), not {brief(scale)}")


def array_of(column, what):
    """The column as an array on the host; DataError, which begins with `what`, where it cannot be one.

    Arrays of CuPy are copied to the host; `gpumf.ratings.DeviceRatings` has them stay.
    """
    if hasattr(column, "__cuda_array_interface__"):
        if not callable(getattr(column, "get", None)):
            raise DataError(f"{what} are on a GPU, of type {type(column).__name__}; copy them to the host first")
        column = column.get()
    if np.ma.is_masked(column):
        raise DataError(f"{what} are masked; fill them in, or remove these ratings")
    try:
        return np.asarray(column)
    except ValueError as error:
        raise DataError(f"{what} must be one value each, not lists of several") from error


def times_of(column, source):
    """When ratings were given, float64, dates in seconds since 1970; DataError where these are neither."""
    try:
        times = np.asarray(column)
        if times.dtype.kind == "O":
            times = _of_dates(times)
        if times.dtype.kind == "M":
            return (times - np.datetime64(0, "s")) / np.timedelta64(1, "s")  # NaT becomes NaN
        if times.dtype.kind in "mc":
            raise TypeError(f"not of type {times.dtype}")
        return np.asarray(times, np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{source}: times must be numbers or dates ({error})") from error


def _of_dates(objects):
    """Dates of Python, NumPy or pandas as datetime64, in UTC if they have a time zone; other objects as they are."""
    import pandas as pd

    given = objects[~pd.isna(objects)].tolist()
    if not given or not all(isinstance(one, date | np.datetime64) for one in given):
        return objects
    return pd.to_datetime(pd.Series(objects), utc=True).dt.tz_localize(None).to_numpy()


def _times(times, n, source, locate):
    """When ratings were given, float64 (n,), every one a finite number."""
    if len(times) != n:
        raise DataError(f"{source}: {n} ratings and {len(times)} times; give as many")
    times = times_of(times, source)
    k = first(lambda part: ~np.isfinite(times[part]), n)
    if k is not None:
        raise DataError(f"{locate(k)}: {times[k]} is no time; correct it, or leave the times out")
    return times


def _finite(values, locate):
    """The ratings as numbers, every one finite in 32 bits."""
    raw = array_of(values, f"{locate(0)}: ratings")
    if raw.ndim != 1:
        raise DataError(f"{locate(0)}: ratings must be one number each, not {raw.shape[1:]}")
    if raw.dtype.kind not in "fiubOSUT":
        raise DataError(f"{locate(0)}: ratings of type {raw.dtype} are not numbers")
    numbers = raw
    if raw.dtype.kind not in "fiu":
        import pandas as pd

        wrong = next((k for k, one in enumerate(raw.tolist()) if isinstance(one, complex)), None)
        if wrong is not None:
            raise DataError(f"{locate(wrong)}: rating {raw[wrong]} is complex; give its real part")
        huge = [isinstance(one, int) and abs(one) > _LARGEST for one in raw.tolist()]  # which pandas raises for
        series = pd.Series(np.where(huge, np.inf, raw.astype(object)), dtype=object)
        numbers = pd.to_numeric(series, errors="coerce").to_numpy(np.float64)

    def endless(part):
        with np.errstate(over="ignore"):
            return ~np.isfinite(numbers[part].astype(np.float32))

    k = first(endless, len(numbers))
    if k is not None:
        problem = "beyond the range of 32 bits" if np.isfinite(numbers[k]) else "not a finite number"
        told = brief(raw[k])[1:-1] if isinstance(raw[k], str) else brief(raw[k])
        raise DataError(f"{locate(k)}: rating {told} is {problem}; correct or remove it")
    return numbers


def _positions(ids, side, count, locate):
    """Map ids to positions in ascending order of id: (positions, int32 (ratings,), and the id of each).

    With a count the ids are positions already.
    """
    if count is not None and isinstance(ids, np.ndarray) and ids.dtype.kind in "iu":
        lowest, highest = zip(*in_pieces(lambda part: (ids[part].min(), ids[part].max()), len(ids)), strict=True)
        if min(lowest) >= 0 and max(highest) < count:
            return ids.astype(np.int32, copy=False), np.arange(count)
    codes, names = _factorized(ids, side, locate)
    if names.dtype.kind == "i" and names.min() < 0:
        k = (codes == names.argmin()).argmax()
        raise DataError(f"{locate(k)}: negative {side} id {names.min()}; ids are strings or integers from 0")
    if count is not None:
        if names.dtype.kind not in "iu" or names.max() >= count:
            k = (codes == names.argmax()).argmax()
            raise DataError(f"{locate(k)}: {side} {names.max()} is not a position below the {count} of the shape")
        return names[codes].astype(np.int32), np.arange(count)
    if isinstance(codes, np.ndarray) and codes.dtype == np.int32 and (names[1:] > names[:-1]).all():
        return codes, names
    order = np.argsort(names, kind="stable")
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return rank[codes], names[order]


def _factorized(ids, side, locate):
    """(code of each rating, distinct ids): integers, or an object array of strings."""
    if isinstance(ids, np.ndarray) and ids.dtype.kind in "iu":
        return coded_integers(ids)
    if isinstance(ids, Coded):
        return _present(*ids, side, locate)
    import pandas as pd

    if isinstance(ids, pd.Categorical):
        ids = ids.remove_unused_categories()
        codes, names = ids.codes, np.asarray(ids.categories)
    else:
        # A Series keeps the types of a list's elements, where an array would turn integers among strings to strings.
        if not isinstance(ids, np.ndarray):
            # Of strings pandas would make Arrow's, whose errors do not say which one has no UTF-8.
            texts = isinstance(ids, list | tuple) and any(isinstance(one, str) for one in ids)
            ids = np.asarray(pd.Series(ids, dtype=object if texts else None))
        if not ids.dtype.isnative:  # of another order of bytes, which pandas does not take
            ids = ids.astype(ids.dtype.newbyteorder("="))
        try:
            codes, names = pd.factorize(ids)
        except TypeError as error:
            raise DataError(f"{locate(0)}: {side} ids must be integers or strings ({error})") from error
        except UnicodeEncodeError:
            k = next(k for k, one in enumerate(ids) if not _is_text(one))
            raise DataError(_no_id(locate(k), side, ids[k])) from None
    codes, names = _present(codes, names, side, locate)
    names, wrong = plain_ids(names)
    if wrong is None:
        return codes, names
    k = (codes == wrong).argmax()
    raise DataError(_no_id(locate(k), side, names[wrong]))


def _no_id(place, side, one):
    """What is said of an id that is none."""
    if not _is_text(one):
        return f"{place}: {side} id {brief(one)} has no UTF-8; correct it"
    what = "is a bool" if isinstance(one, bool | np.bool_) else "among others"
    return f"{place}: {side} id {brief(one)} {what}; give all as integers of 64 bits or all as strings"


def _is_text(one):
    try:
        return not isinstance(one, str) or one.encode() is not None
    except UnicodeEncodeError:
        return False


def plain_ids(names):
    """(ids, wrong): ids as integers of 64 bits or an object array of str, and the position of one that is neither.

    Integers may come as floats, as pandas has them in columns where one was missing, and as Python's. Where an id is
    neither, or no UTF-8, the ids are as they were; else `wrong` is None.
    """
    if names.dtype.kind in "iu":
        return names, None
    if names.dtype.kind == "f":
        right, whole = integers_of(names, np.int64)
        return (whole, None) if right.all() else (names, int(np.argmin(right)))
    names = np.asarray(names, object)
    text = np.array([isinstance(name, str) for name in names])
    if text.any():
        right = text & np.array([_is_text(name) for name in names])
        return names, None if right.all() else int(np.argmin(right))
    for dtype in (np.int64, np.uint64):
        right, whole = integers_of(names, dtype)
        if right.all():
            return whole, None
    return names, int(np.argmin(right))


def joined_ids(parts):
    """Arrays of ids as one, exactly: NumPy makes float64 of int64 and uint64, none of which may be negative."""
    wide = np.uint64 if {part.dtype.kind for part in parts} == {"i", "u"} else None
    return np.concatenate(parts, dtype=wide, casting="unsafe")


def integers_of(values, dtype):
    """(right, integers): which of an array's elements are integers that the dtype has, bool (n,), and these."""
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    if values.dtype.kind == "f":  # floats have every integer up to 2 / eps
        right = (values == np.floor(values)) & (np.abs(values) < 2 / np.finfo(values.dtype).eps) & (values >= low)
    elif values.dtype.kind in "iu":
        right = (values >= low) & (values <= high)
    else:
        right = np.array([_is_integer(one) and low <= one <= high for one in values], bool)
    return right, values[right].astype(dtype)


def _is_integer(one):
    if isinstance(one, float | np.floating):
        return float(one).is_integer() and abs(one) < 2**53
    return is_integer(one)


def _present(codes, names, side, locate):
    """Both as they are, where no code says that an id is missing."""
    k = first(lambda part: codes[part] < 0, len(codes))
    if k is not None:
        raise DataError(f"{locate(k)}: the {side} id is missing; fill it in or remove the rating")
    return codes, names


def _some_twice(users, items, n_items, n_users):
    """Whether some pair is there twice.

    Pairs go by their lowest bits into lots that are sorted each, as what is left of the bits.
    """
    lots = 256
    rest = np.uint32 if n_users * n_items <= 1 << 40 else np.uint64
    keys = np.empty(len(users), rest)

    def part_by_lot(part):
        key = users[part].astype(np.int64)
        key *= n_items
        key += items[part]
        lot = key.astype(np.uint8)
        keys[part] = (key >> 8)[np.argsort(lot, kind="stable")]  # a radix sort
        return part.start + np.append(0, np.cumsum(np.bincount(lot, minlength=lots)))

    bounds = in_pieces(part_by_lot, len(users))

    def repeats(lot):
        lot_keys = np.concatenate([keys[bound[lot] : bound[lot + 1]] for bound in bounds])
        lot_keys.sort()
        return (lot_keys[1:] == lot_keys[:-1]).any()

    with pool() as threads:
        return any(threads.map(repeats, range(lots)))


def _without_duplicates(users, items, values, user_ids, item_ids, how, times, locate):
    """Which ratings to keep, a slice or positions, and their float32 values: one rating a pair of user and item."""
    if not _some_twice(users, items, len(item_ids), len(user_ids)):
        return slice(None), values.astype(np.float32, copy=False)
    key = users.astype(np.int64) * len(item_ids) + items
    order = np.argsort(key, kind="stable") if times is None or how == "error" else np.lexsort((times, key))
    repeats = key[order[1:]] == key[order[:-1]]
    if how == "error":
        at = np.flatnonzero(repeats)[order[1:][repeats].argmin()]
        first, second = order[at], order[at + 1]
        raise DataError(
            f"{locate(second)}: user {user_ids[users[second]]} rates item {item_ids[items[second]]} again, first at "
            f"{locate(first)}; remove one, or pass duplicates='mean', 'last' or 'sum'"
        )
    starts = np.flatnonzero(np.append(True, ~repeats))
    last = order[np.append(starts[1:], len(order)) - 1]  # of each pair; the order is stable: of equal times as given
    in_order = np.argsort(last)
    if how == "last":
        return last[in_order], values[last[in_order]].astype(np.float32)
    sums = np.add.reduceat(values[order].astype(np.float64), starts)
    if how == "mean":
        sums /= np.diff(np.append(starts, len(order)))
    with np.errstate(over="ignore"):
        values = sums[in_order].astype(np.float32)
    if not np.isfinite(values).all():
        k = last[in_order][~np.isfinite(values)][0]
        raise DataError(f"{locate(k)}: the ratings of this pair add up to more than float32 holds; correct them")
    return last[in_order], values
