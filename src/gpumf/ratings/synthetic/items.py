"""Which items each user of a synthetic data set rates: as many as are wanted, distinct, popular ones more often."""

from itertools import pairwise

import numpy as np

from gpumf._util.counter_rng import splitmix64
from gpumf._util.jit import cached_njit, prange
from gpumf._util.progress import progress
from gpumf.ratings.csr import row_offsets
from gpumf.ratings.synthetic.numbers import DRAWS, RESERVED, exp

MAX_DRAWS = 512
"""Times the number of items: draws of a user before the missing items are taken in turn. In the shape of Netflix the
user of 17,653 of the 17,770 items needs 272 times, the other users of `RECIPES` some ten times."""


def draw_items(spec, streams, user_counts, item_counts):
    """The items of every rating, int32 (ratings,), ascending and distinct within each user."""
    offsets = row_offsets(user_counts)
    items = np.full(spec.ratings, -1, np.int32)
    # A count of a few would scatter too much to keep its minimum by chance; one of thousands does not.
    floor = spec.item_counts[0] if spec.items * spec.item_counts[0] < spec.ratings // 4 else 0
    if floor:
        _reserve(items, spec.items, floor, streams[RESERVED])
    taken = np.add.reduceat(items >= 0, offsets[:-1], dtype=np.int64)
    weights = item_weights(user_counts - taken, item_counts - floor)
    threshold, alias = alias_table(weights)
    # The blocks only let a bar show progress; each user's draws are a stream of their own.
    blocks = np.linspace(0, spec.users, 65).astype(np.int64)
    for start, stop in progress(pairwise(blocks), spec.ratings >= 50_000_000, total=64, desc="drawing items"):
        fill(items, offsets, start, stop, threshold, alias, weights.sum(), streams[DRAWS])
    return items


@cached_njit()
def _reserve(items, n_items, copies, stream):
    """Give every item `copies` of the rating slots, spread evenly over all, so that users get their share.

    The copies of one item lie about ratings / copies slots apart, more than the longest row: distinct users.
    """
    n = n_items * copies
    width = len(items) // n
    order = np.argsort(np.array([splitmix64(stream + np.uint64(i)) for i in range(n_items)]))
    for k in range(n):
        slot = k * width + np.int64(splitmix64(stream + np.uint64(n_items + k)) % np.uint64(width))
        items[slot] = order[k % n_items]


@cached_njit()
def _groups(counts):
    """Group counts that differ by at most 3 %: (mean count, size) of each group, ascending, float64."""
    ordered = np.sort(counts)
    means, sizes = np.empty(len(counts)), np.empty(len(counts))
    n, start = 0, 0
    while start < len(ordered):
        stop, total = start, 0
        while stop < len(ordered) and ordered[stop] <= 1.03 * ordered[start]:
            total += ordered[stop]
            stop += 1
        means[n], sizes[n] = total / (stop - start), stop - start
        start = stop
        n += 1
    return means[:n], sizes[:n]


@cached_njit()
def _match(rates, weights, targets, sizes):
    """Set each weight w so that sum_j sizes_j (1 - exp(-rates_j w)) is its target, by Newton's method."""
    limit = 0.0
    for size in sizes:
        limit += size
    for i in range(len(weights)):
        target = min(targets[i], limit - 0.25)  # a full row would need an infinite weight
        w = weights[i]
        for _ in range(12):
            value, slope = -target, 0.0
            for j in range(len(rates)):
                missed = sizes[j] * exp(-min(rates[j] * w, 60.0))
                value += sizes[j] - missed
                slope += rates[j] * missed
            if slope == 0:  # of rates that are all 0
                break
            w = max(w - value / slope, 0.0)
        weights[i] = w


@cached_njit()
def item_weights(user_counts, item_counts):
    """Integer weights of the items, int64 (items,), for which drawing distinct items meets both kinds of counts.

    A user who draws by weight until d items are distinct has met item i with probability 1 - exp(-p_i t), where
    the number of draws t follows from d. The p of groups of items and the t of groups of users are a fixed
    point: each t makes its user's counts right, given p, and each p its item's, given t.
    """
    d, users = _groups(user_counts)
    c, items = _groups(item_counts)
    if len(c) == 1:
        return np.full(len(item_counts), 2**31 // len(item_counts))
    p, t = c / user_counts.sum(), d.copy()
    for _ in range(40):
        _match(p, t, d, items)
        _match(t, p, c, users)
    weights = np.empty(len(item_counts))
    total = 0.0
    for i in range(len(item_counts)):
        right = min(max(np.searchsorted(c, item_counts[i]), 1), len(c) - 1)
        share = (item_counts[i] - c[right - 1]) / (c[right] - c[right - 1])
        weights[i] = max(p[right - 1] + share * (p[right] - p[right - 1]), 0.0)
        total += weights[i]
    if total == 0:  # nobody has a rating to draw
        return np.full(len(item_counts), 2**31 // len(item_counts))
    return np.floor(weights * (2.0**31 / total)).astype(np.int64) + 1


@cached_njit()
def alias_table(weights):
    """Walker's alias table in integers: cell i yields i below threshold[i] of sum(weights), else alias[i]."""
    n, total = len(weights), weights.sum()
    threshold = weights * n
    alias = np.arange(n)
    queue = np.argsort(threshold, kind="mergesort")
    large = n - 1
    small = 0
    # Cells are served from the poorest; a rich cell that becomes poor is served at once.
    i = queue[small]
    while small < large:
        j = queue[large]
        if threshold[i] >= total:
            break
        alias[i] = j
        threshold[j] -= total - threshold[i]
        if threshold[j] < total:
            i = j
            large -= 1
        else:
            small += 1
            i = queue[small]
    return threshold, alias


@cached_njit(parallel=True)
def fill(items, offsets, start, stop, threshold, alias, total, stream):
    """Fill the free slots of users start..stop-1: draw items by weight, skip those that the user has.

    Where a user is to have nearly all items, some of them next to never drawn, the rest are taken in turn.
    """
    n = np.uint64(len(alias))
    most = MAX_DRAWS * len(alias)
    chunks = 16
    for chunk in prange(chunks):
        seen = np.full(len(alias), -1, np.int64)
        for user in range(start + (stop - start) * chunk // chunks, start + (stop - start) * (chunk + 1) // chunks):
            row = items[offsets[user] : offsets[user + 1]]
            for item in row:
                if item >= 0:
                    seen[item] = user
            key = splitmix64(stream + np.uint64(user))
            draw = 0
            for k in range(len(row)):
                item = np.int64(row[k])
                while item < 0:
                    draw += 1
                    h = splitmix64(key + np.uint64(draw))
                    cell = np.int64(((h >> np.uint64(32)) * n) >> np.uint64(32))
                    inside = ((h & np.uint64(0xFFFFFFFF)) * np.uint64(total)) >> np.uint64(32)
                    item = cell if np.int64(inside) < threshold[cell] else alias[cell]
                    if draw > most:
                        item = draw % len(alias)
                    if seen[item] == user:
                        item = -1
                seen[item] = user
                row[k] = item
            row.sort()
