"""Lists beyond recommendations: the items and users most alike, how varied lists are, ranks among drawn items."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from gpumf import backends
from gpumf._util.memory import free_bytes
from gpumf._util.threads import obeys_threads
from gpumf._util.validation import MAX_SEED, integer
from gpumf.models.ranking import Limited, Limits, ranking_of
from gpumf.ratings.csr import CompressedRows

if TYPE_CHECKING:
    from gpumf.models.ids import Ids
    from gpumf.models.recommender import Listed, Seen
    from gpumf.models.recommender import Recommender as _Base
    from gpumf.ratings.convert import RatingsLike
else:
    _Base = ABC

_MAX_DRAWS = 1000
_BYTES_A_DRAW = 48  # 42 were measured
_DRAWS_IN_MEMORY = 1 << 23  # 64 MiB of items
_DRAWS_AT_ONCE = 1 << 17  # whose vectors are gathered


class Lists(_Base):
    """Compares users with users, and items with items, by their vectors; judges lists, by the items' vectors too.

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

    @obeys_threads
    def list_diversity(
        self, k: int = 10, seen: Seen | None = None, users: Ids | None = None, *, ids: bool | None = None
    ) -> dict[str, float]:
        """How varied the lists of k items are that users get.

        coverage is the share of the items with training ratings that are in some list; diversity of a list the mean
        of 1 - cosine over its pairs of items (Ziegler et al. 2005, with the vectors that the model learned), averaged
        over lists of two items or more; novelty the mean over recommended items of -log2 of their share of all
        training ratings (Zhou et al. 2010), in bits.

        Parameters
        ----------
        k, seen, ids : as of `recommend`
        users : the users to look at; all by default

        Returns
        -------
        dict of coverage in 0..1, diversity in 0..2, novelty in bits

        Raises
        ------
        ValueError : no list with an item; otherwise as of `recommend`

        >>> from gpumf import ALS
        >>> columns = ["ann", "ann", "bob", "eve"], ["alien", "heat", "alien", "up"], [5, 2, 4, 3]
        >>> found = ALS(2, device="cpu").fit(columns, epochs=3).list_diversity(k=1, seen=())
        >>> found["coverage"] <= 1, found["diversity"]
        (True, 0.0)
        """
        self._check_fitted()
        k = self._length(k, self._shape[1])
        users = np.arange(self._shape[0]) if users is None else np.ravel(self._positions(users, "user", ids))
        items, _ = self._ranking(seen, k, Limits(self._item_counts > 0)).top_items(users, k)
        there = items >= 0
        if not there.any():
            raise ValueError("none of the users gets an item")
        shown, counts = items[there], self._item_counts
        vectors, lengths = unit_rows(self._vectors("item")), there.sum(axis=1)
        # Of unit vectors the sum of all cosines is the squared length of their sum.
        sums = np.zeros((len(items), vectors.shape[1]), vectors.dtype)
        for shown_to, of_item in zip(there.T, np.where(there, items, 0).T, strict=True):
            sums += vectors[of_item] * shown_to[:, None]
        several = lengths > 1
        pairs = lengths[several] * (lengths[several] - 1)
        units = (np.linalg.norm(vectors, axis=1) > 0)[np.where(there, items, 0)] & there
        cosines = ((sums[several].astype(np.float64) ** 2).sum(axis=1) - units[several].sum(axis=1)) / pairs
        return {
            "coverage": len(np.unique(shown)) / int((counts > 0).sum()),
            "diversity": float(1 - cosines.mean()) if several.any() else 0.0,
            "novelty": float(-np.log2(counts[shown] / counts.sum()).mean()),
        }

    @obeys_threads
    def evaluate_sampled(
        self, test: RatingsLike, k: int = 10, negatives: int = 100, seen: Seen | None = None, seed: int = 0
    ) -> dict[str, float]:
        """How high each test item ranks among random items that its user has not rated.

        For every test rating `negatives` items are drawn, with replacement, of those with a training rating that the
        user has neither in `seen` nor in the test set; hit_rate is the share of test ratings with fewer than k of
        them predicted higher (equal ones count half), ndcg the mean of 1 / log2(rank + 1) of these hits (He et al.
        2017), mrr that of 1 / rank. Such metrics may order models otherwise than `evaluate_ranking` does, which
        ranks all items (Krichene and Rendle 2020).

        Parameters
        ----------
        test : Ratings of the same shape as the training set, or what `fit` makes them of
        k, negatives : int
        seen : as of `recommend`
        seed : int, of the draws

        Returns
        -------
        dict of hit_rate, ndcg, mrr, in 0..1

        Raises
        ------
        ValueError : no test ratings, or a user who has rated all items; otherwise as of `recommend`

        >>> import numpy as np
        >>> from gpumf import ALS
        >>> from gpumf.ratings import Ratings
        >>> k = np.arange(100)
        >>> ratings = Ratings(k // 5, k * 3 % 10, k % 5 + 1, n_users=20, n_items=10)
        >>> train, test = ratings.split(test=0.2, seed=0)
        >>> metrics = ALS(2, device="cpu").fit(train, epochs=2).evaluate_sampled(test, k=5, negatives=20)
        >>> list(metrics), metrics["mrr"] <= 1
        (['hit_rate', 'ndcg', 'mrr'], True)
        """
        self._check_fitted()
        test = self._like(test, "test").on_host()
        self._check_shape(test)
        k, negatives = integer("k", k, 1), integer("negatives", negatives, 1)
        if not test.nnz:
            raise ValueError("there are no test ratings")
        step = max(_DRAWS_IN_MEMORY // negatives, 1)
        asked, free = _BYTES_A_DRAW * min(step, test.nnz) * negatives, free_bytes()
        if asked > free:
            asked_for = f"{negatives} negatives of {min(step, test.nnz)} test ratings at a time"
            raise backends.out_of_memory(asked_for, asked, free)
        rng = np.random.default_rng(integer("seed", seed, 0, MAX_SEED))
        rated = [rows for rows in (self._rows_seen(seen), test.by_user) if rows is not None]
        known, ranks = np.flatnonzero(self._item_counts > 0), np.empty(test.nnz)
        for begin in range(0, test.nnz, step):
            rows = slice(begin, begin + step)
            users = test.users[rows]
            # No name keeps what is drawn.
            ranks[rows] = self._ranks_among(users, test.items[rows], _drawn(rng, users, negatives, known, rated))
        hits = ranks <= k
        ndcg = np.where(hits, 1 / np.log2(ranks + 1), 0)
        return {"hit_rate": float(hits.mean()), "ndcg": float(ndcg.mean()), "mrr": float((1 / ranks).mean())}

    def _ranks_among(self, users, items, drawn):
        """The rank of each user's item among those drawn for it, int64 (n, negatives); equal ones count half."""
        ranks, step = np.empty(len(users)), max(_DRAWS_AT_ONCE // drawn.shape[1], 1)
        for begin in range(0, len(users), step):
            rows = slice(begin, begin + step)
            others = self._scores_at(users[rows, None], drawn[rows])
            own = self._scores_at(users[rows], items[rows])[:, None]
            ranks[rows] = 1 + (others > own).sum(axis=1) + (others == own).sum(axis=1) / 2
        return ranks


def _drawn(rng, users, negatives, known, rated):
    """Items drawn for each user of those known, which the user has not rated: int64 (users, negatives).

    rated : list of CompressedRows
    """
    drawn = known[rng.integers(len(known), size=len(users) * negatives)]
    again = np.arange(len(drawn))  # those not known to be unrated
    for _ in range(_MAX_DRAWS):
        pairs = users[again // negatives], drawn[again]
        again = again[np.any([rows.holds(*pairs) for rows in rated], axis=0)]
        if not len(again):
            return drawn.reshape(len(users), negatives)
        drawn[again] = known[rng.integers(len(known), size=len(again))]
    raise ValueError(f"user {users[again[0] // negatives]} has rated nearly all items, which leaves none to draw")


def unit_rows(rows: np.ndarray) -> np.ndarray:
    """Rows of length 1, float32; rows of zeros stay."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.ascontiguousarray(rows / np.where(lengths > 0, lengths, 1), np.float32)
