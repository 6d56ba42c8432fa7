"""SGD on the CPU, compiled for a fixed number of factors.

`ordered` uses each rating once, on one thread or all. `hogwild` draws, on one thread in order, on all without locks:
the arithmetic and the samples of `kernels/sgd/hogwild.cu` (thesis, Algorithm 4.1). Update t draws the rating that the
hash of t points to, so one thread, many threads and a GPU follow the same sequence of samples.
"""

from functools import cache

import numpy as np

from gpumf._util import threads
from gpumf._util.counter_rng import high_product, splitmix64
from gpumf._util.jit import cached_by_size, cached_njit, prange
from gpumf.backends import compile
from gpumf.backends.cpu.shapes import takes

# Updates whose samples are fetched together.
_BATCH = 64


@cached_njit(nogil=True)
def random_position(key, draw, n):
    """A uniform position below n: `random_position` of kernels/common/random.cuh, all uint64."""
    return high_product(splitmix64(key + draw), n)


@cached_njit(parallel=True)
def into_blocks(users, items, values, down, across, side, key, slices):
    """The ratings of each of side x side blocks, one block after another, in a random order.

    The same on any number of cores: a counting sort, shared out in slices, then each block's shuffle by itself, which
    its part of the cache holds (Fisher and Yates).

    users, items : int32 (nnz,)
    values : (nnz,), of any type
    down, across : int32, the part of 0..side-1 that each user and each item is in
    side : int; block (a, b) is number ((b - a) mod side) * side + a, diagonal after diagonal
    key : uint64, the stream of the draws
    slices : int, ratings are sorted in so many at the same time
    Returns (users, items, values, offsets): in that order; int64 (side * side + 1,), where the blocks begin
    """
    n, n_blocks = len(users), side * side
    places = np.zeros((slices, n_blocks), np.int64)  # how many a slice has, then where its next one goes
    for s in prange(slices):
        for k in range(n * s // slices, n * (s + 1) // slices):
            places[s, _block(down[users[k]], across[items[k]], side)] += 1
    offsets, begin = np.empty(n_blocks + 1, np.int64), 0
    for b in range(n_blocks):
        offsets[b] = begin
        for s in range(slices):
            count = places[s, b]
            places[s, b] = begin
            begin += count
    offsets[n_blocks] = begin
    users_of, items_of, values_of = np.empty_like(users), np.empty_like(items), np.empty_like(values)
    for s in prange(slices):
        for k in range(n * s // slices, n * (s + 1) // slices):
            b = _block(down[users[k]], across[items[k]], side)
            at = places[s, b]
            places[s, b] = at + 1
            users_of[at], items_of[at], values_of[at] = users[k], items[k], values[k]
    for b in prange(n_blocks):
        begin = offsets[b]
        for last in range(offsets[b + 1] - 1, begin, -1):
            k = begin + np.int64(random_position(key, np.uint64(last), np.uint64(last - begin + 1)))
            users_of[k], users_of[last] = users_of[last], users_of[k]
            items_of[k], items_of[last] = items_of[last], items_of[k]
            values_of[k], values_of[last] = values_of[last], values_of[k]
    return users_of, items_of, values_of, offsets


@cached_njit()
def _block(down, across, side):
    tag = across - down
    return (tag + side if tag < 0 else tag) * side + down


@cached_by_size
def hogwild(columns, biases, parallel):
    """Compile hogwild(users, items, values, p, q, steps, key, first, count, chunks).

    columns : int f, the last two of which are biases where there are some
    biases : 0, 1 or 2, as BIASES of kernels/common/sgd.cuh
    parallel : bool. One thread makes the chunks' updates in order. Several threads make the chunks at the same time,
        without locks: updates of the same vector may be lost, as in Recht et al. 2011.
    Returns a function that updates p, float32 (users, f), and q, float32 (items, f), in place. steps : five float32,
        the learning rate and lambda of the users, of the items, of the users' biases and of the items' biases
    """
    from numba import njit, prange, types

    factors = columns - 2 if biases else columns
    user_bias, item_bias, position = columns - 2, columns - 1, random_position.compiled

    @njit(fastmath=True, nogil=True)
    def updates(users, items, values, p, q, steps, key, begin, end):
        rate, user_reg, item_reg, user_bias_reg, item_bias_reg = steps
        n = np.uint64(len(values))
        user, item, value = (np.empty(_BATCH, np.int32), np.empty(_BATCH, np.int32), np.empty(_BATCH, np.float32))
        for first in range(begin, end, _BATCH):
            count = min(_BATCH, end - first)
            # The samples lie anywhere in memory: fetching many before the first is used overlaps their latencies.
            for t in range(count):
                sample = position(key, np.uint64(first + t), n)
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
        types.void(
            *(types.Array(kind, 1, "C", readonly=True) for kind in (types.int32, types.int32, types.float32)),
            *[types.float32[:, ::1]] * 2,
            types.UniTuple(types.float32, 5),
            types.uint64,
            *[types.int64] * 3,
        ),
        nogil=True,
        parallel=parallel,
    )
    def hogwild(users, items, values, p, q, steps, key, first, count, chunks):
        for c in prange(chunks):
            begin = first + count * c // chunks
            end = first + count * (c + 1) // chunks
            updates(users, items, values, p, q, steps, key, begin, end)

    return takes("int32 nnz", "int32 nnz", "float32 nnz", "float32 users f", "float32 items f", f=columns)(hogwild)


def ordered(columns, biases, parallel):
    """Compile ordered(users, items, values, p, q, steps, offsets, diagonals, rates): native/sgd.cpp, or Numba.

    columns, biases : as of `hogwild`
    parallel : bool, the blocks of a diagonal on all threads; with the same result, bit for bit
    Returns a function that updates p, float32 (users, columns), and q, float32 (items, columns), in place by an epoch
    of the ratings: block after block as of `into_blocks`, whose `offsets` it takes, of one diagonal after another.
    steps : float32 (5,), the learning rate and 1 - rate lambda of each lambda, as of `hogwild`; diagonals : int64
    (side,), in which order they come; rates : None, or of each user and of each item, float32, in units of the
    learning rate
    """
    run = native_ordered(columns, biases, parallel) or numba_ordered(columns, biases, parallel)
    arrays = "int32 nnz", "int32 nnz", "float32 nnz", "float32 users f", "float32 items f"

    @takes(*arrays, "float32 five", "int64 bounds", "int64 side", f=columns, five=5)
    def ordered(users, items, values, p, q, steps, offsets, diagonals, rates=None):
        if len(offsets) != len(diagonals) ** 2 + 1:
            raise ValueError(
                f"ordered: {len(diagonals)} diagonals have {len(diagonals) ** 2} blocks, not {len(offsets) - 1}"
            )
        if rates is not None and [np.shape(of) for of in rates] != [p.shape[:1], q.shape[:1]]:
            raise ValueError(f"ordered: there have to be rates of {len(p)} users and {len(q)} items")
        run(users, items, values, p, q, steps, offsets, diagonals, rates)

    return ordered


@cache
def native_ordered(columns, biases, parallel):
    """As `ordered`, in C++; None where it does not compile here."""
    kinds = "int32* int32* float32* float32* float32* float32* int64* int64* {}int32 int32"
    plain, by_rates = (
        compile.function("sgd.cpp", name, kinds.format(rates), COLUMNS=columns, BIASES=biases)
        for name, rates in (("ordered", ""), ("ordered_by_rates", "float32* float32* "))
    )

    def ordered(users, items, values, p, q, steps, offsets, diagonals, rates=None):
        on = threads.count() if parallel else 1
        run = plain if rates is None else by_rates
        run(users, items, values, p, q, steps, offsets, diagonals, *(rates or ()), len(diagonals), on)

    return plain and ordered


@cached_by_size
def numba_ordered(columns, biases, parallel):
    """As `ordered`, by Numba."""
    from numba import njit, prange

    factors = columns - 2 if biases else columns

    @njit(fastmath=True, nogil=True)
    def block(users, items, values, p, q, steps, user_rates, item_rates, begin, end):
        rate, keep_user, keep_item, keep_user_bias, keep_item_bias = steps
        for t in range(begin, end):
            u, v = p[users[t]], q[items[t]]
            of_user, of_item = user_rates[users[t]], item_rates[items[t]]
            error = -values[t]
            for k in range(columns):
                error += u[k] * v[k]
            user_step, item_step = of_user * rate * error, of_item * rate * error
            kept_user, kept_item = 1 - of_user * (1 - keep_user), 1 - of_item * (1 - keep_item)
            for k in range(factors):
                old = u[k]
                u[k] = kept_user * old - user_step * v[k]
                v[k] = kept_item * v[k] - item_step * old
            if biases == 1:
                bias = columns - 2
                u[bias] = (1 - of_user * (1 - keep_user_bias)) * u[bias] - user_step
                v[bias + 1] = (1 - of_item * (1 - keep_item_bias)) * v[bias + 1] - item_step

    # Not cached on disk: Numba's cache cannot tell apart closures that differ in their compiler flags alone.
    @njit(
        "void(int32[::1], int32[::1], float32[::1], float32[:, ::1], float32[:, ::1], "
        "UniTuple(float32, 5), float32[::1], float32[::1], int64[:])",
        nogil=True,
        parallel=parallel,
    )
    def diagonal(users, items, values, p, q, steps, user_rates, item_rates, offsets):
        for b in prange(len(offsets) - 1):
            block(users, items, values, p, q, steps, user_rates, item_rates, offsets[b], offsets[b + 1])

    def ordered(users, items, values, p, q, steps, offsets, diagonals, rates=None):
        side, steps = len(diagonals), tuple(steps)
        rates = rates or [np.ones(len(factors), np.float32) for factors in (p, q)]
        for first in diagonals * side:
            diagonal(users, items, values, p, q, steps, *rates, offsets[first : first + side + 1])

    return ordered
