"""Whom a model speaks of: users and items by the ids of their data, or by their positions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Set
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from gpumf._util.validation import brief, flag
from gpumf.models.checks import positions
from gpumf.models.once import Once
from gpumf.ratings import Ratings
from gpumf.ratings.checks import array_of, plain_ids
from gpumf.ratings.convert import positions_of, ratings_like, ratings_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from gpumf.ratings.convert import RatingsLike

    Ids: TypeAlias = ArrayLike | Set[Any]
    Unknown: TypeAlias = Literal["error", "skip"]


def skips_unknown(unknown: Unknown) -> bool:
    """Whether `unknown` is 'skip'; ValueError unless it is that or 'error'."""
    if unknown not in ("error", "skip"):
        raise ValueError(f"unknown must be 'error' or 'skip', not {unknown!r}")
    return unknown == "skip"


class Identified(ABC):
    """Methods with the option `ids` take and give ids, or, with ids=False, positions 0..n-1.

    A model speaks as its training data did: of a data frame, or columns, by ids; of `Ratings` and of matrices, which
    count positions, by positions. `fit(ids=..)` says otherwise, and so does `ids` of every method.

    Subclasses have `_shape`, (users, items), and call `_forget_indexes` when they are made.
    """

    _shape: tuple[int, int]

    @property
    @abstractmethod
    def ids(self) -> bool:
        """Whether methods take and give ids unless they are told otherwise.

        >>> from gpumf import ALS
        >>> from gpumf.ratings import Ratings
        >>> ALS(2, device="cpu").fit((["ann", "bob"], ["alien", "up"], [5, 4]), epochs=1).ids
        True
        >>> ratings = Ratings([0, 1, 1], [0, 0, 1], [4, 3, 5], n_users=2, n_items=2)
        >>> ALS(2, device="cpu").fit(ratings, epochs=1).ids
        False
        """

    @property
    @abstractmethod
    def user_ids(self) -> np.ndarray | None:
        """The id of each user's position, (n_users,), ascending or as given; None where ids are positions.

        >>> from gpumf import ALS
        >>> ALS(2, device="cpu").fit((["ann", "bob"], ["alien", "up"], [5, 4]), epochs=1).user_ids
        array(['ann', 'bob'], dtype=object)
        """

    @property
    @abstractmethod
    def item_ids(self) -> np.ndarray | None:
        """The id of each item's position, (n_items,), as `user_ids`.

        >>> from gpumf import ALS
        >>> ALS(2, device="cpu").fit((["ann", "bob"], ["alien", "up"], [5, 4]), epochs=1).item_ids
        array(['alien', 'up'], dtype=object)
        """

    def _keep_ids(self, ratings, user_ids=None, item_ids=None):
        """Keep the ids of a training set; where it counts positions alone, those known of before, or None.

        Raise ValueError where it has more positions than there are ids.
        """
        for side, known in (("user", user_ids), ("item", item_ids)):
            ids, _ = plain_ids(np.asarray(getattr(ratings, f"{side}_ids")))
            plain = ids.dtype.kind in "iu" and np.array_equal(ids, np.arange(len(ids)))
            if plain and known is not None and len(ids) != len(known):
                raise ValueError(
                    f"the model knows its {side}s by ids, and the {len(ids) - len(known)} new ones have none; give "
                    f"Ratings with the {side}_ids of all"
                )
            setattr(self, f"{side}_ids", known if plain else ids)

    def _forget_indexes(self):
        """Have indexes of ids of its own, in a copy of the model too."""
        self._user_index, self._item_index = Once(), Once()

    def _speaks(self, ids):
        return self.ids if ids is None else flag("ids", ids)

    def _positions(self, given, side, ids, skip=None):
        """Positions of users or items, an integer array of the shape given.

        skip : give -1 for an id that the training set has not; None where the caller has no `unknown` to ask for it
        Raises KeyError: such an id otherwise
        Raises TypeError, IndexError: as of `gpumf.models.checks.positions`
        """
        known, count = getattr(self, f"{side}_ids"), self._shape[side == "item"]
        given = list(given) if isinstance(given, set | frozenset) else given
        array = array_of(given, f"{side}s")
        if array.dtype.kind == "f" and not hasattr(given, "dtype"):
            array = np.asarray(given, object)  # integers of 64 bits beside smaller ones, which NumPy rounds
        given = array
        if not given.size:
            return np.zeros(given.shape, np.int64)
        if not self._speaks(ids):
            if given.dtype.kind in "UST" or isinstance(given.flat[0], str):
                raise TypeError(
                    f"{side} positions must be integers, not {given.dtype}; pass ids=True where these are ids"
                )
            return positions(given, count, side)
        places = self._places(given.ravel(), known, count, side)
        if not skip and (places < 0).any():
            unknown = given.ravel()[places < 0].tolist()[0]
            such = "" if known is None else f"; ids are such as {brief(known[0])}"
            raise KeyError(
                f"no {side} of the training set has the id {brief(unknown)}{such}; with ids=False, {side}s are "
                "positions"
                + ("; for new users use recommend(ratings=..)" if side == "user" else "")
                + ("; unknown='skip' leaves such ids out" if skip is False else "")
            )
        return places.reshape(given.shape)

    def _places(self, given, known, count, side):
        """`positions_of` one-dimensional ids, by an index of the known ones that is kept."""
        given = given.astype(object) if given.dtype.kind in "UST" else given
        if known is None:
            return positions_of(given, np.arange(count))
        import pandas as pd

        def index():
            return pd.Index(known, dtype=known.dtype, copy=True)

        kept = getattr(self, f"_{side}_index")
        places = positions_of(given, kept(index, known))
        # One is unknown, or ids were changed in place.
        if (places < 0).any() or not np.array_equal(known[places], given):
            kept.forget()
            places = positions_of(given, kept(index, known))
        return places

    def _one_or_several(self, given, side, ids):
        """`_positions`, of one or of an array (n,); ValueError for more dimensions."""
        places = self._positions(given, side, ids)
        if places.ndim > 1:
            raise ValueError(f"{side}s must be one or an array (n,) of them, not {places.shape}")
        return places

    def _told(self, places, side, ids):
        """Positions, -1 for none, as ids where the model speaks ids: then -1, or None among strings, for none."""
        known = getattr(self, f"{side}_ids")
        if known is None or not self._speaks(ids):
            return places
        told, missing = known[places], places < 0
        if missing.any():
            if told.dtype.kind == "u":  # which cannot hold -1
                told = told.astype(np.int64 if known.max() <= np.iinfo(np.int64).max else object)
            told[missing] = None if told.dtype.kind == "O" else -1
        return told

    def _like(self, data: RatingsLike, name: str, unknown: Unknown = "error", skips: bool = False) -> Ratings:
        """`Ratings` of what `fit` takes, in the positions of this model.

        unknown : what to do with ids that the model does not know
        skips : whether the user can say so, which the message of the error then tells
        """
        if skips_unknown(unknown):
            data = self._of_known(*ratings_of(data, name, one_user=True))
        remedy = "pass unknown='skip' to leave out " if skips else "remove "
        return ratings_like(data, name, self.user_ids, self.item_ids, self._shape, remedy=remedy)

    def _of_known(self, ratings, named):
        """`Ratings` in the positions of this model, without those of ids that it does not know, if they name ids."""
        if not named:
            return ratings
        columns = {}
        for side, count in zip(("user", "item"), self._shape, strict=True):
            places = self._places(getattr(ratings, f"{side}_ids"), getattr(self, f"{side}_ids"), count, side)
            columns |= {f"{side}s": places[getattr(ratings, f"{side}s")], f"n_{side}s": count}
        known = (columns["users"] >= 0) & (columns["items"] >= 0)
        columns |= {side: columns[side][known] for side in ("users", "items")}
        return Ratings(**columns, values=ratings.values[known], name=ratings.name)
