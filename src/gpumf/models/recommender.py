"""Recommendations, to known users and to new ones without training: of the models, and of their blends."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np

from gpumf._util.threads import obeys_threads
from gpumf._util.validation import integer
from gpumf.models.checks import NothingHeldOut
from gpumf.models.ids import skips_unknown
from gpumf.models.ranking import METRICS, ByUser, Limited, Limits, popular_items
from gpumf.ratings import Ratings
from gpumf.ratings.checks import array_of
from gpumf.ratings.convert import check_ids, ratings_of
from gpumf.ratings.csr import CompressedRows, row_offsets

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from gpumf.models.ids import Ids, Unknown
    from gpumf.ratings.convert import RatingsLike

    Seen: TypeAlias = RatingsLike | tuple[()]
    Listed: TypeAlias = Ids | Sequence[Ids]  # items for all users, or for each
    NewRatings: TypeAlias = RatingsLike | dict[Any, float] | tuple[ArrayLike, ArrayLike]

    from gpumf.models.ids import Identified as _Base
else:
    _Base = ABC


class Recommender(_Base):
    """Recommends what it predicts the highest ratings for, to new users with all but their vectors as it was learned.

    Subclasses have `device`, `threads`, `_item_counts`, int64 (n_items,), the training ratings of each item, and
    `_training`, the training set or None where it is not known.
    """

    device: str
    threads: int | None
    _item_counts: np.ndarray
    _training: Ratings | None
    _knows_training = True  # all of it, where it is known; not so with users folded in, whose ratings stand for it
    _seen_rows: CompressedRows | None = None  # without values, of a model from a file that kept it

    _offset = 0.0  # of predictions from the scores of rankings
    _bounds = None  # lowest and highest prediction, where they are clipped
    _scores_predict = True  # whether scores of rankings are predictions, but for offset and bounds

    @property
    def _item_places(self):
        """The positions of all items."""
        return np.arange(self._shape[1])

    @property
    def _item_known(self):
        """The items with a training rating, bool (n_items,)."""
        return self._item_counts > 0

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
    def _ranking_without(self, seen, k, candidates):
        """A `Ranking` of the personalized users, for lists of k items, with `seen` as CompressedRows or None.

        candidates : bool (n_items,), the items that may be in lists
        """

    def _check_shape(self, ratings, columns=True):
        """Raise where ratings are of others; or, with `columns`, have changed since they were made."""
        if (ratings.n_users, ratings.n_items) != self._shape:
            raise ValueError("the ratings have other users or items than the model was trained on")
        if columns:
            ratings._check_columns()

    @obeys_threads
    def recommend(
        self,
        user: Ids | None = None,
        k: int = 10,
        seen: Seen | None = None,
        *,
        ratings: NewRatings | None = None,
        candidates: Listed | None = None,
        filter_items: Listed | None = None,
        ids: bool | None = None,
        unknown: Unknown = "error",
    ) -> tuple[np.ndarray, np.ndarray]:
        """The k items with the highest predicted ratings that the user has not rated.

        Of models of explicit ratings, lists of what a user would rate highest; what a user would choose next
        `ImplicitALS` predicts, whose lists these are for.

        Of equal ratings the item of the lower position comes first. A user of whom the model knows nothing that tells
        items apart (see the class) gets those with the most training ratings first. Up to 128 items are
        found where the kernel runs, more on the CPU.

        Parameters
        ----------
        user : id or position, or an array (n,) of them; or None, with the ratings of new users
        k : int, the number of items where it is larger
        seen : Ratings whose items of this user are left out, or () to leave out nothing. By default the training set,
            where it is known: a model from a file has none unless it was saved with seen=True, nor has a blend of
            models with different ones
        ratings : of new users, as `fold_in` takes them, instead of `user`: of one dict or pair one list, else a list
            a user, in ascending order of their ids or positions; what they rated is left out
        candidates : ids or positions of the items to choose from, for all users; or, for an array of users, a list of
            them for each, in the order of the users; all items by default
        filter_items : ids or positions of items to leave out, likewise
        ids : whether users and items are ids, here and in what is returned; by default as of the training data, see
            `gpumf.models.ids.Identified`
        unknown : of `ratings`, `seen`, `candidates` and `filter_items`, 'error', raise where an id is not of the
            training set; 'skip', leave it out

        Returns
        -------
        (items, ratings) : int64 (positions) or of the type of the ids, and float32, best first; the ratings are those
            of `predict`, and items without a training rating never appear. For one user (<= k,), for an array (n, k)
            with -1 (None among strings) and NaN where there are fewer items.

        Raises
        ------
        TypeError : neither users nor ratings, or both
        ValueError : k below 1, users of several dimensions, not as many lists of items as users, `seen` of another
            shape, or not given where the training set is not known
        KeyError : an id that was not in the training set
        IndexError : a position outside 0..n-1

        >>> from gpumf import ALS
        >>> columns = ["ann", "ann", "bob", "eve"], ["alien", "heat", "alien", "up"], [5, 2, 4, 3]
        >>> model = ALS(2, device="cpu").fit(columns, epochs=3)
        >>> items, ratings = model.recommend("bob", k=5)
        >>> sorted(items), ratings.dtype
        (['heat', 'up'], dtype('float32'))
        >>> items, _ = model.recommend(["ann", "bob"], k=2)  # of ann there is one item left
        >>> items.shape, items[0].tolist()
        ((2, 2), ['up', None])
        >>> items, _ = model.recommend(ratings={"alien": 5, "heat": 1})
        >>> items.tolist()
        ['up']
        """
        skip = skips_unknown(unknown)
        if user is not None and ratings is None:
            return self._recommend(user, k, seen, candidates, filter_items, ids, skip)
        if user is not None or ratings is None:
            raise TypeError("recommend() needs users, or the ratings of new ones, and not both")
        one = _of_one(ratings)
        if one and seen is None and candidates is None and filter_items is None:
            listed = self._list_of_one(ratings, k, ids, skip)
            if listed:
                return listed
        folded = self.fold_in(ratings, ids=ids, unknown=unknown)
        users: Ids = np.arange(folded._shape[0])
        if one:
            users = 0
        elif folded.user_ids is not None and self._speaks(ids):
            users = folded.user_ids
        return folded._recommend(users, k, seen, candidates, filter_items, ids, skip)

    @obeys_threads
    def fold_in(self, ratings: NewRatings, *, ids: bool | None = None, unknown: Unknown = "error") -> Self:
        """This model with other users in the place of those it was trained on: new ones, known by their ratings.

        What is learned of a user is what training would learn next with all items as they are: of ALS and ImplicitALS
        a user update, of SGD the least of its objective, of an RBM p(h | v), of a blend that of each of its models.
        Where the kernel runs, all at once.

        Parameters
        ----------
        ratings : of one user a dict item -> rating, or a pair (items, ratings); of several anything that `fit` takes,
            a row or an id a user, with items of this model
        ids : whether items are ids; by default as of the training data
        unknown : 'error', raise where an item has an id that is not of the training set; 'skip', leave its rating out

        Returns
        -------
        a fitted model of the same class with these users, positions 0..n-1 or the ids of a data frame, whose
        `recommend` leaves out the items that they rated; `history` and `score` are of the model before. Of ALS,
        ImplicitALS and RBM, `partial_fit` is for the model before

        Raises
        ------
        KeyError : an id that no item of the training set has
        ValueError : items outside the model's, ratings that are not finite or come twice

        >>> from gpumf import ALS
        >>> columns = ["ann", "ann", "bob", "eve"], ["alien", "heat", "alien", "up"], [5, 2, 4, 3]
        >>> model = ALS(2, device="cpu").fit(columns, epochs=3)
        >>> newcomers = model.fold_in((["zoe", "amy", "zoe"], ["alien", "up", "heat"], [5, 3, 1]))
        >>> newcomers.user_ids, newcomers.user_factors.shape
        (array(['amy', 'zoe'], dtype=object), (2, 4))
        >>> model.fold_in({"brazil": 5, "up": 2}, unknown="skip").user_factors.shape
        (1, 4)
        """
        self._check_fitted()
        return self._with_users(*self._ratings_of_users(ratings, ids, skips_unknown(unknown)))

    def _list_of_one(self, ratings, k, ids, skip):
        """`recommend` by the ratings of one new user where that takes less time than `fold_in`, else None."""
        return None

    @abstractmethod
    def _with_users(self, users, named):
        """This model with the users of `Ratings` of its items in the place of its own, and their ids if `named`."""

    def _ratings_of_users(self, data, ids, skip=None):
        """(ratings, named) : `Ratings` of new users and known items, and whether the users have ids."""
        if _of_one(data):
            items, values = self._ratings_of_one(data, ids, skip)
            columns = np.zeros(len(items), np.int32), items, values
            ratings, named = Ratings(*columns, 1, self._shape[1], item_ids=self._item_places), False
        else:
            ratings, named = ratings_of(data, "ratings", one_user=True)
            ratings = ratings.on_host()
            ratings._check_columns()
            if named:
                items = self._positions(ratings.item_ids, "item", ids, skip)[ratings.items]
                columns = (column[items >= 0] for column in (ratings.users, items, ratings.values))
                columns = *columns, ratings.n_users, self._shape[1]
                ratings = Ratings(*columns, user_ids=ratings.user_ids)
            elif ratings.n_items != self._shape[1]:
                raise ValueError(f"the ratings are of {ratings.n_items} items, the model of {self._shape[1]}")
            else:
                check_ids(ratings, "ratings", None, self.item_ids)
        if not np.isfinite(ratings.values).all():
            raise ValueError("the ratings of new users must be finite numbers")
        pairs = np.sort(ratings.users.astype(np.int64) * ratings.n_items + ratings.items)
        if (pairs[1:] == pairs[:-1]).any():
            raise ValueError("a user rates an item twice; give one rating of each")
        return ratings, named

    def _ratings_of_one(self, data, ids, skip):
        """(positions of items, ratings) of one user, arrays as they were given."""
        if isinstance(data, dict):
            data = list(data), list(data.values())
        items, values = (
            np.atleast_1d(array_of(part, f"the {what}"))
            for part, what in zip(data, ("items", "ratings"), strict=True)
        )
        if len(items) != len(values):
            raise ValueError(f"there are {len(items)} items and {len(values)} ratings; give as many")
        places = self._positions(items, "item", ids, skip)
        return (places[places >= 0], values[places >= 0]) if skip else (places, values)

    def _recommend(self, user, k, seen, candidates, filter_items, ids, skip):
        """`recommend` to users who are known."""
        self._check_fitted()
        seen = self._without_unknown(seen, skip)
        places = self._one_or_several(user, "user", ids)
        users, k = np.atleast_1d(places), self._length(k, self._shape[1])
        limits = self._limits(self._item_known, places, candidates, filter_items, ids, skip)
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

    def _without_unknown(self, seen, skip):
        """`seen` of `recommend` as `Ratings`, without users and items that are not known if these are skipped."""
        if seen is None or isinstance(seen, Ratings) or (isinstance(seen, tuple) and not seen):
            return seen
        return self._like(seen, "seen", "skip" if skip else "error", skips=True)

    def _limits(self, allowed, places, candidates, filter_items, ids, skip=None):
        """`Limits` of the lists of those at `places`, among the items of the mask `allowed`, as of `recommend`."""
        chosen = self._chosen(places, "candidates", candidates, ids, skip)
        left_out = self._chosen(places, "filter_items", filter_items, ids, skip)
        if isinstance(chosen, np.ndarray):
            allowed, chosen = allowed & chosen, None
        if isinstance(left_out, np.ndarray):
            allowed, left_out = allowed & ~left_out, None
        return Limits(allowed, chosen, left_out)

    def _chosen(self, places, name, items, ids, skip):
        """Items for all of several users as a mask, bool (n_items,); for each, CompressedRows without values."""
        if items is None:
            return None
        if not _of_lists(items):
            mask, chosen = np.zeros(self._shape[1], bool), self._positions(items, "item", ids, skip)
            mask[chosen[chosen >= 0]] = True
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
        chosen = self._positions(flat, "item", ids, skip)
        lists = np.repeat(np.arange(len(parts)), [len(part) for part in parts])[chosen >= 0]
        return CompressedRows(row_offsets(np.bincount(lists, minlength=len(parts))), chosen[chosen >= 0], None)

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
        unknown: Unknown = "error",
    ) -> dict[str, float]:
        """How many of the k best items that the model finds for a user are among those that the user rated later.

        Every test rating counts as relevant, whatever its value, also one that lists leave out because it is in the
        training set: hold test ratings out. Of a user's k items, best first, let hit j be one
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
        unknown : 'error', raise where an id is not of the training set; 'skip', leave it out

        Returns
        -------
        dict of precision, recall, map, ndcg, in 0..1

        Raises
        ------
        ValueError : no user with a test item, a test set of another shape, test ratings that are all in `seen`;
            otherwise as of `recommend`

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
        test = self._like(test, "test", unknown, skips=True)
        self._check_shape(test)
        k = self._length(k, self._shape[1])
        chosen = np.arange(test.n_users) if users is None else np.ravel(self._positions(users, "user", ids))
        skip = skips_unknown(unknown)
        limits = self._limits(self._item_known, chosen, candidates, filter_items, ids, skip)
        seen = self._without_unknown(seen, skip)
        rows = self._rows(test, k)
        tested = np.flatnonzero(rows.counts[chosen] > 0)
        if not len(tested):
            raise ValueError("none of the users has a test item")
        means = self._ranking(seen, k, limits.of(tested)).metrics(rows, chosen[tested], k).mean(axis=0)
        if not means.any():
            self._check_held_out(test, chosen[tested], seen)
        return dict(zip(METRICS, means.tolist(), strict=True))

    def _check_held_out(self, test, users, seen):
        """Raise NothingHeldOut where lists leave out every test item of these users: nothing can be found then."""
        where, rows = "in the training set" if seen is None else "in `seen`", self._rows_seen(seen)
        if rows is None:
            return
        test = test.on_host()
        tested = np.isin(test.users, users)
        if rows.holds(test.users[tested], test.items[tested]).all():
            raise NothingHeldOut(
                f"all {tested.sum():,} test ratings are {where}, whose items lists leave out; evaluate on ratings "
                "that were held out, or pass seen=() to leave out nothing"
            )

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


def _of_one(ratings):
    """Whether ratings are of one new user: a dict, or a pair (items, ratings)."""
    if isinstance(ratings, list) and any(isinstance(part, tuple) for part in ratings):
        raise TypeError(
            "ratings must be a dict item -> rating or a pair (items, ratings), not a list of tuples, of which dict() "
            "makes a dict; of several users columns (users, items, ratings)"
        )
    return isinstance(ratings, dict) or (isinstance(ratings, tuple | list) and len(ratings) == 2)


def _of_lists(items):
    """Whether items are given as several lists, one for each user, and not as one for all."""
    if isinstance(items, np.ndarray) and (items.dtype.kind != "O" or items.ndim == 0):
        return items.ndim > 1
    return hasattr(items, "__len__") and any(
        hasattr(one, "__len__") and not isinstance(one, str | bytes) and getattr(one, "ndim", 1) > 0 for one in items
    )
