"""What a rating set is: coordinate arrays, their compressed forms, and how they are split."""

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from gpumf.compiled import cached_njit
from gpumf.cpu import order as cpu_order
from gpumf.datasets.checks import DataError, checked
from gpumf.hashing import random_order, random_subset
from gpumf.ordering import stable_order


def row_offsets(counts):
    """Where each row starts and ends: int64 (rows + 1,), 0 and the running totals of the counts.

    64 bits, whatever the type of the counts: the large sets have more than 2**31 ratings.
    """
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, dtype=np.int64, out=offsets[1:])
    return offsets


@cached_njit()
def grouped(rows, offsets):
    """The positions of each row's ratings, one row after another, each in the order given (a counting sort)."""
    order = np.empty(len(rows), np.int64)
    free = offsets[:-1].copy()
    for k in range(len(rows)):
        order[free[rows[k]]] = k
        free[rows[k]] += 1
    return order


def sorted_by(keys, n):
    """(order, offsets): a stable order of keys in 0..n-1, and where each key begins, by counting."""
    offsets = row_offsets(np.bincount(keys, minlength=n))
    return grouped(keys, offsets), offsets


def inside(positions, n, what):
    """Positions as a contiguous int32 array; DataError, which begins with `what`, unless all are whole, in 0..n-1."""
    given = np.asarray(positions)
    if given.dtype.kind not in "iuf" and given.size:
        raise DataError(f"{what} must be integers, not {given.dtype}")
    if given.size and not (given.min() >= 0 and given.max() < n):
        k = int((~((given >= 0) & (given < n))).argmax())
        raise DataError(f"{what} must lie in 0..{n - 1}; number {k} is {given.flat[k]}")
    result = np.ascontiguousarray(given, np.int32)
    if given.dtype.kind == "f" and not np.array_equal(result, given):
        raise DataError(f"{what} must be integers, not {given.dtype} with fractions")
    return result


@dataclass(frozen=True, eq=False)
class CompressedRows:
    """The ratings of each row, one after another (CSR of the rating matrix, or of its transpose).

    indptr : int64 (rows + 1,), row r holds the positions indptr[r] to indptr[r + 1]
    indices : int32 (nnz,), the column of each rating, ascending within a row
    values : float32 (nnz,)
    """

    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray

    @property
    def n_rows(self):
        return len(self.indptr) - 1

    @property
    def counts(self):
        """Ratings per row, int64 (rows,)."""
        return np.diff(self.indptr)


@dataclass(frozen=True, eq=False)
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

    The constructor checks that positions lie in the matrix and that columns have one length, in a pass over each;
    `from_arrays` checks all else, such as ratings that are no finite numbers or come twice.

    Raises
    ------
    DataError : columns of other types, lengths or dimensions, positions outside, a scale or ids that do not fit
    """

    users: np.ndarray
    items: np.ndarray
    values: np.ndarray
    n_users: int
    n_items: int
    scale: tuple[float, float] | None = None
    user_ids: np.ndarray | None = None
    item_ids: np.ndarray | None = None
    name: str = "ratings"
    sha256: str | None = None
    test_mask: np.ndarray | None = field(default=None, repr=False)

    def __post_init__(self):
        set_ = object.__setattr__  # the class is frozen; only the constructor normalises
        for side in ("user", "item"):
            count, ids = getattr(self, f"n_{side}s"), getattr(self, f"{side}_ids")
            if not isinstance(count, int | np.integer) or isinstance(count, bool) or not 0 < count < 2**31:
                raise DataError(f"{self.name}: n_{side}s must be an integer from 1 to {2**31 - 1}, not {count!r}")
            if ids is None:
                set_(self, f"{side}_ids", np.arange(count))
            elif len(ids) != count:
                raise DataError(f"{self.name}: there are {len(ids)} {side}_ids, not {count}")
            set_(self, f"{side}s", inside(getattr(self, f"{side}s"), count, f"{self.name}: {side}s"))
        values = np.asarray(self.values)
        if values.dtype.kind not in "fiub":
            raise DataError(f"{self.name}: values must be numbers, not {values.dtype}")
        set_(self, "values", np.ascontiguousarray(values, np.float32))
        columns = {"users": self.users, "items": self.items, "values": self.values}
        if self.test_mask is not None:
            columns["test_mask"] = self.test_mask
        shapes = {name: np.shape(column) for name, column in columns.items()}
        if set(shapes.values()) != {(self.values.size,)}:
            raise DataError(f"{self.name}: the columns must be as long as each other, of one dimension, not {shapes}")
        if self.scale is not None and not (
            len(self.scale) == 2 and -np.inf < self.scale[0] <= self.scale[1] < np.inf
        ):
            raise DataError(f"{self.name}: the scale must be (lowest, highest), not {self.scale!r}")

    @classmethod
    def from_arrays(
        cls,
        users,
        items,
        values,
        *,
        scale=None,
        shape=None,
        duplicates="error",
        test_mask=None,
        name="ratings",
        sha256=None,
        source=None,
        locate=None,
    ):
        """Ratings from columns of raw data, checked: the way in for every file and for data in memory.

        Parameters
        ----------
        users, items : ids, (nnz,) arrays, Series or sequences: strings, or integers from 0, in any order
        values : (nnz,) numbers
        scale : (lowest, highest) possible rating; a rating off it is an error
        shape : (users, items); ids are then positions in it, and users and items without ratings are kept
        duplicates : "error", or keep one rating a pair of user and item: the "mean", or the "last" given
        test_mask : bool (nnz,), the publisher's test set
        name, sha256 : as of the class
        source : what messages call the whole; the name by default
        locate : function of a position in the columns that returns what messages call that place

        Returns
        -------
        Ratings, positions in ascending order of id, ratings in the order given

        Raises
        ------
        DataError : no ratings; columns of unequal length; a rating that is not a finite number or off the scale; a
            missing, negative or fractional id, or one outside the shape; ratings of one user only; duplicates
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
            source=source,
            locate=locate or (lambda k: f"{source}, row {k}"),
        )
        return cls(**columns, name=name, sha256=sha256)

    @property
    def nnz(self):
        return len(self.values)

    @property
    def density(self):
        """Filled fraction of the rating matrix: what the thesis (section 6.1) calls sparsity."""
        return self.nnz / (self.n_users * self.n_items)

    @cached_property
    def mean(self):
        return float(self.values.mean(dtype=np.float64))

    @cached_property
    def user_counts(self):
        """Ratings of each user, int64 (n_users,)."""
        return np.bincount(self.users, minlength=self.n_users)

    @cached_property
    def item_counts(self):
        """Ratings of each item, int64 (n_items,)."""
        return np.bincount(self.items, minlength=self.n_items)

    @cached_property
    def by_user(self):
        """The ratings of each user (CSR)."""
        return self._compress(self.users, self.items, self.user_counts, self.n_items)

    @cached_property
    def by_item(self):
        """The ratings of each item (CSC of the rating matrix)."""
        return self._compress(self.items, self.users, self.item_counts, self.n_users)

    def _compress(self, rows, columns, counts, n_columns):
        offsets = row_offsets(counts)
        if self.nnz >= cpu_order.LEAST and (made := cpu_order.compressed(rows, columns, self.values, offsets)):
            return CompressedRows(offsets, *made)
        by_column, _ = sorted_by(columns, n_columns)
        order = by_column[grouped(rows[by_column], offsets)]
        return CompressedRows(offsets, columns[order], self.values[order])

    def on_host(self):
        """These ratings with columns on the host."""
        return self

    # What layouts are made with, where the columns are

    device = None  # of `gpumf.gpu`, where the columns are on one
    xp = np  # works on the columns

    def order(self, keys, n):
        """The positions of keys in 0..n-1, in ascending order of key, equal ones as they are, int64."""
        return stable_order(keys, n, self.xp)

    def sorted_by(self, keys, n):
        """That order, and where in it each key begins, int64 (n + 1,) on the host."""
        return sorted_by(keys, n)

    def random_order(self, n, seed):
        """`gpumf.hashing.random_order`, where the columns are."""
        return random_order(n, seed)

    def select(self, chosen, name=None):
        """The ratings chosen by a boolean mask or by positions; same users, items and scale."""
        return replace(
            self,
            users=self.users[chosen],
            items=self.items[chosen],
            values=self.values[chosen],
            name=name or self.name,
            test_mask=None,
        )

    def split(self, test=0.2, seed=0):
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
        if not 0 < test < 1:
            raise ValueError(f"test must lie between 0 and 1, not {test}")
        n_test = round(test * self.nnz)
        if not 0 < n_test < self.nnz:
            raise ValueError(f"a test share of {test} leaves an empty set of {self.nnz} ratings")
        in_test = random_subset(self.nnz, n_test, seed)
        return self.select(~in_test), self.select(in_test)

    def kfold(self, k=5, seed=0):
        """Yield k pairs (train, test); every rating is in the test set of exactly one pair.

        Sizes differ by at most one. Cold users and items as in `split`.
        """
        if not 2 <= k <= self.nnz:
            raise ValueError(f"k must lie between 2 and the {self.nnz} ratings, not {k}")
        fold = np.empty(self.nnz, np.int32)
        fold[random_order(self.nnz, seed)] = np.arange(self.nnz) % k
        for i in range(k):
            yield self.select(fold != i), self.select(fold == i)

    def official_split(self):
        """(train, test) as the publisher of the set fixed them; DataError where there is no such split."""
        if self.test_mask is None:
            raise DataError(f"{self.name} has no official split; use split() or kfold()")
        return self.select(~self.test_mask), self.select(self.test_mask)

    def transposed(self):
        """The same ratings with users and items in each other's place."""
        return replace(
            self,
            users=self.items,
            items=self.users,
            n_users=self.n_items,
            n_items=self.n_users,
            user_ids=self.item_ids,
            item_ids=self.user_ids,
        )
