"""Predictions and their errors, of all models that learn by themselves."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from gpumf import backends
from gpumf._util.threads import obeys_threads

if TYPE_CHECKING:
    from typing import Any

    from gpumf.models.ids import Ids, Unknown
    from gpumf.models.list_metrics import Lists as _Base
    from gpumf.ratings.convert import RatingsLike
else:
    _Base = ABC


class Predictor(_Base):
    """Predicts ratings with what `_learned` has, and the mean where too little is known."""

    mean: float
    _learned: Any
    _user_known: np.ndarray

    @property
    def _item_known(self):
        return self._item_counts > 0

    def _with_users(self, users, named):
        folded = copy.copy(self)
        folded._forget_copies()
        folded._forget_indexes()
        folded._user_known, folded._training, folded._seen_rows = users.user_counts > 0, users, None
        folded.user_ids = users.user_ids if named else None
        rows = self._fold(users)
        folded._set_learned((rows, *self._learned[1:]))
        return folded

    def _forget_copies(self):
        """Drop what belongs to other users, in a copy of the model."""

    @abstractmethod
    def _fold(self, ratings):
        """The first of the arrays of `_arrays`, float32 (n, ..) on the host, of the users of `Ratings` there."""

    @abstractmethod
    def _placed(self, ratings):
        """The ratings where the solver takes them from: on the device, or on the host where they do not fit it."""

    @abstractmethod
    def _errors(self, ratings):
        """A function of the model's arrays, where they are, that gives (rmse, mae) on these ratings."""

    @obeys_threads
    def score(self, ratings: RatingsLike, *, unknown: Unknown = "error") -> dict[str, float]:
        """Errors on a set of ratings of the same shape, as {"rmse": ..., "mae": ...} in rating units.

        Parameters
        ----------
        ratings : Ratings, or what `fit` makes them of
        unknown : 'error', raise where an id is not of the training set, and count the mean as predicted for who has
            no training ratings (see the class); 'skip', leave all ratings of these users and items out

        Raises
        ------
        ValueError : a set of another shape, or without a rating that counts; another `unknown`

        >>> from gpumf import ALS
        >>> columns = ["ann", "ann", "bob", "eve"], ["alien", "heat", "alien", "up"], [5, 2, 4, 3]
        >>> model = ALS(2, device="cpu").fit(columns, epochs=3)
        >>> list(model.score((["ann", "eve"], ["up", "alien"], [3, 4])))
        ['rmse', 'mae']
        """
        self._check_fitted()
        ratings = self._like(ratings, "the set", unknown)
        self._check_shape(ratings)
        if unknown == "skip":
            xp = ratings.xp
            known = xp.asarray(self._user_known)[ratings.users] & xp.asarray(self._item_known)[ratings.items]
            ratings = ratings.select(known)
        if ratings.nnz == 0:
            raise ValueError("there are no ratings to score on")
        rmse, mae = self._errors(self._placed(ratings))(*self._to_score())
        return {"rmse": rmse, "mae": mae}

    def _to_score(self):
        """What `_errors` is given: what was learned, where the model's errors are computed."""
        if self.device == "cpu":
            return self._learned
        return map(backends.device(self.device).array, self._learned)

    @obeys_threads
    def predict(self, users: Ids, items: Ids, *, ids: bool | None = None) -> np.ndarray:
        """Predicted ratings, float32, for users and items (broadcast against each other).

        Parameters
        ----------
        users, items : ids or positions, one or an array
        ids : whether they are ids; by default as of the training data, see `gpumf.models.ids.Identified`

        Raises
        ------
        KeyError : an id that was not in the training set
        IndexError : a position outside 0..n-1
        ValueError : users and items of shapes that do not go together

        >>> from gpumf import ALS
        >>> columns = ["ann", "ann", "bob", "eve"], ["alien", "heat", "alien", "up"], [5, 2, 4, 3]
        >>> model = ALS(2, device="cpu").fit(columns, epochs=3)
        >>> model.predict("ann", ["alien", "heat", "up"]).shape
        (3,)
        >>> model.predict(3, 0, ids=False)
        Traceback (most recent call last):
            ...
        IndexError: user positions must lie in 0..2
        """
        self._check_fitted()
        sides = self._positions(users, "user", ids), self._positions(items, "item", ids)
        return self._predict_at(*sides)

    def _scores_at(self, users, items):
        users, items = broadcast(users, items)
        of_users, of_items = self._known_sides()
        return np.where(of_users[users] & of_items[items], self._predicted(users, items), np.float32(self.mean))

    @abstractmethod
    def _predicted(self, users, items):
        """Predictions for positions of one shape, as if all were known and nothing clipped."""

    def _known_sides(self):
        """(users, items), bool (n_users,) and (n_items,): of whom enough is learned to predict more than the mean."""
        return self._user_known, self._item_known

    def _personalized(self):
        return self._user_known


def broadcast(users, items):
    """Copies of positions of one shape, as Numba makes NumPy warn of views; ValueError where they have none."""
    try:
        return tuple(map(np.array, np.broadcast_arrays(users, items)))
    except ValueError as error:
        shapes = f"users {np.shape(users)} and items {np.shape(items)}"
        raise ValueError(f"{shapes} do not broadcast against each other; give as many") from error
