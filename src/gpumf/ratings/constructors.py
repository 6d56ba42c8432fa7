"""Ratings of what is in memory: columns, data frames and matrices, checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self, TypeAlias

import numpy as np

from gpumf._util.validation import brief
from gpumf.ratings.checks import DataError, checked

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    import pandas as pd
    from numpy.typing import ArrayLike


Duplicates: TypeAlias = Literal["error", "mean", "last", "sum"]
"""What is done where a user has rated an item twice."""


class Made:
    """Makes `Ratings` of data that are checked."""

    if TYPE_CHECKING:

        def __init__(self, **fields: Any) -> None: ...

    @classmethod
    def from_arrays(
        cls,
        users: ArrayLike,
        items: ArrayLike,
        values: ArrayLike | None = None,
        *,
        scale: tuple[float, float] | None = None,
        shape: tuple[int, int] | None = None,
        duplicates: Duplicates | None = None,
        test_mask: np.ndarray | None = None,
        times: ArrayLike | None = None,
        one_user: bool = False,
        name: str = "ratings",
        sha256: str | None = None,
        source: str | None = None,
        locate: Callable[[int], str] | None = None,
    ) -> Self:
        """Ratings from columns of raw data, checked: the way in for every file and for data in memory.

        Parameters
        ----------
        users, items : ids, (nnz,) arrays, Series or sequences: strings, or integers from 0, in any order
        values : (nnz,) numbers; None for implicit feedback, each row of which counts 1
        scale : (lowest, highest) possible rating; a rating off it is an error
        shape : (users, items); ids are then positions in it, and users and items without ratings are kept
        duplicates : "error", or keep one rating a pair of user and item: the "mean", the "last" given, or the "sum";
            by default an error, of implicit feedback the sum
        test_mask : bool (nnz,), the publisher's test set
        times : (nnz,) numbers, when each rating was given; of several of a pair that of the last is kept
        one_user : bool, take ratings of one user alone, which leave nothing to factorize
        name, sha256 : as of the class
        source : what messages call the whole; the name by default
        locate : function of a position in the columns that returns what messages call that place

        Returns
        -------
        Ratings, positions in ascending order of id, ratings in the order given

        Raises
        ------
        DataError : no ratings; columns of unequal length; a rating that is not a finite number or off the scale; a
            missing, negative or fractional id, or one outside the shape; ratings of one user alone; duplicates

        >>> from gpumf.ratings import Ratings
        >>> ratings = Ratings.from_arrays(["ann", "bob", "bob"], [7, 7, 9], [4, 5, 3], scale=(1, 5))
        >>> ratings.users, ratings.item_ids
        (array([0, 1, 1], dtype=int32), array([7, 9]))
        """
        source = source or name
        columns = checked(
            users,
            items,
            values,
            scale=scale,
            shape=shape,
            duplicates=duplicates,
            test_mask=test_mask,
            times=times,
            one_user=one_user,
            source=source,
            locate=locate or (lambda k: f"{source}, row {k}"),
        )
        return cls(**columns, name=name, sha256=sha256)

    @classmethod
    def from_pandas(
        cls,
        frame: pd.DataFrame,
        user: str = "user",
        item: str = "item",
        rating: str | None = "rating",
        *,
        time: str | None = None,
        **parameters: Any,
    ) -> Self:
        """Ratings of a pandas DataFrame, one a row.

        Parameters
        ----------
        frame : DataFrame; ids are integers or strings, also categorical
        user, item, rating : names of its columns; rating=None for implicit feedback
        time : name of the column that says when, numbers or datetimes (then in seconds since 1970), or None
        **parameters : of `from_arrays`: scale, shape, duplicates, name

        Raises
        ------
        DataError : a column that is not there, or what `from_arrays` refuses

        >>> import pandas as pd
        >>> from gpumf.ratings import Ratings
        >>> frame = pd.DataFrame({"who": ["ann", "bob"], "what": ["alien", "up"], "stars": [5, 3]})
        >>> ratings = Ratings.from_pandas(frame, "who", "what", "stars", scale=(1, 5))
        >>> ratings.user_ids, ratings.values
        (array(['ann', 'bob'], dtype=object), array([5., 3.], dtype=float32))
        """
        wanted = (user, "users"), (item, "items"), (rating, "ratings")
        columns = [_column_of(frame, name, what) for name, what in wanted if name is not None]
        times = None if time is None else _column_of(frame, time, "times")
        source = parameters.get("name", "the data frame")
        given = {"source": source, "locate": lambda k: f"{source}, row {brief(frame.index[k])}"}
        return cls.from_arrays(*columns, times=times, **given | parameters)

    @classmethod
    def from_scipy(cls, matrix: Any, **parameters: Any) -> Self:
        """Ratings of a sparse matrix of SciPy, users x items, in any format: every stored entry is one, zeros too.

        Parameters
        ----------
        matrix : sparse matrix or array; rows and columns are positions
        **parameters : of `from_arrays`: scale, duplicates, name

        Raises
        ------
        DataError : what `from_arrays` refuses

        >>> from scipy.sparse import coo_array
        >>> from gpumf.ratings import Ratings
        >>> matrix = coo_array(([5.0, 3.0], ([0, 2], [1, 0])), shape=(3, 2))
        >>> ratings = Ratings.from_scipy(matrix)
        >>> ratings.n_users, ratings.items
        (3, array([1, 0], dtype=int32))
        """
        if not hasattr(matrix, "tocoo"):
            raise TypeError(f"matrix must be a sparse matrix of SciPy, not {type(matrix).__name__}")
        if len(matrix.shape) != 2:
            raise DataError(f"a matrix of ratings has two dimensions, users x items, not {matrix.shape}")
        stored = matrix.tocoo()
        return cls.from_arrays(stored.row, stored.col, stored.data, shape=stored.shape, **parameters)


def _column_of(frame: pd.DataFrame, name: str, what: str) -> Any:
    """A column of a data frame as `Ratings.from_arrays` takes it; DataError for none, several, or dates."""
    import pandas as pd

    if not hasattr(frame, "columns") or not hasattr(frame, "iloc"):
        raise TypeError(f"the ratings must be a pandas DataFrame, not {type(frame).__name__}")
    names = list(frame.columns)
    if names.count(name) != 1:
        problem = "several columns" if name in names else "no column"
        raise DataError(
            f"the data frame has {problem} {name!r} among {names}; say which one has the {what}: "
            f"Ratings.from_pandas(frame, user=.., item=.., rating=..)"
        )
    column = frame[name]
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.array
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        if what != "times":
            raise DataError(f"the column {name!r} of the {what} has dates; they belong to time=")
        zone = getattr(column.dtype, "tz", None)
        return ((column - pd.Timestamp(0, tz=zone)) / pd.Timedelta(seconds=1)).to_numpy(np.float64)
    if pd.api.types.is_integer_dtype(column.dtype) and not column.isna().any():
        return column.to_numpy(np.int64)
    if pd.api.types.is_float_dtype(column.dtype):
        return column.to_numpy(np.float64, na_value=np.nan)
    return column.to_numpy(object)
