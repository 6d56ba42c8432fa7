"""What a rating set is: coordinate arrays, their compressed forms, and how they are split."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np

from gpumf._util.counter_rng import random_order, random_subset
from gpumf._util.forks import cached_property, in_children
from gpumf._util.sorting import stable_order
from gpumf._util.validation import MAX_SEED, array, brief, integer, is_integer, number
from gpumf.backends.cpu import order as cpu_order
from gpumf.ratings.checks import DataError, array_of, check_scale, checked, plain_ids, times_of
from gpumf.ratings.csr import CompressedRows, grouped, inside, row_offsets, sorted_by
from gpumf.ratings.damped import Damped, DeviceTable, Table, left_of_pairs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    import pandas as pd
    from numpy.typing import ArrayLike

    from gpumf.ratings.checks import Duplicates


_COLUMNS_A_RATING = 32
"""Columns for each rating from which it takes less time to compare ratings than to count those of every column."""

_MAKING = threading.RLock()
"""Of threads that share ratings, one makes a part of them while the others wait for it."""


@in_children
def _after_fork():
    """Threads that are no more may have held it."""
    global _MAKING
    _MAKING = threading.RLock()


@dataclass(frozen=True, eq=False, repr=False)
class Ratings:
    """A set of ratings r_ui as coordinate arrays (COO), with lazy compressed forms.

    users, items : int32 (nnz,), positions in 0..n_users-1 and 0..n_items-1
    values : float32 (nnz,)
    n_users, n_items : the shape of the rating matrix; rows and columns may be empty
    scale : (lowest, highest) possible rating, or None where it is not known
    user_ids, item_ids : the original id of each position, (n_users,) and (n_items,); positions by default
    name : what the set is called in results
    sha256 : of the unpacked file that it was read from (of several, one after another) or of the generated
        arrays; None where there is neither
    test_mask : bool (nnz,), the publisher's test set, or None
    times : float64 (nnz,), when each rating was given, in any unit, or None

    Arrays of these types are kept, not copied, here and by a model that is fitted to them: do not change them later.

    The constructor checks that positions lie in the matrix and that columns have one length, in a pass over each;
    `from_arrays` checks all else, such as ratings that are no finite numbers or come twice.

    Raises
    ------
    DataError : columns of other types, lengths or dimensions, positions outside, a scale or ids that do not fit

    >>> import dataclasses
    >>> import numpy as np
    >>> from gpumf.ratings import Ratings
    >>> ratings = Ratings([1, 0, 1], [2, 0, 0], [5, 3, 4], n_users=2, n_items=3, scale=(1, 5), times=[30, 10, 20])
    >>> ratings.nnz, ratings.density, ratings.mean, ratings.bounds, dataclasses.replace(ratings, scale=None).bounds
    (3, 0.5, 4.0, (1, 5), (3.0, 5.0))
    >>> ratings
    <Ratings 'ratings': 3 ratings of 2 users and 3 items>
    >>> ratings.user_counts, ratings.item_counts
    (array([1, 2]), array([2, 0, 1]))
    >>> ratings.by_user.indices, ratings.by_item.indptr
    (array([0, 0, 2], dtype=int32), array([0, 2, 2, 3]))
    >>> ratings.select(ratings.values > 3).items, ratings.transposed().users
    (array([2, 0], dtype=int32), array([2, 0, 0], dtype=int32))
    >>> ratings.less(4).values, ratings.less(4).preferences().values
    (array([ 1., -1.,  0.], dtype=float32), array([1., 0., 0.], dtype=float32))
    >>> ratings.standardized(3, np.array([1, -1]), np.zeros(3), 0.5).values, ratings.damped.user_biases.shape
    (array([ 6., -2.,  4.], dtype=float32), (2,))

    Training and test sets:

    >>> [(train.nnz, test.nnz) for train, test in (ratings.split(0.3, seed=1), *ratings.kfold(3))]
    [(2, 1), (2, 1), (2, 1), (2, 1)]
    >>> ratings.split_by_time(0.3)[1].times, ratings.leave_one_out(newest=True)[1].times
    (array([30.]), array([30.]))
    >>> dataclasses.replace(ratings, test_mask=np.array([False, True, False])).official_split()[1].values
    array([3.], dtype=float32)

    Where the columns are, on the host or on a device, orders are made:

    >>> order, begins = ratings.on_host().sorted_by(ratings.users, ratings.n_users)
    >>> order, ratings.order(ratings.users, 2), begins
    (array([1, 0, 2]), array([1, 0, 2]), array([0, 1, 3]))
    >>> ratings.in_order(order)[1], ratings.take(order, order), len(ratings.random_order(3, seed=0))
    (array([0, 2, 0], dtype=int32), array([0, 1, 2]), 3)
    """

    users: np.ndarray
    items: np.ndarray
    values: np.ndarray
    n_users: int
    n_items: int
    scale: tuple[float, float] | None = None
    user_ids: np.ndarray = None  # type: ignore[assignment]  # the constructor makes them
    item_ids: np.ndarray = None  # type: ignore[assignment]
    name: str = "ratings"
    sha256: str | None = None
    test_mask: np.ndarray | None = None
    times: np.ndarray | None = None

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
        duplicates : "error", or keep one rating a pair of user and item: the "mean", the "sum", or the "last": the
            newest by `times`, without these the last given; by default an error, of implicit feedback the sum
        test_mask : bool (nnz,), the publisher's test set
        times : (nnz,) numbers, or dates, which count in seconds since 1970, when each rating was given; of several
            of a pair the newest is kept
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
        if hasattr(matrix, "check_format"):  # of compressed rows or columns, whose damage SciPy reads without a check
            try:
                matrix.check_format(full_check=True)
            except ValueError as error:
                raise DataError(f"matrix is damaged: {error}") from error
        stored = matrix.tocoo()
        return cls.from_arrays(stored.row, stored.col, stored.data, shape=stored.shape, **parameters)

    def __post_init__(self):
        set_ = object.__setattr__  # the class is frozen; only the constructor normalises
        for side in ("user", "item"):
            count, ids = getattr(self, f"n_{side}s"), getattr(self, f"{side}_ids")
            if not is_integer(count) or not 0 < count < 2**31:
                raise DataError(
                    f"{self.name}: n_{side}s must be an integer from 1 to {2**31 - 1}, not {brief(count)}"
                )
            if ids is None:
                set_(self, f"{side}_ids", np.arange(count))
            else:
                set_(self, f"{side}_ids", _ids_of(ids, count, f"{side}_ids", self.name))
            set_(self, f"{side}s", inside(getattr(self, f"{side}s"), count, f"{self.name}: {side}s"))
        values = array_of(self.values, f"{self.name}: values")
        if values.dtype.kind not in "fiub":
            raise DataError(f"{self.name}: values must be numbers, not {values.dtype}")
        with np.errstate(over="ignore"):  # ratings beyond the range are an error below
            set_(self, "values", np.require(values, np.float32, "CA"))
        columns = {"users": self.users, "items": self.items, "values": self.values}
        if self.test_mask is not None:
            set_(self, "test_mask", np.asarray(self.test_mask))
            if self.test_mask.dtype != np.bool_:
                raise DataError(f"{self.name}: the test mask must be bool, not {self.test_mask.dtype}")
            columns["test_mask"] = self.test_mask
        if self.times is not None:
            set_(self, "times", times_of(self.times, self.name))
            columns["times"] = self.times
        shapes = {name: np.shape(column) for name, column in columns.items()}
        if set(shapes.values()) != {(self.values.size,)}:
            raise DataError(f"{self.name}: the columns must be as long as each other, of one dimension, not {shapes}")
        check_scale(self.scale, self.name)
        if self.scale is not None:
            set_(self, "scale", tuple(self.scale))

    def __repr__(self) -> str:
        counts = f"{self.nnz:,} ratings of {self.n_users:,} users and {self.n_items:,} items"
        return f"<{type(self).__name__} {self.name!r}: {counts}>"

    @property
    def nnz(self) -> int:
        """How many ratings there are."""
        return len(self.values)

    @property
    def density(self) -> float:
        """Filled fraction of the rating matrix: what the thesis (section 6.1) calls sparsity."""
        return self.nnz / (self.n_users * self.n_items)

    @cached_property
    def mean(self) -> float:
        """The mean rating, of sums in float64."""
        return float(self.values.mean(dtype=np.float64))

    @cached_property
    def bounds(self) -> tuple[float, float]:
        """The scale, or the lowest and the highest rating where it is not known."""
        return self.scale or self._range()

    def _range(self):
        return float(self.values.min()), float(self.values.max())

    @cached_property
    def user_counts(self) -> np.ndarray:
        """Ratings of each user, int64 (n_users,)."""
        return self._counted("users", self.n_users)

    @cached_property
    def item_counts(self) -> np.ndarray:
        """Ratings of each item, int64 (n_items,)."""
        return self._counted("items", self.n_items)

    def _counted(self, name, n):
        self._check_columns(name)
        return cpu_order.counted(getattr(self, name), n)

    @cached_property
    def by_user(self) -> CompressedRows:
        """The ratings of each user (CSR)."""
        return self._compress(self.users, self.items, self.user_counts, self.n_items)

    @cached_property
    def by_item(self) -> CompressedRows:
        """The ratings of each item (CSC of the rating matrix)."""
        return self._compress(self.items, self.users, self.item_counts, self.n_users)

    def _check_columns(self, *names):
        """Raise DataError where a column was changed since the constructor so that it does not fit.

        Native code indexes arrays by positions: this is called before it gets them. Of presorted ratings no column is
        made for it.

        *names : of columns; by default all
        """
        nnz = self.nnz
        for name in {*(names or ("users", "items", "values"))} & vars(self).keys():
            column, positions = vars(self)[name], name != "values"
            try:
                array(f"{self.name}: {name}", column, np.int32 if positions else np.float32, (nnz,))
                # As unsigned numbers, negative ones are the largest.
                if positions and column.view(np.uint32).max(initial=0) >= (n := getattr(self, f"n_{name}")):
                    raise ValueError(f"{self.name}: {name} must lie in 0..{n - 1}")
            except ValueError as error:
                raise DataError(f"{error}; the Ratings were changed after they were made") from error

    def _compress(self, rows, columns, counts, n_columns):
        self._check_columns()
        offsets = row_offsets(counts)
        if self.nnz >= cpu_order.LEAST and (made := cpu_order.compressed(rows, columns, self.values, offsets)):
            return CompressedRows(offsets, *made)
        if self.nnz < n_columns // _COLUMNS_A_RATING:
            order = np.lexsort((columns, rows))
        else:
            by_column, _ = sorted_by(columns, n_columns)
            order = by_column[grouped(rows[by_column], offsets)]
        return CompressedRows(offsets, columns[order], self.values[order])

    def on_host(self) -> Ratings:
        """These ratings with columns on the host."""
        return self

    # What layouts are made with, where the columns are

    device = None  # of `gpumf.backends`, where the columns are on one
    xp = np  # works on the columns

    def order(self, keys: np.ndarray, n: int) -> np.ndarray:
        """The positions of keys in 0..n-1, in ascending order of key, equal ones as they are, int64."""
        return stable_order(keys, n, self.xp)

    def sorted_by(self, keys: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
        """That order, and where in it each key begins, int64 (n + 1,) on the host."""
        return sorted_by(keys, n)

    def in_order(self, order: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(users, items, values) of the ratings at these positions, int64, in their order."""
        return self.users[order], self.items[order], self.values[order]

    def take(self, table: np.ndarray, places: np.ndarray) -> np.ndarray:
        """What a table has at each place: both int32, or both int64, and where the columns are."""
        return table[places]

    def random_order(self, n: int, seed: int) -> np.ndarray:
        """`gpumf._util.counter_rng.random_order`, where the columns are."""
        return random_order(n, seed)

    def select(self, chosen: np.ndarray | slice, name: str | None = None) -> Self:
        """The ratings chosen by a boolean mask or by positions; same users, items and scale."""
        columns: Any = {column: getattr(self, column)[chosen] for column in ("users", "items", "values")}
        times = None if self.times is None else self.times[chosen]
        return replace(self, **columns, name=name or self.name, test_mask=None, times=times)

    def less(self, offset: float) -> Self:
        """The same ratings, each less a number. Orders that are there are kept."""

        def left(of):
            return self._less(of.values, offset)

        def order_of(side):
            return replace(getattr(self, side), values=left(getattr(self, side)))

        return self._once(("less", float(offset)), lambda: self._changed(left, order_of))

    def _changed(self, values_of, order_of):
        """These ratings with other values: values_of(self), and in an order, 'by_user' or 'by_item', order_of(it)."""
        made, known = object.__new__(type(self)), vars(self)  # the constructor has checked the positions before
        for name in known.keys() & {*self.__dataclass_fields__, "user_counts", "item_counts", "_begun"}:
            vars(made)[name] = known[name]
        vars(made)["values"] = values_of(self)
        for side in known.keys() & {"by_user", "by_item"}:
            vars(made)[side] = order_of(side)
        if "_parts" in known:
            vars(made)["_parts"] = {}
        return made

    def _less(self, values, offset):
        return values - np.float32(offset)

    def preferences(self) -> Self:
        """The same ratings, 1 where they were above 0 and 0 elsewhere."""
        return replace(self, values=(self.values > 0).astype(np.float32))

    def _shared(self):
        """A copy, in positions, for many trainings: what `_once` makes of it is kept."""
        made = replace(self, user_ids=None, item_ids=None, test_mask=None, times=None)
        vars(made)["_parts"] = {}
        return made

    def _once(self, key, make):
        """`make()`, which of ratings that are shared is called once for each key, whichever thread asks first."""
        parts = vars(self).get("_parts")
        if parts is None:
            return make()
        with _MAKING:
            if key not in parts:
                parts[key] = make()
            return parts[key]

    @cached_property
    def damped(self) -> Damped:
        """Damped biases of users and items, and the unit and the noise of what they leave."""
        return self._once("damped", lambda: Damped.of((DeviceTable if self.device else Table)(self)))

    def standardized(self, mean: float, user_biases: Any, item_biases: Any, unit: float) -> Self:
        """The same ratings, each less the mean and both biases, in a unit. Orders that are there are kept."""
        mean = number("mean", mean, least=-np.inf)  # a model's may have been assigned
        biases = {"by_user": (user_biases, item_biases), "by_item": (item_biases, user_biases)}

        def left(of):
            return left_of_pairs(of.users, of.items, of.values, mean, *biases["by_user"], unit, device=self.device)

        def order_of(side):
            return getattr(self, side).standardized(mean, *biases[side], unit, self.device)

        key = None  # without parts nobody asks for it
        if "_parts" in vars(self):
            key = "standardized", mean, user_biases.tobytes(), item_biases.tobytes(), unit
        return self._once(key, lambda: self._changed(left, order_of))

    def split(self, test: float = 0.2, seed: int = 0) -> tuple[Self, Self]:
        """Two disjoint random sets, train and test, as in the thesis (section 6.1: 80 % and 20 %).

        Users and items whose every rating falls into the test set stay in both; a model predicts the mean of
        its training ratings for them (see `gpumf.models`). The split is a function of (nnz, test, seed) and of
        the order of the ratings alone: the same on every machine.

        Parameters
        ----------
        test : float in (0, 1), the share of ratings in the test set; round(test * nnz) ratings exactly
        seed : int

        Returns
        -------
        (train, test) : Ratings, each in the order of this set
        """
        in_test = random_subset(self.nnz, _held_out(test, self.nnz), integer("seed", seed, 0, MAX_SEED))
        return self.select(~in_test), self.select(in_test)

    def kfold(self, k: int = 5, seed: int = 0) -> Iterator[tuple[Self, Self]]:
        """Yield k pairs (train, test); every rating is in the test set of exactly one pair.

        Sizes differ by at most one. Cold users and items as in `split`.
        """
        if not is_integer(k) or not 2 <= k <= self.nnz:
            raise ValueError(f"k must lie between 2 and the {self.nnz} ratings, not {brief(k)}")
        fold = np.empty(self.nnz, np.int32)
        fold[random_order(self.nnz, integer("seed", seed, 0, MAX_SEED))] = np.arange(self.nnz) % k
        for i in range(k):
            yield self.select(fold != i), self.select(fold == i)

    def split_by_time(self, test: float = 0.2) -> tuple[Self, Self]:
        """(train, test): the newest round(test * nnz) ratings, of equal times the last, are the test set.

        Raises
        ------
        DataError : `times` is None
        """
        newest = np.zeros(self.nnz, bool)
        newest[self._by_time()[-_held_out(test, self.nnz) :]] = True
        return self.select(~newest), self.select(newest)

    def _by_time(self):
        if self.times is None:
            raise DataError(
                f"{self.name} does not say when its ratings were given; read them with time=, or set "
                "dataclasses.replace(ratings, times=..), say to gpumf.ratings.rating_times(name)"
            )
        return np.argsort(self.times, kind="stable")

    def leave_one_out(self, seed: int = 0, newest: bool = False) -> tuple[Self, Self]:
        """(train, test): one rating of each user who has several is left out for the test, a random or the newest."""
        seed = integer("seed", seed, 0, MAX_SEED)
        order = self._by_time() if newest else random_order(self.nnz, seed)
        order = order[np.argsort(self.users[order], kind="stable")]
        users = self.users[order]
        last = np.append(users[1:] != users[:-1], True) & (self.user_counts[users] > 1)
        if not last.any():
            raise ValueError("no user has two ratings, of which one could be left out")
        left_out = np.zeros(self.nnz, bool)
        left_out[order[last]] = True
        return self.select(~left_out), self.select(left_out)

    def official_split(self) -> tuple[Self, Self]:
        """(train, test) as the publisher of the set fixed them; DataError where there is no such split."""
        if self.test_mask is None:
            raise DataError(f"{self.name} has no official split; use split() or kfold()")
        return self.select(~self.test_mask), self.select(self.test_mask)

    def transposed(self) -> Self:
        """The same ratings with users and items in each other's place."""
        turned: Any = {"users": self.items, "items": self.users}
        turned |= {"user_ids": self.item_ids, "item_ids": self.user_ids}
        return replace(self, n_users=self.n_items, n_items=self.n_users, **turned)


def _held_out(test, nnz):
    """How many of so many ratings a share is; ValueError where it is none, or leaves an empty set."""
    if not isinstance(test, float | np.floating) or not 0 < test < 1:
        raise ValueError(f"test must lie between 0 and 1, not {brief(test)}")
    n_test = round(test * nnz)
    if not 0 < n_test < nnz:
        raise ValueError(f"a test share of {test} leaves an empty set of {nnz} ratings")
    return n_test


def _ids_of(ids, count, what, source):
    """The ids of so many positions as an array; objects are strings, which a model looks at when it is saved."""
    ids = np.asarray(ids)
    if ids.shape != (count,):
        found = f"there are {len(ids)} {what}" if ids.ndim == 1 else f"{what} have the shape {ids.shape}"
        raise DataError(f"{source}: {found}, not {count}")
    if ids.dtype.kind not in "iuOU":
        ids, wrong = plain_ids(ids)
        if wrong is not None:
            raise DataError(f"{source}: {what} must be integers or strings, not {brief(ids[wrong])}")
    return ids


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
            "Ratings.from_pandas(frame, user=.., item=.., rating=..)"
            + (", or rating=None where there are none, as of clicks" if what == "ratings" else "")
        )
    column = frame[name]
    if isinstance(column.dtype, pd.ArrowDtype):
        column = _of_arrow(column)
    if isinstance(column.dtype, pd.CategoricalDtype):
        if what != "times":
            return column.array
        column = column.astype(column.cat.categories.dtype)
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        if what != "times":
            raise DataError(f"the column {name!r} of the {what} has dates; they belong to time=")
        if column.dt.tz is not None:
            column = column.dt.tz_convert("UTC").dt.tz_localize(None)
        return column.to_numpy()  # in seconds by `times_of`
    if pd.api.types.is_integer_dtype(column.dtype) and not column.isna().any():
        wide = pd.api.types.is_unsigned_integer_dtype(column.dtype) and column.max() > np.iinfo(np.int64).max
        return column.to_numpy(np.uint64 if wide else np.int64)
    if pd.api.types.is_float_dtype(column.dtype):
        return column.to_numpy(np.float64, na_value=np.nan)
    return column.to_numpy(object)


def _of_arrow(column):
    """A column of Arrow without dictionary, and of dates as datetime64, which pandas makes nothing else of."""
    import pandas as pd
    from pyarrow import types

    kind = column.dtype.pyarrow_dtype
    if types.is_dictionary(kind):
        column, kind = column.astype(pd.ArrowDtype(kind.value_type)), kind.value_type
    return column.astype("datetime64[s]") if types.is_date(kind) else column
