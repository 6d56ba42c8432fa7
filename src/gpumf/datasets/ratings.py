"""What a rating set is: coordinate arrays, their compressed forms, and how they are split."""

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from scipy import sparse

from gpumf.hashing import positional_hash, random_order


class DataError(ValueError):
    """Ratings that cannot be used. The message names the file, the line or row, and what to do."""


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
    sha256 : of the file that it was read from or of the generated arrays, or None
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
        set_(self, "users", np.ascontiguousarray(self.users, np.int32))
        set_(self, "items", np.ascontiguousarray(self.items, np.int32))
        set_(self, "values", np.ascontiguousarray(self.values, np.float32))
        for side, count in (("user", self.n_users), ("item", self.n_items)):
            if getattr(self, f"{side}_ids") is None:
                set_(self, f"{side}_ids", np.arange(count))

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
    def by_user(self):
        """The ratings of each user (CSR)."""
        return self._compress(self.users, self.items, (self.n_users, self.n_items))

    @cached_property
    def by_item(self):
        """The ratings of each item (CSC of the rating matrix)."""
        return self._compress(self.items, self.users, (self.n_items, self.n_users))

    def _compress(self, rows, columns, shape):
        matrix = sparse.coo_array((self.values, (rows, columns)), shape=shape).tocsr()
        matrix.sort_indices()
        return CompressedRows(
            matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32, copy=False), matrix.data
        )

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
        key = positional_hash(self.nnz, seed)
        in_test = key <= np.partition(key, n_test - 1)[n_test - 1]
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
