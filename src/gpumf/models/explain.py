"""Which rated items speak for a recommended one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpumf._util.threads import obeys_threads
from gpumf._util.validation import integer

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import ArrayLike

    from gpumf.models.fold_in import Folding as _Base
    from gpumf.solvers.als_base import ALSHyperparameters
else:
    _Base = object


class Explaining(_Base):
    """Explains the preferences of `ImplicitALS`."""

    item_factors: np.ndarray

    if TYPE_CHECKING:

        @property
        def hyperparameters(self) -> ALSHyperparameters: ...

    @obeys_threads
    def explain(
        self,
        user: Any,
        item: Any,
        k: int = 10,
        *,
        ratings: dict[Any, float] | tuple[ArrayLike, ArrayLike] | None = None,
        ids: bool | None = None,
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """The rated items that contribute most to a user's preference for an item.

        With the items as they are, the user's update predicts x_u . y_i = sum over rated j of s_ij c_uj, where
        s_ij = y_i . W_u y_j and W_u = (Y^T C_u Y + lambda_u I)^-1 (Hu, Koren and Volinsky 2008, section 5).

        Parameters
        ----------
        user : id or position; None with ratings of a new user
        item : id or position
        k : int, items to name
        ratings : of a new user, a dict item -> rating or a pair (items, ratings)
        ids : whether users and items are ids; by default as of the training data

        Returns
        -------
        (preference, items, contributions) : float, the sum of all contributions; the items, as of `recommend`, with
            the largest ones first, and those, float64

        Raises
        ------
        ValueError : several users or items; the training set is not known, as of a model from a file, and no
            ratings are given
        KeyError, IndexError : as of `recommend`

        >>> from gpumf import ImplicitALS
        >>> plays = ["ann", "ann", "bob", "eve"], ["alien", "heat", "alien", "up"], [9, 1, 4, 3]
        >>> model = ImplicitALS(2, device="cpu").fit(plays, epochs=3)
        >>> preference, items, contributions = model.explain("ann", "alien")
        >>> sorted(items), bool(abs(preference - contributions.sum()) < 1e-9)
        (['alien', 'heat'], True)
        """
        self._check_fitted()
        k, place = integer("k", k, 1), self._only(item, "item", ids)
        if ratings is not None:
            rows, row = self._ratings_of_users(ratings, ids)[0].by_user, 0
        elif self._training is None:
            raise ValueError("the training set is not known here; pass ratings=")
        else:
            rows, row = self._training.on_host().by_user, self._only(user, "user", ids)
        part = slice(rows.indptr[row], rows.indptr[row + 1])
        rated, values = rows.indices[part], rows.values[part].astype(np.float64)
        hyper = self.hyperparameters
        weights, preferred = hyper.confidence * np.abs(values), values > 0
        every = self.item_factors.astype(np.float64)
        of_rated = every[rated]
        system = every.T @ every + of_rated.T @ (weights[:, None] * of_rated)
        system += hyper.ridges(np.array([len(rated)]), len(every)) * np.eye(len(system))
        rated, weights, of_rated = rated[preferred], weights[preferred], of_rated[preferred]
        contributions = of_rated @ np.linalg.solve(system, every[place]) * (1 + weights)
        best = np.argsort(-contributions, kind="stable")[:k]
        return float(contributions.sum()), self._told(rated[best].astype(np.int64), "item", ids), contributions[best]

    def _only(self, given, side, ids):
        """The position of one user or item."""
        places = self._positions(given, side, ids)
        if places.ndim:
            raise ValueError(f"explain() is of one user and one item, not of several {side}s {places.shape}")
        return int(places)
