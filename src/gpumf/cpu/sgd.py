"""SGD on the CPU, compiled for a fixed number of factors: one core in order, or all cores without locks.

The arithmetic and the samples of `kernels/sgd/hogwild.cu` (thesis, Algorithm 4.1): update t draws the rating
that the hash of t points to, so one core, many cores and a GPU follow the same sequence of samples.
"""

from functools import cache

import numpy as np

from gpumf.compiled import cached_njit
from gpumf.hashing import high_product, splitmix64

# Updates whose samples are fetched together.
_BATCH = 64


@cached_njit(nogil=True)
def random_position(key, draw, n):
    """A uniform position below n: `random_position` of kernels/common/random.cuh, all uint64."""
    return high_product(splitmix64(key + draw), n)


@cache
def hogwild(columns, biases, parallel):
    """Compile hogwild(users, items, values, p, q, steps, key, first, count, chunks).

    Parameters
    ----------
    columns : int f, the last two of which are biases where there are some
    biases : 0, 1 or 2, as BIASES of kernels/common/sgd.cuh
    parallel : bool. One core makes the chunks' updates in order. Several cores make the chunks at the same time,
        without locks: updates of the same vector may be lost, as in Recht et al. 2011.

    Returns
    -------
    A function that updates p, float32 (users, f), and q, float32 (items, f), in place. steps : five float32, the
    learning rate and lambda of the users, of the items, of the users' biases and of the items' biases
    """
    from numba import njit, prange

    factors = columns - 2 if biases else columns
    user_bias, item_bias = columns - 2, columns - 1

    @njit(fastmath=True, nogil=True)
    def updates(users, items, values, p, q, steps, key, begin, end):
        rate, user_reg, item_reg, user_bias_reg, item_bias_reg = steps
        n = np.uint64(len(values))
        user, item, value = (
            np.empty(_BATCH, np.int32),
            np.empty(_BATCH, np.int32),
            np.empty(_BATCH, np.float32),
        )
        for first in range(begin, end, _BATCH):
            count = min(_BATCH, end - first)
            # The samples lie anywhere in memory: fetching many before the first is used overlaps their latencies.
            for t in range(count):
                sample = random_position(key, np.uint64(first + t), n)
                user[t], item[t], value[t] = users[sample], items[sample], values[sample]
            for t in range(count):
                u, v = p[user[t]], q[item[t]]
                error = -value[t]
                for k in range(columns):
                    error += u[k] * v[k]
                for k in range(factors):
                    old = u[k]
                    u[k] -= rate * (error * v[k] + user_reg * old)
                    v[k] -= rate * (error * old + item_reg * v[k])
                if biases == 1:
                    u[user_bias] -= rate * (error + user_bias_reg * u[user_bias])
                    v[item_bias] -= rate * (error + item_bias_reg * v[item_bias])

    # Not cached on disk: Numba's cache cannot tell apart closures that differ in their compiler flags alone.
    @njit(
        "void(int32[::1], int32[::1], float32[::1], float32[:, ::1], float32[:, ::1], "
        "UniTuple(float32, 5), uint64, int64, int64, int64)",
        nogil=True,
        parallel=parallel,
    )
    def hogwild(users, items, values, p, q, steps, key, first, count, chunks):
        for c in prange(chunks):
            begin = first + count * c // chunks
            end = first + count * (c + 1) // chunks
            updates(users, items, values, p, q, steps, key, begin, end)

    return hogwild
