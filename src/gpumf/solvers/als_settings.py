"""Conjugate gradient on the CPU for several settings of ALS at once: shared ratings, a lane of vectors for each."""

import numpy as np

from gpumf.backends import compile
from gpumf.backends.cpu import cg

MOST_COLUMNS = 64  # with more, a setting trains as fast by itself
_MOST_BYTES = 1 << 28  # of the factors of a side, up to which (ml-10m, 32 factors) it was measured to be faster
_ORDERS = 16  # bytes a row, while they are made


def settings_at_a_time(columns, train):
    """How many settings train together on such ratings with so many columns; 1 where that is not faster."""
    update = cg.settings_update()
    if update is None or columns > MOST_COLUMNS:
        return 1
    n = update[0]
    return n if 4 * n * columns * max(train.n_users, train.n_items) <= _MOST_BYTES else 1


def full_share(columns):
    """The share of the lanes up to which settings train as fast each by itself: 2.4 of 16 with 4 factors, 8 with 32.

    Measured on ml-100k and ml-1m. The time of lanes grows with the columns; that of one setting depends on them less.
    """
    return 0.1 + columns / 80


def settings_bytes(columns, train):
    """Memory that they take: factors, and beside them ridges and biases, of all lanes; and orders of the rows."""
    n, rows = cg.settings_update()[0], train.n_users + train.n_items
    return 4 * n * (rows * (columns + 2) + max(train.n_users, train.n_items)) + _ORDERS * rows


class SettingsGradient:
    """What `ParallelConjugateGradient` does, for models that differ in lambda, alpha and weights, but for rounding.

    problem : of the first model
    starts : of each model what it starts from, as of `Problem`
    systems : the models' hyperparameters, at most `settings_at_a_time`

    Attributes
    ----------
    finite : bool (models,), of which all factors have been so far
    """

    def __init__(self, problem, starts, systems):
        hyper, train, _ = problem
        n, self._update = cg.settings_update()
        lanes = [*range(len(systems)), *[0] * (n - len(systems))]
        self._p, self._q = (
            compile.aligned(np.broadcast_to(arrays[0][..., None], (*arrays[0].shape, n)))
            if all(array is arrays[0] for array in arrays)
            else compile.aligned(np.stack([arrays[lane] for lane in lanes], axis=-1))
            for arrays in zip(*starts, strict=True)
        )
        sides = (train.by_user, len(self._q)), (train.by_item, len(self._p))
        self._users, self._items = (
            (rows, cg.longest_first(rows.indptr), np.stack([ridges[lane] for lane in lanes], axis=-1))
            for rows, columns in sides
            for ridges in [[one.ridges(rows.counts, columns) for one in systems]]
        )
        alphas = np.array([systems[lane].confidence or 0 for lane in lanes], np.float32)
        self._biases = hyper.biases, np.zeros((max(len(self._p), len(self._q)), n), np.float32)
        self._finite, self._n = np.ones(n, np.int32), len(systems)
        self._parameters = alphas, self._finite, hyper.alpha is not None, hyper.cg_steps, hyper.cg_tolerance

    @property
    def finite(self):
        return self._finite[: self._n] > 0

    def epoch(self, number):
        self._solve(self._users, self._q, self._p, -1)
        self._solve(self._items, self._p, self._q, -2)

    def factors(self, k):
        """(user_factors, item_factors) of a model."""
        return tuple(np.ascontiguousarray(array[..., k]) for array in (self._p, self._q))

    def _solve(self, side, fixed, solved, column):
        """An update of a side; of `hyper.biases` as `gpumf.solvers.als_biases.Biases` says."""
        (rows, order, ridges), (has, biases) = side, self._biases
        biases = biases[: len(fixed)]
        if has:
            biases[:] = fixed[:, column]
            fixed[:, column] = solved[:, column] = 0
        self._update(rows, order, biases, fixed, solved, ridges, *self._parameters)
        if has:
            fixed[:, column], solved[:, column] = biases, 1
