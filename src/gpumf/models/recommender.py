"""What all share that rank items for users: the models, and their blends."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from gpumf._util.threads import obeys_threads
from gpumf._util.validation import integer
from gpumf.models.ranking import METRICS, ByUser, Limited, Limits, popular_items
from gpumf.ratings.checks import array_of
from gpumf.ratings.csr import CompressedRows, row_offsets

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    from gpumf.models.ids import Ids
    from gpumf.ratings import Ratings
    from gpumf.ratings.convert import RatingsLike

    Seen: TypeAlias = RatingsLike | tuple[()]
    Listed: TypeAlias = Ids | Sequence[Ids]  # items for all users, or for each

    from gpumf.models.ids import Identified as _Base
else:
    _Base = ABC


class Recommender(_Base):
    """Recommends what it predicts the highest ratings for.

    Subclasses have `device`, `threads`, `_item_counts`, int64 (n_items,), the training ratings of each item, and
    `_training`, the training set or None where it is not known.
    """

    device: str
    threads: int | None
    _item_counts: np.ndarray
    _training: Ratings | None
    _seen_rows: CompressedRows | None = None  # without values, of a model from a file that kept it

    _offset = 0.0  # of predictions from the scores of rankings
    _bounds = None  # lowest and highest prediction, where they are clipped
    _scores_predict = True  # whether scores of rankings are predictions, but for offset and bounds

    @abstractmethod
    def _scores_at(self, users, items):
        """Predicted ratings before they are clipped, float32, for positions of users and items (broadcast)."""

    def _predict_at(self, users, items):
        """Predicted ratings, float32, for positions of users and items (broadcast against each other)."""
        return self._clipped(self._scores_at(users, items))

    def _clipped(self, ratings):
        return np.clip(ratings, *map(np.float32, self._bounds)) if self._bounds else ratings

    @abstractmethod
    def _check_fitted(self):
        """Raise NotFittedError where there is nothing to predict with."""

    @abstractmethod
    def _personalized(self):
        """The users, bool (n_users,), for whom there are scores that differ from item to item."""

    def _length(self, k, n):
        """The length of lists of k of n users or items: at most n."""
        return min(integer("k", k, 1), n)

    @abstractmethod
    def _ranking_without(self, seen, k, candidates=None):
        """A `Ranking` of the personalized users, for lists of k items, with `seen` as CompressedRows or None.

        candidates : bool (n_items,), the items that may be in lists; by default those with a training rating
        """

    def _check_shape(self, ratings, columns=True):
        """Raise where ratings are of others; or, with `columns`, have changed since they were made."""
        if (ratings.n_users, ratings.n_items) != self._shape:
            raise ValueError("the ratings have other users or items than the model was trained on")
        if columns:
            ratings._check_columns()

    def _recommend(self, user, k, seen, candidates, filter_items, ids):
        """`recommend` to users who are known."""
        self._check_fitted()
        places = self._one_or_several(user, "user", ids)
        users, k = np.atleast_1d(places), self._length(k, self._shape[1])
        limits = self._limits(self._item_counts > 0, places, candidates, filter_items, ids)
        items, ratings = self._ranking(seen, k, limits).top_items(users, k)
        if self._offset:
            ratings += np.float32(self._offset)
        ratings = self._clipped(ratings)
        alike = np.flatnonzero(~(self._personalized()[users] & self._scores_predict))
        if len(alike):
            found = items[alike] >= 0
            ratings[alike] = np.where(found, self._predict_at(users[alike, None], items[alike] * found), np.nan)
        if np.ndim(places) == 0:
            found = items[0] >= 0
            return self._told(items[0, found], "item", ids), ratings[0, found]
        return self._told(items, "item", ids), ratings

    def _limits(self, allowed, places, candidates, filter_items, ids):
        """`Limits` of the lists of those at `places`, among the items of the mask `allowed`, as of `recommend`."""
        chosen = self._chosen(places, "candidates", candidates, ids)
        left_out = self._chosen(places, "filter_items", filter_items, ids)
        if isinstance(chosen, np.ndarray):
            allowed, chosen = allowed & chosen, None
        if isinstance(left_out, np.ndarray):
            allowed, left_out = allowed & ~left_out, None
        return Limits(allowed, chosen, left_out)

    def _chosen(self, places, name, items, ids):
        """Items for all of several users as a mask, bool (n_items,); for each, CompressedRows without values."""
        if items is None:
            return None
        if not _of_lists(items):
            mask = np.zeros(self._shape[1], bool)
            mask[self._listed(items, ids)] = True
            return mask
        if np.ndim(places) == 0 or len(items) != len(places):
            wanted = "one list" if np.ndim(places) == 0 else f"one list, or one for each of {len(places)},"
            raise ValueError(f"{name} must be {wanted} of items, not {len(items)} lists")
        parts = [array_of(list(one) if isinstance(one, set | frozenset) else one, name) for one in items]
        if any(part.ndim != 1 for part in parts):
            raise ValueError(f"{name} must be all lists or all items, not some of each")
        kinds = {part.dtype.kind for part in parts if part.size}
        if len(kinds) > 1:  # which NumPy would make one of: 7 and 'a' strings
            parts = [part.astype(object) for part in parts]
        flat = np.concatenate([part for part in parts if part.size] or [np.zeros(0, np.int64)])
        return CompressedRows(row_offsets([len(part) for part in parts]), self._listed(flat, ids), None)

    def _listed(self, items, ids):
        """Positions of a list of items, which may be empty."""
        return self._positions(items, "item", ids)

    @obeys_threads
    def evaluate_ranking(
        self,
        test: RatingsLike,
        k: int = 10,
        seen: Seen | None = None,
        users: Ids | None = None,
        *,
        candidates: Listed | None = None,
        filter_items: Listed | None = None,
        ids: bool | None = None,
    ) -> dict[str, float]:
        """How many of the k best items that the model finds for a user are among those that the user rated later.

        Every test rating counts as relevant, whatever its value; of a user's k items, best first, let hit j be one
        where the item of rank j = 1..k is relevant, and n the number of the user's test items. Then

            precision = hits / k,    recall = hits / n,
            map  = 1 / min(k, n) * sum over hits j of (hits up to rank j) / j,
            ndcg = sum over hits j of 1 / log2(j + 1), over the same sum for j = 1..min(k, n),

        each averaged over the users with a test item. `map` is the mean average precision, scaled so that a perfect
        list gets 1; `ndcg` the normalized discounted cumulative gain (Järvelin and Kekäläinen 2002, for relevance 0
        or 1) with the discount of Burges et al. 2005, which counts from the first rank.

        Parameters
        ----------
        test : Ratings of the same shape as the training set, or what `fit` makes them of
        k : int, the number of items where it is larger
        seen, candidates, filter_items, ids : as in `recommend`
        users : the users to average over; all by default

        Returns
        -------
        dict of precision, recall, map, ndcg, in 0..1

        Raises
        ------
        ValueError : no user with a test item, a test set of another shape; otherwise as of `recommend`

        >>> import numpy as np
        >>> from gpumf import ALS
        >>> from gpumf.ratings import Ratings
        >>> k = np.arange(100)
        >>> ratings = Ratings(k // 5, k * 3 % 10, k % 5 + 1, n_users=20, n_items=10)
        >>> train, test = ratings.split(test=0.2, seed=0)
        >>> metrics = ALS(2, device="cpu").fit(train, epochs=2).evaluate_ranking(test, k=5)
        >>> list(metrics), all(0 <= value <= 1 for value in metrics.values())
        (['precision', 'recall', 'map', 'ndcg'], True)
        """
        self._check_fitted()
        test = self._like(test, "test")
        self._check_shape(test)
        k = self._length(k, self._shape[1])
        chosen = np.arange(test.n_users) if users is None else np.ravel(self._positions(users, "user", ids))
        limits = self._limits(self._item_counts > 0, chosen, candidates, filter_items, ids)
        rows = self._rows(test, k)
        tested = np.flatnonzero(rows.counts[chosen] > 0)
        if not len(tested):
            raise ValueError("none of the users has a test item")
        means = self._ranking(seen, k, limits.of(tested)).metrics(rows, chosen[tested], k).mean(axis=0)
        return dict(zip(METRICS, means.tolist(), strict=True))

    def _rows(self, ratings, k=None):
        """The users' CompressedRows for a ranking for lists of k items: on the host, unless a kernel ranks.

        k : int, or None for rows on the host in any case
        """
        return ratings.on_host().by_user

    def _ranking(self, seen, k, limits):
        """A `Ranking` for lists of k items without those of `seen`, as of `recommend`, within `Limits`."""
        if limits.of_each:
            return Limited(partial(self._ranking_within, k), self._rows_seen(seen), self._shape[0], limits)
        return self._ranking_within(k, self._rows_seen(seen, k), limits.allowed)

    def _ranking_within(self, k, seen, allowed):
        """As `_ranking`, with `seen` as CompressedRows or None, of the items of the mask `allowed`."""
        first, personalized = partial(self._ranking_without, seen, k, allowed), self._personalized()
        of_others = partial(popular_items, self._item_counts, self._shape[0], seen, k, self.device, allowed)
        return ByUser(personalized, first, of_others)

    def _rows_seen(self, seen, k=None):
        """`seen` of `recommend` as CompressedRows, where `_rows` has them, or None for nothing."""
        if isinstance(seen, tuple) and not seen:
            return None
        if seen is None:
            if self._training is None and self._seen_rows is not None:
                return self._seen_rows
            seen = self._training
            if seen is None:
                raise ValueError(
                    "the training set is not known here; pass seen=train, or seen=() to leave out nothing, or save "
                    "the model with seen=True"
                )
        else:
            seen = self._like(seen, "seen")
            self._check_shape(seen, columns=False)  # which costs more than a list does; orders are checked when made
        return self._rows(seen, k)


def _of_lists(items):
    """Whether items are given as several lists, one for each user, and not as one for all."""
    if isinstance(items, np.ndarray) and (items.dtype.kind != "O" or items.ndim == 0):
        return items.ndim > 1
    return hasattr(items, "__len__") and any(
        hasattr(one, "__len__") and not isinstance(one, str | bytes) and getattr(one, "ndim", 1) > 0 for one in items
    )
