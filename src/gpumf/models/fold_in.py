"""New users without training: what a model learns of them while its items stay as they are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from gpumf._util.threads import obeys_threads
from gpumf.ratings import Ratings
from gpumf.ratings.convert import ratings_of

if TYPE_CHECKING:
    from typing import Any, Self, TypeAlias

    from numpy.typing import ArrayLike

    from gpumf.models.ids import Ids
    from gpumf.models.recommender import Listed, Seen
    from gpumf.ratings.convert import RatingsLike

    NewRatings: TypeAlias = RatingsLike | dict[Any, float] | tuple[ArrayLike, ArrayLike]

    from gpumf.models.recommender import Recommender as _Base
else:
    _Base = ABC


class Folding(_Base):
    """Recommends to new users, whose vectors it finds from their ratings, with everything else as it was learned."""

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
    ) -> tuple[np.ndarray, np.ndarray]:
        """The k items with the highest predicted ratings that the user has not rated.

        Of models of explicit ratings, lists of what a user would rate highest; what a user would choose next
        `ImplicitALS` predicts, whose lists these are for.

        Of equal ratings the item of the lower position comes first. A user of whom the model knows nothing that tells
        items apart (see the class) gets those with the most training ratings first. Up to 128 items are
        found where the kernel runs, more, and those of a blend, on the CPU.

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
        if user is not None and ratings is None:
            return self._recommend(user, k, seen, candidates, filter_items, ids)
        if user is not None or ratings is None:
            raise TypeError("recommend() needs users, or the ratings of new ones, and not both")
        folded = self.fold_in(ratings, ids=ids)
        users: Ids = np.arange(folded._shape[0])
        if isinstance(ratings, dict) or (isinstance(ratings, tuple | list) and len(ratings) == 2):
            users = 0
        elif folded.user_ids is not None and self._speaks(ids):
            users = folded.user_ids
        return folded._recommend(users, k, seen, candidates, filter_items, ids)

    @obeys_threads
    def fold_in(self, ratings: NewRatings, *, ids: bool | None = None) -> Self:
        """This model with other users in the place of those it was trained on: new ones, known by their ratings.

        What is learned of a user is what training would learn next with all items as they are: of ALS and ImplicitALS
        a user update, of SGD the least of its objective, of an RBM p(h | v), of a blend that of each of its models.
        Where the kernel runs, all at once.

        Parameters
        ----------
        ratings : of one user a dict item -> rating, or a pair (items, ratings); of several anything that `fit` takes,
            a row or an id a user, with items of this model
        ids : whether items are ids; by default as of the training data

        Returns
        -------
        a fitted model of the same class with these users, positions 0..n-1 or the ids of a data frame, whose
        `recommend` leaves out the items that they rated; `history` and `score` are of the model before

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
        >>> model.fold_in({"brazil": 5})
        Traceback (most recent call last):
            ...
        KeyError: "no item of the training set has the id 'brazil'; with ids=False, items are positions"
        """
        self._check_fitted()
        return self._with_users(*self._ratings_of_users(ratings, ids))

    @abstractmethod
    def _with_users(self, users, named):
        """This model with the users of `Ratings` of its items in the place of its own, and their ids if `named`."""

    def _ratings_of_users(self, data, ids):
        """(ratings, named) : `Ratings` of new users and known items, and whether the users have ids."""
        if isinstance(data, dict):
            data = list(data), list(data.values())
        if isinstance(data, tuple | list) and len(data) == 2:
            items, values = (np.atleast_1d(np.asarray(part)) for part in data)
            if len(items) != len(values):
                raise ValueError(f"there are {len(items)} items and {len(values)} ratings; give as many")
            ratings, named = Ratings(np.zeros(len(items)), self._listed(items, ids), values, 1, self._shape[1]), False
        else:
            ratings, named = ratings_of(data, "ratings", one_user=True)
            ratings = ratings.on_host()
            ratings._check_columns()
            if named:
                items = self._positions(ratings.item_ids, "item", ids)[ratings.items]
                columns = ratings.users, items, ratings.values, ratings.n_users, self._shape[1]
                ratings = Ratings(*columns, user_ids=ratings.user_ids)
            elif ratings.n_items != self._shape[1]:
                raise ValueError(f"the ratings are of {ratings.n_items} items, the model of {self._shape[1]}")
        if not np.isfinite(ratings.values).all():
            raise ValueError("the ratings of new users must be finite numbers")
        pairs = np.sort(ratings.users.astype(np.int64) * ratings.n_items + ratings.items)
        if (pairs[1:] == pairs[:-1]).any():
            raise ValueError("a user rates an item twice; give one rating of each")
        return ratings, named
