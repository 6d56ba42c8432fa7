"""What all share that rank items for users: the models, and their blends."""

from abc import ABC, abstractmethod
from functools import partial

import numpy as np

from gpumf.models.checks import integer, positions
from gpumf.models.ranking import METRICS, ByUser, popular_items


class Recommender(ABC):
    """Recommends what it predicts the highest ratings for.

    Subclasses have `device`, `_shape` (users, items), `_item_counts`, int64 (n_items,), the training ratings of each
    item, and `_training`, the training set or None where it is not known.
    """

    _offset = 0.0  # of predictions from the scores of rankings

    @abstractmethod
    def predict(self, users, items):
        """Predicted ratings, float32, for positions of users and items (broadcast against each other)."""

    @abstractmethod
    def _check_fitted(self):
        """Raise NotFittedError where there is nothing to predict with."""

    @abstractmethod
    def _personalized(self):
        """The users, bool (n_users,), for whom there are scores that differ from item to item."""

    @abstractmethod
    def _ranking_without(self, seen, k):
        """A `Ranking` of the personalized users, for lists of k items, with `seen` as CompressedRows or None."""

    def _check_shape(self, ratings):
        if (ratings.n_users, ratings.n_items) != self._shape:
            raise ValueError("the ratings have other users or items than the model was trained on")

    def recommend(self, user, k=10, seen=None):
        """The k items with the highest predicted ratings that the user has not rated.

        Of equal ratings the item of the lower position comes first. A user of whom the model knows nothing that tells
        items apart (see the class) gets those with the most training ratings first. Up to 128 items of a
        factorization are found where the kernel runs, all else on the CPU.

        Parameters
        ----------
        user : int position, or an array (n,) of them
        k : int
        seen : Ratings whose items of this user are left out, or () to leave out nothing. By default the training set,
            where it is known: a model from a file has none, nor has a blend of models with different ones

        Returns
        -------
        (items, ratings) : int64 and float32, best first; the ratings are those of `predict`, and items without a
            training rating never appear. For one user (<= k,), for an array (n, k) with -1 and NaN where there are
            fewer items.

        Raises
        ------
        ValueError : k below 1, `seen` of another shape, or not given where the training set is not known
        IndexError : a position outside 0..n-1
        """
        self._check_fitted()
        users = np.atleast_1d(positions(user, self._shape[0], "user"))
        k = integer("k", k, 1)
        within = min(k, self._shape[1])
        items, ratings = self._ranking(seen, within).top_items(users, within)
        items = items.astype(np.int64)
        if self._offset:
            ratings += np.float32(self._offset)
        alike = np.flatnonzero(~self._personalized()[users])
        if len(alike):
            found = items[alike] >= 0
            ratings[alike] = np.where(found, self.predict(users[alike, None], items[alike] * found), np.nan)
        if np.ndim(user) == 0:
            found = items[0] >= 0
            return items[0, found], ratings[0, found]
        if within == k:
            return items, ratings
        beyond = (0, 0), (0, k - within)
        return np.pad(items, beyond, constant_values=-1), np.pad(ratings, beyond, constant_values=np.nan)

    def rank(self, test, k=10, seen=None, users=None):
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
        test : Ratings of the same shape as the training set
        k : int
        seen : as in `recommend`
        users : positions of the users to average over; all by default

        Returns
        -------
        dict of precision, recall, map, ndcg, in 0..1

        Raises
        ------
        ValueError : no user with a test item, a test set of another shape; otherwise as of `recommend`
        """
        self._check_fitted()
        self._check_shape(test)
        k = integer("k", k, 1)
        users = np.arange(test.n_users) if users is None else positions(users, test.n_users, "user")
        rows = self._rows(test, k)
        users = users[rows.counts[users] > 0]
        if not len(users):
            raise ValueError("none of the users has a test item")
        means = self._ranking(seen, k).metrics(rows, users, k).mean(axis=0)
        return dict(zip(METRICS, means.tolist(), strict=True))

    def _rows(self, ratings, k):
        """The users' CompressedRows for a ranking for lists of k items: on the host, unless a kernel ranks."""
        return ratings.on_host().by_user

    def _ranking(self, seen, k):
        """A `Ranking` for lists of k items without those of `seen`, as of `recommend`."""
        if seen is None:
            seen = self._training
            if seen is None:
                raise ValueError(
                    "the training set is not known here; pass seen=train, or seen=() to leave out nothing"
                )
        elif isinstance(seen, tuple) and not seen:
            seen = None
        else:
            self._check_shape(seen)
        rows = None if seen is None else self._rows(seen, k)
        personalized, popular = self._personalized(), (self._item_counts, self._shape[0], rows, k, self.device)
        return ByUser(personalized, partial(self._ranking_without, rows, k), partial(popular_items, *popular))
