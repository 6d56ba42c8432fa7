"""The items or users that are most alike, by what a model learned of them."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from gpumf.arguments import integer
from gpumf.datasets.rows import CompressedRows
from gpumf.models.ranking import ranking_of
from gpumf.models.recommender import Recommender

if TYPE_CHECKING:
    from gpumf.models.ids import Ids


class Similar(Recommender):
    """Compares users with users, and items with items, by the cosine of their vectors.

    Subclasses have `_user_known` and `_item_known`, bool, of all users and items.
    """

    @abstractmethod
    def _vectors(self, side):
        """What is learned of each 'user' or 'item', float32 (n, f), without biases."""

    def similar_items(self, item: Ids, k: int = 10, *, ids: bool | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The k items whose vectors have the largest cosine with an item's, itself left out.

        Parameters
        ----------
        item : id or position, or an array (n,) of them
        k : int
        ids : whether items are ids, here and in what is returned; by default as of the training data

        Returns
        -------
        (items, cosines) : int64 or of the type of the ids, and float32 in -1..1, best first; items without a training
            rating never appear. For one item (<= k,), for an array (n, k) with -1 (None among strings) and NaN where
            there are fewer

        Raises
        ------
        KeyError : an id that was not in the training set
        IndexError : a position outside 0..n-1

        >>> from gpumf import ALS
        >>> columns = ["ann", "ann", "bob", "eve"], ["alien", "heat", "alien", "up"], [5, 2, 4, 3]
        >>> items, cosines = ALS(2, device="cpu").fit(columns, epochs=3).similar_items("alien", k=1)
        >>> items.shape, cosines.dtype
        ((1,), dtype('float32'))
        """
        return self._similar("item", item, k, ids)

    def similar_users(self, user: Ids, k: int = 10, *, ids: bool | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The k users whose vectors have the largest cosine with a user's: as `similar_items`, of users.

        >>> from gpumf import ALS
        >>> columns = ["ann", "ann", "bob", "eve"], ["alien", "heat", "alien", "up"], [5, 2, 4, 3]
        >>> users, cosines = ALS(2, device="cpu").fit(columns, epochs=3).similar_users(["ann", "bob"], k=2)
        >>> users.shape, bool((cosines[:, 0] >= cosines[:, 1]).all())
        ((2, 2), True)
        """
        return self._similar("user", user, k, ids)

    def _similar(self, side, given, k, ids):
        self._check_fitted()
        places = self._one_or_several(given, side, ids)
        vectors, known = self._vectors(side), getattr(self, f"_{side}_known")
        n, k = len(vectors), integer("k", k, 1)
        unit = unit_rows(vectors)
        itself = CompressedRows(np.arange(n + 1), np.arange(n, dtype=np.int32), None)
        ranking = ranking_of(unit, unit, known, itself, min(k, n), self.device)
        found, cosines = ranking.top_items(np.atleast_1d(places), min(k, n))
        if np.ndim(places) == 0:
            there = found[0] >= 0
            return self._told(found[0, there], side, ids), cosines[0, there]
        beyond = (0, 0), (0, k - min(k, n))
        found = np.pad(found, beyond, constant_values=-1)
        return self._told(found, side, ids), np.pad(cosines, beyond, constant_values=np.nan)


def unit_rows(rows: np.ndarray) -> np.ndarray:
    """Rows of length 1, float32; rows of zeros stay."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.ascontiguousarray(rows / np.where(lengths > 0, lengths, 1), np.float32)
