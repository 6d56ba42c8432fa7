"""Ratings from what users have in memory: data frames, sparse matrices, columns, on the host or on a GPU."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from gpumf import backends
from gpumf._util.validation import brief
from gpumf.ratings.checks import DataError, integers_of
from gpumf.ratings.device import DeviceRatings
from gpumf.ratings.ratings import Ratings

if TYPE_CHECKING:
    from typing import Protocol, TypeAlias

    import pandas as pd
    from numpy.typing import ArrayLike

    class Sparse(Protocol):
        """A sparse matrix of SciPy or CuPy."""

        def tocoo(self) -> Any: ...

    class ToPandas(Protocol):
        """A data frame of another library."""

        def to_pandas(self) -> pd.DataFrame: ...

    Columns: TypeAlias = tuple[ArrayLike, ArrayLike] | tuple[ArrayLike, ArrayLike, ArrayLike]
    RatingsLike: TypeAlias = Ratings | pd.DataFrame | Sparse | ToPandas | Columns

_WAYS = (
    "Ratings, a data frame with the columns user, item and rating, a scipy.sparse or CuPy sparse matrix of users x "
    "items, or (users, items, ratings), of implicit feedback without ratings; see Ratings.from_pandas, from_scipy, "
    "from_arrays and gpumf.read_ratings"
)


def ratings_of(data: RatingsLike, name: str = "ratings", one_user: bool = False) -> tuple[Ratings, bool]:
    """`Ratings` of anything that `fit` takes.

    Parameters
    ----------
    data : Ratings; a DataFrame of pandas or Dask, a LazyFrame of Polars, or what has `to_pandas`, with the columns
        user, item, rating and, if it likes, timestamp, which counts where it is of numbers or dates; a sparse matrix
        of SciPy or, on its GPU, of CuPy, users x items; (users, items, ratings), columns of ids, or of positions in
        CuPy's arrays. Of implicit feedback there are no ratings: (users, items), or a frame with no other columns
        than user, item and timestamp; each row counts 1
    name : what messages call it
    one_user : bool, take ratings of one user alone

    Returns
    -------
    (ratings, named) : Ratings, those of CuPy `DeviceRatings`, and whether the data name users and items by ids:
        frames and columns do, matrices and `Ratings` count positions

    Raises
    ------
    TypeError : anything else
    DataError : ratings that `Ratings.from_arrays` refuses
    """
    if isinstance(data, Ratings):
        return data, False
    library, kind = type(data).__module__.split(".")[0], type(data).__name__
    if library == "cupyx" and hasattr(data, "tocoo"):
        matrix = data.tocoo()
        return _on_gpu(matrix.row, matrix.col, matrix.data, matrix.shape, name), False
    if library == "scipy" and hasattr(data, "tocoo"):
        return Ratings.from_scipy(data, name=name, one_user=one_user), False
    if library == "polars" and kind == "LazyFrame":
        data = data.collect()  # type: ignore[union-attr]
    if library == "dask" and hasattr(data, "compute"):
        data = data.compute()
    if library != "pandas" and hasattr(data, "to_pandas"):
        data = data.to_pandas()
    if hasattr(data, "columns") and hasattr(data, "iloc"):
        time = "timestamp" if _has_times(data) else None
        rating = None if {"user", "item"} <= set(data.columns) <= {"user", "item", "timestamp"} else "rating"
        with _told_where_duplicates_go():
            return Ratings.from_pandas(data, rating=rating, time=time, name=name, one_user=one_user), True
    if isinstance(data, list) and any(isinstance(part, tuple) for part in data):
        raise TypeError(
            f"{name} must be columns (users, items, ratings), not a list of tuples; tuple(zip(*list)) makes columns"
        )
    parts: Any = data if isinstance(data, tuple | list) and all(hasattr(part, "__len__") for part in data) else ()
    if len(parts) == 3 or (len(parts) == 2 and isinstance(parts, tuple)):
        if any(type(part).__module__.split(".")[0] == "cupy" for part in parts):
            users, items, values = parts if len(parts) == 3 else (*parts, np.ones(len(parts[0]), np.float32))
            return _on_gpu(users, items, values, None, name), False
        with _told_where_duplicates_go():
            return Ratings.from_arrays(*parts, name=name, one_user=one_user), True
    if isinstance(data, np.ndarray):
        raise TypeError(
            f"{name} must be Ratings or what they are made of, not an array {data.shape}: give columns as (users, "
            "items, ratings), a matrix of users x items as scipy.sparse.coo_array(matrix)"
        )
    raise TypeError(f"{name} must be Ratings, or what they are made of, not {kind}: {_WAYS}")


@contextmanager
def _told_where_duplicates_go():
    """Have the error of a pair that comes twice say who takes the argument that it names: no fit does."""
    try:
        yield
    except DataError as error:
        if "duplicates=" in str(error):
            raise DataError(f"{error} to Ratings.from_pandas or from_arrays, and fit these with ids=True") from error
        raise


def _has_times(frame):
    """Whether the type of its column timestamp is of numbers or dates, and none is missing. No fit needs times."""
    from pandas.api import types

    if "timestamp" not in frame.columns:
        return False
    column = frame["timestamp"]
    return (types.is_numeric_dtype(column) or types.is_datetime64_any_dtype(column)) and not column.isna().any()


def _on_gpu(users, items, values, shape, name):
    device = backends.device()
    users, items, values = map(device.xp.asarray, (users, items, values))
    if users.dtype.kind not in "iu" or items.dtype.kind not in "iu":
        raise TypeError(f"{name}: users and items on a GPU must be integers, positions, not ids of another kind")
    if values.dtype.kind not in "fiub":
        raise DataError(f"{name}: ratings of type {values.dtype} are not numbers")
    if not len(users) == len(items) == len(values) or not len(users):
        raise DataError(f"{name}: {len(users)} users, {len(items)} items, {len(values)} ratings; give as many, not 0")
    if min(int(users.min()), int(items.min())) < 0 or max(int(users.max()), int(items.max())) >= 2**31 - 1:
        raise DataError(f"{name}: users and items on a GPU are positions from 0 to {2**31 - 2}")
    shape = shape or (int(users.max()) + 1, int(items.max()) + 1)
    pairs = users.astype(np.int64) * shape[1] + items
    pairs.sort()
    if bool((pairs[1:] == pairs[:-1]).any()):
        raise DataError(f"{name}: a user rates an item twice; call sum_duplicates() of the matrix, or remove one")
    columns = users.astype(np.int32), items.astype(np.int32), values.astype(np.float32)
    return DeviceRatings(*columns, *map(int, shape), name=name, device=device)


def ratings_like(
    data: RatingsLike,
    name: str,
    user_ids: np.ndarray | None,
    item_ids: np.ndarray | None,
    shape: tuple[int, int],
    named: bool = False,
    remedy: str = "remove ",
) -> Ratings:
    """`Ratings` of anything that `fit` takes, in the positions of users and items that are known already.

    user_ids, item_ids : of each position, or None where ids are positions; shape : (n_users, n_items)
    named : bool, whether `Ratings` are to be taken by their ids too
    remedy : what messages say how to do without ratings of others, up to "their ratings"

    Raises
    ------
    DataError : an id that is not known, or other ids at the same positions; otherwise as of `ratings_of`
    """
    ratings, by_ids = ratings_of(data, name, one_user=True)
    if not (named or by_ids):
        check_ids(ratings, name, user_ids, item_ids)
        return ratings
    columns: dict[str, Any] = {"user_ids": user_ids, "item_ids": item_ids}
    for side, known, count in (("user", user_ids, shape[0]), ("item", item_ids, shape[1])):
        ids = getattr(ratings, f"{side}_ids")
        places = positions_of(ids, np.arange(count) if known is None else known)
        if (places < 0).any():
            missing = ids[places < 0].tolist()
            raise DataError(
                f"{name}: {len(missing)} {side}s, such as {brief(missing[0])}, are not in the training set; "
                f"{remedy}their ratings, or make Ratings.from_pandas of all and split these"
            )
        columns |= {f"{side}s": places[getattr(ratings, f"{side}s")], f"n_{side}s": count}
    return Ratings(**columns, values=ratings.values, name=name, scale=ratings.scale)


def check_ids(ratings: Ratings, name: str, user_ids: np.ndarray | None, item_ids: np.ndarray | None) -> None:
    """Raise DataError where `Ratings`, which count positions, have ids that are of other users or items there.

    user_ids, item_ids : of each position; None where they are not known. Ids of 0, 1, .. are positions themselves
    """
    for side, known in (("user", user_ids), ("item", item_ids)):
        ids = getattr(ratings, f"{side}_ids")
        if known is None or ids is known or len(ids) != len(known) or np.array_equal(ids, known):
            continue
        if not np.array_equal(ids, np.arange(len(ids))):
            k = int(np.argmax(np.asarray(ids, object) != np.asarray(known, object)))
            raise DataError(
                f"{name}: position {k} is {side} {brief(ids[k])} here and {brief(known[k])} in the training set; "
                f"give a data frame, whose {side}s go by their ids, or make one Ratings of all and split it"
            )


def positions_of(ids: ArrayLike, known: ArrayLike | pd.Index) -> np.ndarray:
    """The position of each id among the known ones, or an Index of these, int64, -1 where it is none of them.

    7.0 is 7, and '7' is not.
    """
    import pandas as pd

    ids, known = np.asarray(ids), known if isinstance(known, pd.Index) else np.asarray(known)
    # Strings stay objects: pandas would convert them to a type of its own, all known ones at each look-up.
    index = known if isinstance(known, pd.Index) else pd.Index(known, dtype=known.dtype)
    if not index.is_unique:
        raise DataError("of the ids that are known some come twice, so that they name nobody")
    found = np.full(len(ids), -1)
    if known.dtype.kind in "iu":
        right, whole = integers_of(ids, np.uint64 if known.dtype.kind == "u" else np.int64)
        found[right] = index.get_indexer(pd.Index(whole))
    elif ids.dtype.kind in "OUT":
        try:
            found = index.get_indexer(pd.Index(ids, dtype=object))
        except UnicodeEncodeError:  # pandas looks strings up by their UTF-8, which lone surrogates have not
            places = {one: k for k, one in enumerate(known.tolist())}
            found = np.array([places.get(one, -1) for one in ids.tolist()])
        except TypeError as error:
            raise TypeError(f"ids must be integers or strings ({error})") from error
    return found
