"""The items or users that are most alike, by what a model learned of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from gpumf._util.threads import obeys_threads
from gpumf.models.ranking import Limited, ranking_of
from gpumf.ratings.csr import CompressedRows

if TYPE_CHECKING:
    from gpumf.models.ids import Ids
    from gpumf.models.recommender import Listed
    from gpumf.models.recommender import Recommender as _Base
else:
    _Base = ABC


class Similar(_Base):
    """Compares users with users, and items with items, by the cosine of their vectors.

    Subclasses have `_user_known` and `_item_known`, bool, of all users and items.
    """

    @abstractmethod
    def _vectors(self, side):
        """What is learned of each 'user' or 'item', float32 (n, f), without biases."""

    @obeys_threads
    def similar_items(
        self,
        item: Ids,
        k: int = 10,
        *,
        candidates: Listed | None = None,
        filter_items: Listed | None = None,
        ids: bool | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The k items whose vectors have the largest cosine with an item's, itself left out.

        Parameters
        ----------
        item : id or position, or an array (n,) of them
        k : int, the number of items where it is larger
        candidates, filter_items : as of `recommend`: for all items, or a list for each
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
        ValueError : k below 1, items of several dimensions, or not as many lists as items

        >>> from gpumf import ALS
        >>> columns = ["ann", "ann", "bob", "eve"], ["alien", "heat", "alien", "up"], [5, 2, 4, 3]
        >>> items, cosines = ALS(2, device="cpu").fit(columns, epochs=3).similar_items("alien", k=1)
        >>> items.shape, cosines.dtype
        ((1,), dtype('float32'))
        """
        return self._similar("item", item, k, ids, candidates, filter_items)

    @obeys_threads
    def similar_users(self, user: Ids, k: int = 10, *, ids: bool | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The k users whose vectors have the largest cosine with a user's: as `similar_items`, of users.

        >>> from gpumf import ALS
        >>> columns = ["ann", "ann", "bob", "eve"], ["alien", "heat", "alien", "up"], [5, 2, 4, 3]
        >>> users, cosines = ALS(2, device="cpu").fit(columns, epochs=3).similar_users(["ann", "bob"], k=2)
        >>> users.shape, bool((cosines[:, 0] >= cosines[:, 1]).all())
        ((2, 2), True)
        """
        return self._similar("user", user, k, ids)

    def _similar(self, side, given, k, ids, candidates=None, filter_items=None):
        self._check_fitted()
        places = self._one_or_several(given, side, ids)
        vectors, known = self._vectors(side), getattr(self, f"_{side}_known")
        n, k = len(vectors), self._length(k, len(vectors))
        unit, limits = unit_rows(vectors), self._limits(known, places, candidates, filter_items, ids)
        itself = CompressedRows(np.arange(n + 1), np.arange(n, dtype=np.int32), None)

        def ranking(left_out, allowed):
            return ranking_of(unit, unit, allowed, left_out, k, self.device)

        limited = Limited(ranking, itself, n, limits) if limits.of_each else ranking(itself, limits.allowed)
        found, cosines = limited.top_items(np.atleast_1d(places), k)
        if np.ndim(places) == 0:
            there = found[0] >= 0
            return self._told(found[0, there], side, ids), cosines[0, there]
        return self._told(found, side, ids), cosines


def unit_rows(rows: np.ndarray) -> np.ndarray:
    """Rows of length 1, float32; rows of zeros stay."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.ascontiguousarray(rows / np.where(lengths > 0, lengths, 1), np.float32)
