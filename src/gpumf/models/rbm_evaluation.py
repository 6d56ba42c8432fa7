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


class ExpectationRanking(ScoresRanking):
    """The items with the largest expected ratings, whose inputs are a matrix product.

    user_hidden, weights, visible_biases, level_values, of_user, of_item : of an `RBM`
    candidates, seen : as of `Ranking`
    """

    def __init__(self, user_hidden, weights, visible_biases, level_values, of_user, of_item, candidates, seen):
        n_items, levels, hidden = weights.shape
        super().__init__((len(user_hidden), n_items), candidates, seen, (1 << 24) // levels)
        self._hidden, self._weights = user_hidden, weights.reshape(n_items * levels, hidden)
        self._biases, self._level_values = visible_biases, level_values
        self._of_user, self._of_item = of_user, of_item

    def _scores(self, users):
        expected = _expected(self._hidden[users] @ self._weights.T, self._biases, self._level_values, np)
        return expected + self._of_item + self._of_user[users, None]


class ExpectationKernelRanking(ScoresKernelRanking, LaunchedRanking):
    """The same on a device."""

    def __init__(
        self, user_hidden, weights, visible_biases, level_values, of_user, of_item, candidates, seen, device
    ):
        super().__init__((len(user_hidden), len(weights)), candidates, seen, device)
        self._batch = max(1, (1 << 26) // weights[..., 0].size)
        arrays = user_hidden, weights.reshape(-1, weights.shape[2]), visible_biases, level_values
        self._hidden, self._weights, self._biases, self._level_values = map(self._array, arrays)
        self._of_user, self._of_item = map(self._array, (of_user, of_item))

    def _scores(self, users):
        inputs = self._hidden[users] @ self._weights.T
        expected = _expected(inputs, self._biases, self._level_values, self._device.xp)
        return expected + self._of_item + self._of_user[users, None]


def _expected(inputs, biases, level_values, xp):
    """Expected ratings (users, n_items) from products (users, n_items * K), overwritten; arrays of `xp`."""
    inputs = inputs.reshape(len(inputs), *biases.shape)
    inputs += biases
    inputs -= inputs.max(axis=-1, keepdims=True)
    xp.exp(inputs, out=inputs)
    return inputs @ level_values / inputs.sum(axis=-1)


def expectation_ranking(arrays, candidates, seen, k, device):
    """A `Ranking` for lists of k items, where the device is or on the CPU; arrays: an `RBM`'s, no hidden biases."""
    if device == "cpu" or k > MAX_ITEMS:
        return ExpectationRanking(*arrays, candidates, seen)
    return ExpectationKernelRanking(*arrays, candidates, seen, device)
