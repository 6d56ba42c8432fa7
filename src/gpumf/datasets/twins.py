"""Synthetic twins: sets with the published shape of a real one, the same bit for bit on every machine.

A twin stands in where the real set may not be shipped or cannot be had any more. It has the published number
of users, items and ratings, heavy-tailed counts per user and per item with the published extremes and means,
and ratings that a factorization can learn as well as, but not better than, the publications report.

Everything is a pure function of (seed, position) through `splitmix64`, computed by integer arithmetic and by
float64 additions, multiplications, divisions and square roots in a fixed order. IEEE 754 fixes each of these to
the last bit; a mathematical library does not fix its `exp` or `log`, a vectorised sum not its order. Hence the
own `_exp`, the sequential sums, the normal deviates made of uniform ones, and no `fastmath`.
"""

import hashlib
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from tqdm import tqdm

from gpumf.compiled import cached_njit, prange
from gpumf.datasets.ratings import DataError, Ratings, row_offsets
from gpumf.hashing import random_subset, splitmix64


@dataclass(frozen=True)
class Twin:
    """The recipe of a twin.

    users, items, ratings : the shape of the rating matrix and its exact number of ratings
    user_counts, item_counts : (fewest, most) ratings of one user, of one item
    scale, step : (lowest, highest) rating, and the distance between two neighbouring ratings; None where ratings are
        neither clipped nor rounded (`gpu_twins`)
    mean : of the ratings before they are rounded and clipped to the scale, which pulls it to the scale's middle
    user_bias, item_bias, signal, noise : standard deviations, in ratings, of the four parts of a rating
    test : ratings in the official test set, counted in `ratings`
    decay : each factor's standard deviation over that of the one before it, in the low-rank part
    """

    users: int
    items: int
    ratings: int
    user_counts: tuple[int, int]
    item_counts: tuple[int, int]
    scale: tuple[float, float] | None
    step: float | None
    mean: float
    user_bias: float
    item_bias: float
    signal: float
    noise: float
    test: int = 0
    decay: float = 0.95


# The deviations make the ratings spread as the real ones do. The noise is calibrated: ALS-WR (uniform start, no
# biases, seed 0, random 80/20 split) crosses the published error after a few epochs and ends 1 to 2.3 % below it.
#   twin     f   lambda  threshold    crossed  best
#   douban   16  0.05    MAE 0.5732   epoch 7  0.562
#   jester   16  0.07    MAE 0.71     epoch 5  0.695
#   ml-100k  16  0.13    RMSE 0.9378  epoch 4  0.929
#   ml-1m    16  0.07    RMSE 0.8991  epoch 5  0.882
#   ml-10m   16  0.05    RMSE 0.8709  epoch 5  0.852
#   ml-20m   16  0.05    none         -        0.846
#   netflix  100 0.05    RMSE 0.92    epoch 4  0.913 (official test set)
# Yahoo! Music was calibrated (f = 100, lambda 1.4, RMSE 22) at a 64th of its users, items and ratings. Its largest
# counts and its fewest ratings of an item are ours.
TWINS = {
    "douban": Twin(129_490, 58_541, 16_830_839, (1, 6_328), (1, 49_504), (1, 5), 1, 3.83, 0.38, 0.38, 0.42, 0.61),
    "jester": Twin(73_421, 100, 4_136_360, (15, 100), (18_505, 73_413), (1, 5), 1, 3.19, 0.55, 0.3, 0.6, 0.745),
    "ml-100k": Twin(943, 1_682, 100_000, (20, 737), (1, 583), (1, 5), 1, 3.58, 0.42, 0.52, 0.55, 0.86, decay=0.75),
    "ml-1m": Twin(6_040, 3_706, 1_000_209, (20, 2_314), (1, 3_428), (1, 5), 1, 3.62, 0.42, 0.5, 0.5, 0.835),
    "ml-10m": Twin(69_878, 10_677, 10_000_054, (20, 7_359), (1, 34_864), (0.5, 5), 0.5, 3.57, 0.42, 0.5, 0.45, 0.86),
    "ml-20m": Twin(138_493, 26_744, 20_000_263, (20, 9_254), (1, 67_310), (0.5, 5), 0.5, 3.59, 0.42, 0.5, 0.45, 0.85),
    "netflix": Twin(
        480_189, 17_770, 100_480_507, (1, 17_653), (3, 232_944), (1, 5), 1, 3.66, 0.42, 0.5, 0.5, 0.935, 1_408_395
    ),
    "yahoomusic": Twin(
        1_000_990, 624_961, 256_804_235, (20, 100_000), (20, 200_000), (0, 100), 1, 50, 20, 12, 15, 22.3, 4_003_960
    ),
}

RANK = 14
"""Factors of a twin's low-rank part: with the two biases as many as the f=16 that the thesis trains."""
USER_COUNTS, ITEM_COUNTS, RESERVED, DRAWS, USERS, ITEMS, NOISE, TEST = range(8)
"""The streams of random numbers that a twin is made of."""
MOST_DRAWS = 512
"""Times the number of items: draws of a user before the missing items are taken in turn. The netflix twin's user of
17,653 of the 17,770 items needs 272 times, the other users of `TWINS` some ten times."""


def twin(name, seed=0):
    """Generate the twin of a published set.

    Parameters
    ----------
    name : str, one of `TWINS`
    seed : int, 0 or more; another seed gives another set of the same shape

    Returns
    -------
    Ratings, ordered by user and then item, named "<name>-twin", sha256 that of users, items and values
    (little-endian int32, int32, float32, one array after another); `official_split()` works where the real set
    has an official test set.

    Raises
    ------
    DataError : unknown name; "hugewiki", whose 3.1 billion ratings are generated on a GPU (by `gpu_twins`)
    """
    if name == "hugewiki":
        raise DataError(
            "the twin of hugewiki has 3,101,144,313 ratings (37 GB): too many to generate on a CPU; "
            "gpumf.datasets.gpu_twins makes it on a GPU"
        )
    if name not in TWINS:
        raise DataError(f"there is no twin of {name!r}; there are {', '.join(TWINS)}")
    return generate(TWINS[name], seed, f"{name}-twin")


def generate(spec, seed=0, name="twin"):
    """Generate the ratings that a `Twin` describes; as `twin`, for a recipe of one's own.

    The counts of the users are the recipe's, extremes included. Those of the items are approached, as far as the
    distinct items of the users leave room: a short or very full matrix has other extremes.

    Raises
    ------
    DataError : a recipe that no set can have
    """
    check(spec)
    if spec.scale is None or not spec.scale[0] < spec.scale[1] or not spec.step or not spec.step > 0:
        raise DataError(f"scale {spec.scale} and step {spec.step}: a scale (lowest, highest) and a step are needed")
    streams = streams_of(seed)
    user_counts = draw_counts(spec.users, spec.ratings, *spec.user_counts, streams[USER_COUNTS])
    item_counts = draw_counts(spec.items, spec.ratings, *spec.item_counts, streams[ITEM_COUNTS])
    users = np.repeat(np.arange(spec.users, dtype=np.int32), user_counts)
    items = _draw_items(spec, streams, user_counts, item_counts)
    values = _rate(spec, streams, users, items, user_counts)
    digest = hashlib.sha256()
    for array in (users, items, values):
        digest.update(array.astype(array.dtype.newbyteorder("<"), copy=False))
    return Ratings(
        users,
        items,
        values,
        spec.users,
        spec.items,
        scale=spec.scale,
        name=name,
        sha256=digest.hexdigest(),
        test_mask=random_subset(spec.ratings, spec.test, streams[TEST]) if spec.test else None,
    )


def check(spec):
    """Refuse a recipe whose counts no set of distinct pairs can have; DataError says which of them.

    n counts from `fewest` to `most`, both of which occur, sum up to anything from (n - 1) fewest + most to
    fewest + (n - 1) most.
    """
    sides = ("user", spec.users, spec.user_counts, spec.items), ("item", spec.items, spec.item_counts, spec.users)
    for side, n, (fewest, most), others in sides:
        if not 1 <= fewest <= most <= others:
            raise DataError(
                f"{side}_counts {fewest} to {most}: each of them has at least 1 rating, and at most {others}, "
                f"as many as there are {'items' if side == 'user' else 'users'}"
            )
        least, greatest = (fewest, most) if n == 1 else ((n - 1) * fewest + most, fewest + (n - 1) * most)
        if (n == 1 and fewest != most) or not least <= spec.ratings <= greatest:
            raise DataError(
                f"{n} {side}s with {fewest} to {most} ratings, both of which occur, have {least} to {greatest} "
                f"ratings and not {spec.ratings}; change {side}s, {side}_counts or ratings"
            )
    if not 0 <= spec.test < spec.ratings:
        raise DataError(f"a test set of {spec.test} of {spec.ratings} ratings: it takes some, and leaves some")


def streams_of(seed):
    """Where each stream of random numbers starts, uint64 (8,)."""
    return splitmix64(splitmix64(np.uint64(seed)) + np.arange(8, dtype=np.uint64))


# --- Numbers ------------------------------------------------------------------------------------------------


@cached_njit()
def _exp(x):
    """e**x, relative error below 1e-11 for |x| < 30: a power series at x / 1024, squared ten times."""
    y = x / 1024
    e = 1 + y * (1 + y / 2 * (1 + y / 3 * (1 + y / 4 * (1 + y / 5 * (1 + y / 6)))))
    for _ in range(10):
        e *= e
    return e


@cached_njit()
def _normal(stream, k):
    """The k-th normal deviate of a stream: twelve uniform 16-bit integers, whose sum has deviation 2**16.

    The sum is within 0.2 % of a normal distribution over three deviations, ends at six, and is exact.
    """
    total = 0
    for j in range(3):
        h = splitmix64(stream + np.uint64(3 * k + j))
        for shift in range(0, 64, 16):
            total += np.int64((h >> np.uint64(shift)) & np.uint64(0xFFFF))
    return (total - 393_210) / 65_536


@cached_njit(parallel=True)
def _normals(stream, rows, columns):
    """Independent normal deviates, float64 (rows, columns)."""
    out = np.empty((rows, columns))
    for r in prange(rows):
        for c in range(columns):
            out[r, c] = _normal(stream, r * columns + c)
    return out


# --- How many ratings each user and item has ----------------------------------------------------------------


def draw_counts(n, total, lowest, highest, stream):
    """n integers that sum to `total`, extremes exactly `lowest` and `highest`: a skewed log-normal distribution."""
    level = _levels(n, stream)
    sizes = np.bincount(level)
    used = np.flatnonzero(sizes)
    if len(used) == 1:  # a few that are equal by chance
        return _settled(np.full(n, lowest), total, lowest, highest)
    count_at = np.zeros(len(sizes), np.int64)
    count_at[used] = _skewed(used, sizes[used], total, lowest, highest)
    return _settled(count_at[level], total, lowest, highest)


@cached_njit(parallel=True)
def _levels(n, stream):
    """n normal deviates in units of 2**-16 and from 0, int32: there are few different ones, however large n is."""
    level = np.empty(n, np.int32)
    for i in prange(n):
        level[i] = np.int32(_normal(stream, i) * 65_536) + 393_210
    return level


@cached_njit()
def _skewed(levels, sizes, total, lowest, highest):
    """A count for each level, ascending; sizes[i] counts are to be levels[i]'s, and all to sum to about `total`.

    ln count = middle + half * s - skew * (1 - s**2), where s is the level mapped linearly so that the extreme ones
    become -1 and 1. `skew` moves the centre without moving the ends, and is set by the total.
    """
    s = (levels - 393_210) / 65_536
    smallest, largest = s[0], s[-1]
    s = (2 * s - smallest - largest) / (largest - smallest)

    width = 0.0  # ln(highest / lowest), by bisection
    step = 32.0
    for _ in range(60):
        if lowest * _exp(width + step) <= highest:
            width += step
        step /= 2
    half = width / 2
    middle = np.sqrt(float(lowest) * highest)

    counts = np.empty(len(s), np.int64)
    low, high = -half, half
    for _ in range(60):
        skew = (low + high) / 2
        total_now = 0
        for i in range(len(s)):
            count = int(np.floor(middle * _exp(half * s[i] - skew * (1 - s[i] * s[i])) + 0.5))
            counts[i] = min(max(count, lowest), highest)
            total_now += sizes[i] * counts[i]
        if total_now > total:
            low = skew
        else:
            high = skew
    return counts


@cached_njit()
def _settled(counts, total, lowest, highest):
    """Rounding leaves a few too many or too few: one each from or to those between the extremes.

    Where these do not suffice, as many as are needed, from or to all but one count at either extreme.
    """
    least, most = counts.argmin(), counts.argmax()
    if least == most:  # all are equal
        most = len(counts) - 1
    counts[least], counts[most] = lowest, highest
    missing = total - counts.sum()
    at_extremes = False
    while missing != 0:
        before = missing
        end = highest if missing > 0 else lowest
        free = counts != end
        if at_extremes:
            free[least] = free[most] = False
        else:
            free &= (lowest < counts) & (counts < highest)
        share = max(abs(missing) // max(free.sum(), 1), 1)
        for i in range(len(counts)):
            if free[i] and missing != 0:
                change = min(share, abs(end - counts[i])) * (1 if missing > 0 else -1)
                counts[i] += change
                missing -= change
        at_extremes = missing == before
    return counts


# --- Which items each user rates ----------------------------------------------------------------------------


def _draw_items(spec, streams, user_counts, item_counts):
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
    for start, stop in tqdm(pairwise(blocks), total=64, desc="drawing items", disable=spec.ratings < 50_000_000):
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
                missed = sizes[j] * _exp(-min(rates[j] * w, 60.0))
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
    most = MOST_DRAWS * len(alias)
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


# --- How they rate them -------------------------------------------------------------------------------------


def _rate(spec, streams, users, items, user_counts):
    """The ratings, float32: mean + biases + low-rank part + noise, rounded and clipped to the scale."""
    user_traits = _normals(streams[USERS], spec.users, RANK + 1)
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
    traits = _normals(stream, spec.items, RANK + 1)
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
        value = mean + p[rank] + q[rank] + noise * _normal(stream, k)
        for f in range(rank):
            value += p[f] * q[f]
        value = step * np.floor(value / step + 0.5)
        values[k] = min(max(value, lowest), highest)
    return values
