"""Errors and rankings of expected ratings."""

import numpy as np

from gpumf import backends
from gpumf.backends import sources
from gpumf.backends.cpu.rbm import expectations
from gpumf.models.evaluation import Errors, on_device, totals
from gpumf.models.ranking import MAX_ITEMS, LaunchedRanking, ScoresKernelRanking, ScoresRanking
from gpumf.solvers.rbm_levels import VARIANTS

sources.declare("rbm/errors.cu", **VARIANTS)


class ExpectationErrors(Errors):
    """The errors of expected ratings on fixed ratings; call it with the arrays of an `RBM` to get (rmse, mae)."""

    def _summing(self, arrays, hidden, device):
        if device != "cpu":
            return expected_sums(arrays, hidden, backends.device(device), self._bounds)
        users, items, values = arrays

        def sums(user_hidden, weights, visible_biases, hidden_biases, level_values, of_user, of_item):
            expected = expectations(users, items, user_hidden, weights, visible_biases, level_values)
            error = np.clip(expected + of_user[users] + of_item[items], *self._bounds) - values.astype(np.float64)
            return np.array([np.abs(error).sum(), (error**2).sum()])

        return sums


def expected_sums(arrays, hidden, device, bounds):
    """As `evaluation.kernel_sums`, of expected ratings: launches kernels/rbm/errors.cu."""
    given = on_device(arrays, device) | dict(zip(("low", "high"), bounds, strict=True))
    blocks, threads, partial, total = totals(device)
    names = "user_hidden", "weights", "visible_biases", "level_values", "user_biases", "item_biases"

    def sums(user_hidden, weights, visible_biases, hidden_biases, *others):
        learned = dict(zip(names, (user_hidden, weights, visible_biases, *others), strict=True))
        kernel = device.kernel("rbm/errors.cu", "expected_errors", HIDDEN=hidden, LEVELS=weights.shape[1])
        kernel(blocks, threads, **given, **learned, partial=partial)
        return total()

    return sums


class _Expected:
    """For a ranking by expected ratings, whose inputs are a matrix product; with `_xp`, of where its arrays are."""

    def _keep(self, learned):
        user_hidden, weights, *others = learned
        arrays = map(self._array, (user_hidden, weights.reshape(-1, weights.shape[2]), *others))
        self._hidden, self._weights, self._biases, self._level_values, self._of_user, self._of_item = arrays

    def _scores(self, users):
        inputs = (self._hidden[users] @ self._weights.T).reshape(len(users), *self._biases.shape)
        inputs += self._biases
        inputs -= inputs.max(axis=-1, keepdims=True)
        self._xp.exp(inputs, out=inputs)
        expected = inputs @ self._level_values / inputs.sum(axis=-1)
        return expected + self._of_item + self._of_user[users, None]


class ExpectationRanking(_Expected, ScoresRanking):
    """The items with the largest expected ratings, by what an `RBM` has learned but its hidden biases."""

    _xp = np

    def __init__(self, learned, candidates, seen):
        n_items, levels, _ = learned[1].shape
        super().__init__((len(learned[0]), n_items), candidates, seen, (1 << 24) // levels)
        self._keep(learned)


class ExpectationKernelRanking(_Expected, ScoresKernelRanking, LaunchedRanking):
    """The same on a device."""

    def __init__(self, learned, candidates, seen, device):
        n_items, levels, _ = learned[1].shape
        super().__init__((len(learned[0]), n_items), candidates, seen, device)
        self._xp, self._batch = self._device.xp, max(1, (1 << 26) // (n_items * levels))
        self._keep(learned)


def expectation_ranking(learned, candidates, seen, k, device):
    """A `Ranking` for lists of k items, where the device is or on the CPU."""
    if device == "cpu" or k > MAX_ITEMS:
        return ExpectationRanking(learned, candidates, seen)
    return ExpectationKernelRanking(learned, candidates, seen, device)
