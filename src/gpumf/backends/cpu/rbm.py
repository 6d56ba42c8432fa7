"""A restricted Boltzmann machine for ratings on the CPU.

The three updates of the thesis (section 4.2): hidden units from visible ones, visible ones from hidden ones, weights
from both. The draws are hashes of what they are for (gpumf._util.counter_rng), so that every kernel makes the same
ones. Weights lie as (items, levels, hidden units): what a rating needs, and all K levels of an item, is read in a
row.
"""

from functools import cache
from types import SimpleNamespace

import numpy as np

from gpumf._util.counter_rng import splitmix64
from gpumf._util.jit import cached_njit, prange
from gpumf.backends.cpu.shapes import takes

_40, _ULP = np.uint64(40), np.float32(2**-24)


# What has diverged is to end as NaN, as on the GPU, and not as Python's division by zero.
_ARITHMETIC = {"fastmath": True, "error_model": "numpy", "nogil": True}


@cached_njit(nogil=True)
def uniform(key, draw):
    """Draw number `draw` of the stream `key`, both uint64, uniform on [0, 1): `random_uniform` of random.cuh."""
    return np.float32(splitmix64(key + draw) >> _40) * _ULP


@cached_njit(**_ARITHMETIC)
def _add_row(total, row):
    """Number by number: an assignment of arrays has Numba compile the text of an error for seconds."""
    for j in range(len(total)):
        total[j] += row[j]


@cached_njit(**_ARITHMETIC)
def _dot(a, b):
    result = np.float32(0)
    for j in range(len(b)):
        result += a[j] * b[j]
    return result


def _hidden_update(users, indptr, items, chosen, weights, hidden_biases, probabilities):
    one = np.float32(1)
    for c in prange(len(users)):
        total = probabilities[users[c]]
        for j in range(len(total)):
            total[j] = hidden_biases[j]
        for t in range(indptr[c], indptr[c + 1]):
            _add_row(total, weights[items[t], chosen[t]])
        for j in range(len(total)):
            total[j] = one / (one + np.exp(-total[j]))


def _visible_update(
    users, indptr, items, weights, visible_biases, probabilities, hidden_key, visible_key, reconstruction
):
    zero, one, levels, hidden = np.float32(0), np.float32(1), weights.shape[1], weights.shape[2]
    for c in prange(len(users)):
        user = users[c]
        units, p = np.empty(hidden, np.float32), np.empty(levels, np.float32)
        for j in range(hidden):
            draw = uniform(hidden_key, np.uint64(user * hidden + j))
            units[j] = one if draw < probabilities[user, j] else zero
        for t in range(indptr[c], indptr[c + 1]):
            item = items[t]
            for k in range(levels):
                p[k] = visible_biases[item, k] + _dot(weights[item, k], units)
            largest, total = p[0], zero
            for k in range(1, levels):
                largest = p[k] if p[k] > largest else largest
            for k in range(levels):
                p[k] = np.exp(p[k] - largest)
                total += p[k]
            # The first level up to which the probabilities add up to more than the draw.
            draw, below, level = uniform(visible_key, np.uint64(t)), zero, 0
            for k in range(levels):
                p[k] /= total
                below += p[k]
                level += k < levels - 1 and below <= draw
            reconstruction[t] = level


def _weight_update(
    row_items, rows, mapping, entry_users, chosen, reconstruction, positive, negative, weights, visible_biases,
    weights_change, visible_biases_change, rate, n_users, per_item, momentum, weight_decay,
):  # fmt: skip
    one, levels, hidden = np.float32(1), weights.shape[1], weights.shape[2]
    for r in prange(len(row_items)):
        item = row_items[r]
        gradient, counts = np.zeros((levels, hidden), np.float32), np.zeros(levels, np.float32)
        for s in range(rows[r], rows[r + 1]):
            t = mapping[s]
            user, data, model = entry_users[t], chosen[t], reconstruction[t]
            _add_row(gradient[data], positive[user])
            for j in range(hidden):
                gradient[model, j] -= negative[user, j]
            counts[data] += one
            counts[model] -= one
        step = rate / np.float32(rows[r + 1] - rows[r] if per_item else n_users)
        for k in range(levels):
            w, change = weights[item, k], gradient[k]
            for j in range(hidden):
                change[j] = step * change[j] - rate * weight_decay * w[j]
            bias_change = step * counts[k]
            if momentum > np.float32(0):
                for j in range(hidden):
                    change[j] += momentum * weights_change[item, k, j]
                    weights_change[item, k, j] = change[j]
                bias_change += momentum * visible_biases_change[item, k]
                visible_biases_change[item, k] = bias_change
            _add_row(w, change)
            visible_biases[item, k] += bias_change


@cached_njit(**_ARITHMETIC)
def _hidden_bias_update(users, positive, negative, hidden_biases, change, rate, momentum):
    gradient = np.zeros(len(hidden_biases), np.float32)
    for user in users:
        for j in range(len(gradient)):
            gradient[j] += positive[user, j] - negative[user, j]
    step = rate / np.float32(len(users))
    for j in range(len(gradient)):
        change[j] = momentum * change[j] + step * gradient[j]
        hidden_biases[j] += change[j]


_COMPILED = {
    parallel: [
        cached_njit(parallel=parallel, **_ARITHMETIC)(one)
        for one in (_hidden_update, _visible_update, _weight_update)
    ]
    for parallel in (False, True)
}


@cache
def updates(hidden, levels, parallel):
    """Return the updates, over users or items, on one thread or on all: the result is the same but for rounding.

    Returns an object with the functions
    hidden_update(users, indptr, items, levels, weights, hidden_biases, probabilities): of these users, whose entries
        are indptr[c] to indptr[c + 1], row u of `probabilities` becomes that of user u given the levels
    visible_update(users, indptr, items, weights, visible_biases, probabilities, hidden_key, visible_key,
        reconstruction): `reconstruction`, uint8 (entries,), becomes the levels, drawn given hidden units that are
        drawn from their probabilities
    weight_update(row_items, rows, mapping, entry_users, levels, reconstruction, positive, negative, weights,
        visible_biases, weights_change, visible_biases_change, rate, n_users, per_item, momentum, weight_decay): of
        these items
    hidden_bias_update(users, positive, negative, hidden_biases, change, rate, momentum)
    """
    hidden_update, visible_update, weight_update = _COMPILED[parallel]
    batch, of_users = ("int32 batch", "int64 batch+1", "int32 entries"), "float32 users h"
    weights, visible_biases, hidden_biases = "float32 items k h", "float32 items k", "float32 h"
    rows = "int32 rows", "int64 rows+1", "int32 mapped", "int32 entries", "uint8 entries"
    changes = "float32 changed k h", "float32 changed k"  # of no items without momentum
    drawn = "uint8 room"  # for the entries of the largest batch
    learned, sizes = (weights, visible_biases), {"h": hidden, "k": levels}
    return SimpleNamespace(
        hidden_update=takes(*batch, drawn, weights, hidden_biases, of_users, **sizes)(hidden_update),
        visible_update=takes(*batch, *learned, of_users, "", "", drawn, **sizes)(visible_update),
        weight_update=takes(*rows, drawn, of_users, of_users, *learned, *changes, **sizes)(weight_update),
        hidden_bias_update=takes(batch[0], of_users, of_users, hidden_biases, hidden_biases, **sizes)(
            _hidden_bias_update
        ),
    )


@takes("", "", "float32 n h", "float32 items k h", "float32 items k", "float32 k")
@cached_njit(parallel=True, **_ARITHMETIC)
def expectations(users, items, user_hidden, weights, visible_biases, level_values):
    """Expected ratings, float32 (n,), of these users and items given the users' hidden probabilities."""
    result, levels, hidden = np.empty(len(users), np.float32), weights.shape[1], weights.shape[2]
    for t in prange(len(users)):
        h, w, inputs = user_hidden[users[t]], weights[items[t]], visible_biases[items[t]].copy()
        for k in range(levels):
            total = np.float32(0)
            for j in range(hidden):
                total += w[k, j] * h[j]
            inputs[k] += total
        inputs = np.exp(inputs - inputs.max())
        result[t] = (inputs * level_values).sum() / inputs.sum()
    return result
