"""What the models share that approximate a rating by an inner product."""

from dataclasses import replace

import numpy as np

from gpumf import gpu
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
    user_factors, item_factors : float32 (n_users, columns) and (n_items, columns), after `fit`
    """

    _arrays = "user_factors", "item_factors"
    _remedy = "raise regularization, or scale the ratings down"

    def __init__(self, factors, regularization, *, kernel, device, threads, seed):
        self.factors = integer("factors", factors, 1, MAX_FACTORS)
        self.regularization = number("regularization", regularization, least=0)
        self.threads = None if threads is None else integer("threads", threads, 1)
        super().__init__(kernel=kernel, device=device, seed=seed)

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

    def _rated(self, ratings, k):
        there = self.device != "cpu" and k <= MOST_ITEMS and ratings.device is gpu.device(self.device)
        return ratings if there else ratings.on_host()

    def _ranking_without(self, seen, k):
        return ranking_of(self.user_factors, self.item_factors, self._item_known, seen, k, self.device)
