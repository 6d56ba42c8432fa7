"""What the models share that approximate a rating by an inner product."""

from dataclasses import replace

import numpy as np

from gpumf import gpu
from gpumf.datasets.device import DeviceRatings
from gpumf.datasets.ratings import CompressedRows
from gpumf.hashing import splitmix64
from gpumf.models.base import MAX_FACTORS
from gpumf.models.checks import integer, number
from gpumf.models.estimator import Model
from gpumf.models.evaluation import Errors
from gpumf.models.initial import uniform_factors
from gpumf.models.ranking import MOST_ITEMS, ranking_of


class Factorization(Model):
    """Approximates a rating by the inner product of a user's and an item's factors: r_ui ~ p_u . q_i.

    A model with biases has two more columns (see `SGD`), and counts ratings from their mean. Predictions are not
    clipped to the rating scale, as the errors in `history` are not. Without biases, a user or item without a
    training rating has no factors worth using: the mean of the training ratings is predicted for it, and counted so
    in every error, and such a user is recommended the items with the most training ratings first.

    Attributes
    ----------
    user_factors, item_factors : float32 (n_users, columns) and (n_items, columns), after `fit`. The first `recommend`
        or `rank` on a GPU copies them there, with what the users rated, for all that follow; then they are read-only
    """

    _arrays = "user_factors", "item_factors"
    _copies = None, None  # the arrays of the host, and their copies on the device
    _copied_rows = None, None  # the training set, and its users' rows on the device
    _remedy = "raise regularization, or scale the ratings down"

    def __init__(self, factors, regularization, *, solver, device, threads, seed):
        self.factors = integer("factors", factors, 1, MAX_FACTORS)
        self.regularization = number("regularization", regularization, least=0)
        self.threads = None if threads is None else integer("threads", threads, 1)
        super().__init__(solver=solver, device=device, seed=seed)

    @property
    def _misfit(self):
        return f", factors={self.factors}"

    def _fits(self, trainer):
        return self.factors <= trainer.max_factors

    @staticmethod
    def _described(trainer):
        return f"{trainer.device}, up to {trainer.max_factors}"

    @property
    def columns(self):
        """Columns of `user_factors` and `item_factors`."""
        return self.factors

    @property
    def _parameters(self):
        return super()._parameters | {"factors": self.factors, "regularization": self.regularization}

    def initial_factors(self, train):
        """Random factors, uniform on [0, 2 sqrt(mean / f)), so that inner products start near the mean rating.

        For a mean of 4 and 16 factors that is the thesis's [0, 1) (section 6.2.1). The same for every kernel and
        device. A mean that is not positive gets factors centred on zero.

        Returns
        -------
        (user_factors, item_factors) : float32, where the ratings are
        """
        key, mean = splitmix64(np.uint64(self.seed)), self._target_mean(train)
        with np.errstate(over="ignore"):
            keys = splitmix64(key + np.arange(2, dtype=np.uint64))
        return tuple(
            uniform_factors(rows, self.factors, mean, key, train.device)
            for rows, key in zip((train.n_users, train.n_items), keys, strict=True)
        )

    @staticmethod
    def _target_mean(train):
        """The mean of what the inner products of known users and items are to be."""
        return train.mean

    def _as_trained(self, ratings):
        """The ratings as inner products approximate them."""
        return replace(ratings, values=ratings.values - np.float32(self._offset)) if self._offset else ratings

    def _initial(self, train):
        return self.initial_factors(train)

    def _continued(self, train, users_known, items_known):
        """What was learned of who was known before; initial factors of all others."""
        learned, known = self._learned, (users_known, items_known)
        now = self._user_known, self._item_known
        if all(
            len(before) == len(after) and not (after & ~before).any()
            for before, after in zip(known, now, strict=True)
        ):
            return learned
        factors = self.initial_factors(train)
        if train.device:
            factors = tuple(map(train.device.to_numpy, factors))
        for fresh, old, before in zip(factors, learned, known, strict=True):
            fresh[: len(before)][before] = old[before]
        return factors

    def _shapes(self, users, items, found):
        return (users, self.columns), (items, self.columns)

    def _errors(self, ratings):
        known = self._known(ratings.users, ratings.items, ratings.xp)
        return Errors(self._as_trained(ratings), known, self.mean - self._offset, self.columns, self.device)

    def _predicted(self, users, items):
        dots = np.einsum("...k,...k->...", self.user_factors[users], self.item_factors[items])
        return dots + np.float32(self._offset)

    def _kernel_ranks(self, k):
        """Whether lists of k items are found where the kernel runs."""
        return self.device != "cpu" and k <= MOST_ITEMS

    def _rows(self, ratings, k):
        if not self._kernel_ranks(k):
            return super()._rows(ratings, k)
        there = gpu.device(self.device)
        if ratings.device is there:
            return ratings.by_user
        if self._copied_rows[0] is ratings:
            return self._copied_rows[1]
        ordered = ratings if "by_user" in vars(ratings) else DeviceRatings.where_they_fit(ratings, there)
        rows = CompressedRows(ordered.by_user.indptr, there.array(ordered.by_user.indices), None)
        if ratings is self._training:
            self._copied_rows = ratings, rows
        return rows

    def _ranking_without(self, seen, k):
        factors = self._learned
        if self._kernel_ranks(k):
            if self._copies[0] is None or any(a is not b for a, b in zip(self._copies[0], factors, strict=True)):
                for array in factors:
                    array.flags.writeable = False  # a change would not be seen in the copy
                self._copies = factors, tuple(map(gpu.device(self.device).array, factors))
            factors = self._copies[1]
        return ranking_of(*factors, self._item_known, seen, k, self.device)
