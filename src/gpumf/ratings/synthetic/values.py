"""How the users of a synthetic data set rate: mean, biases, a low-rank part and noise."""

import numpy as np

from gpumf._util.jit import cached_njit, prange
from gpumf.ratings.synthetic.numbers import ITEMS, NOISE, USERS, normal, normals

RANK = 14
"""Factors of a synthetic data set's low-rank part: with the two biases as many as the f=16 that the thesis trains."""


def rate(spec, streams, users, items, user_counts):
    """The ratings, float32: mean + biases + low-rank part + noise, rounded and clipped to the scale."""
    user_traits = normals(streams[USERS], spec.users, RANK + 1)
    _centre(user_traits, user_counts)
    user_traits[:, RANK] *= spec.user_bias
    item_traits = draw_item_traits(spec, streams[ITEMS], np.bincount(items, minlength=spec.items))
    return _values(
        users,
        items,
        user_traits,
        item_traits,
        spec.mean,
        spec.noise,
        *map(float, spec.scale),
        float(spec.step),
        streams[NOISE],
    )


def draw_item_traits(spec, stream, counts):
    """Each item's part of the low-rank term, and its bias, float64 (items, RANK + 1)."""
    traits = normals(stream, spec.items, RANK + 1)
    _centre(traits, counts)
    spectrum, total = np.empty(RANK), 0.0
    for k in range(RANK):
        spectrum[k] = spectrum[k - 1] * spec.decay if k else 1.0
        total += spectrum[k] * spectrum[k]
    traits[:, :RANK] *= spectrum * (spec.signal / np.sqrt(total))
    traits[:, RANK] *= spec.item_bias
    return traits


@cached_njit()
def _centre(traits, counts):
    """Shift each column so that its mean over the ratings is 0: the mean of the set is then not left to chance."""
    for c in range(traits.shape[1]):
        total = 0.0
        for r in range(len(counts)):
            total += counts[r] * traits[r, c]
        traits[:, c] -= total / counts.sum()


@cached_njit(parallel=True)
def _values(users, items, user_traits, item_traits, mean, noise, lowest, highest, step, stream):
    values = np.empty(len(users), np.float32)
    rank = user_traits.shape[1] - 1
    for k in prange(len(users)):
        p, q = user_traits[users[k]], item_traits[items[k]]
        value = mean + p[rank] + q[rank] + noise * normal(stream, k)
        for f in range(rank):
            value += p[f] * q[f]
        value = step * np.floor(value / step + 0.5)
        values[k] = min(max(value, lowest), highest)
    return values
