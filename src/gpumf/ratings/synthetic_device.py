"""Synthetic data sets of billions of ratings, made on a device by kernels/ratings/synthetic.cu, in both orders.

As in `gpumf.ratings.synthetic` everything is a pure function of (seed, position) through `splitmix64`, with the same
counts, traits and parts of a rating. What the size demands is simpler:

- A user draws items by weight until enough are distinct, as there, but none is reserved: an item's count is its
  recipe's but for chance, off by about sqrt(c) at c ratings, the extremes too. (In 97,817 users' 6,056,923 ratings of
  2,486 items the mean squared error is 1.00 of the variance of such draws, and the most popular item is 0.4 % off.)
- The users' traits are not centred over their ratings; there are millions of users to cancel them out.
- A rating's noise belongs to its user and item rather than to its position, so that the transpose makes it again.
- Of each run of ratings / test ratings, by user and then item, one is in the test set. A user with three ratings or
  more has then a training rating.
- Ratings are not rounded.
"""

import hashlib
from dataclasses import dataclass

import numpy as np

from gpumf import backends
from gpumf._util.counter_rng import splitmix64
from gpumf.backends import sources
from gpumf.ratings.checks import DataError
from gpumf.ratings.csr import CompressedRows, row_offsets
from gpumf.ratings.device import DeviceRatings
from gpumf.ratings.presorted import presort
from gpumf.ratings.synthetic.counts import draw_counts
from gpumf.ratings.synthetic.items import MAX_DRAWS, alias_table, item_weights
from gpumf.ratings.synthetic.numbers import DRAWS, ITEM_COUNTS, ITEMS, NOISE, TEST, USER_COUNTS, USERS, streams_of
from gpumf.ratings.synthetic.recipes import Recipe, check
from gpumf.ratings.synthetic.values import RANK, draw_item_traits

# Published of Hugewiki are its users, items and ratings, the share of its test set (10 %), and the RMSE 0.52 that ALS
# with 100 factors and lambda 0.05 reaches. The extremes of its counts and the spread of its ratings are ours; noise
# and signal were calibrated with that model at a 512th of the users and ratings and a 16th of the items, where it
# crosses 0.52 in epoch 4 and ends 1.6 % below.
_UNROUNDED: dict = {"scale": None, "step": None}
_VALUES: dict = {"mean": 2.0, "user_bias": 0.3, "item_bias": 0.3, "signal": 0.4, "noise": 0.44}
RECIPES = {
    "hugewiki-synthetic": Recipe(
        50_082_603, 39_780, 3_101_144_313, (5, 8_000), (500, 10_000_000), test=310_114_431, **_UNROUNDED, **_VALUES
    ),
    # The same in small, for a look at how it works.
    "hugewiki-small-synthetic": Recipe(400, 80, 8_000, (5, 60), (20, 300), test=800, **_UNROUNDED, **_VALUES),
}

sources.declare(
    "ratings/synthetic.cu",
    groups={"append_users": (32, {"next"}), "draw_ratings": (32, {"taken", "test_items", "train_items"})},
    RANK=[RANK],
)

_BLOCK = 256  # CUDA threads
_WARPS = 8448
"""As many as an H100 or H200 holds at a time."""
_BITS_BYTES = 4 << 30
"""Of the matrix in which a chunk's users mark their items: large enough that few launches are needed."""


@dataclass(frozen=True, eq=False)
class DeviceSplit:
    """A training set and a test set on a device, without a copy on the host.

    train : DeviceRatings, with both orders made
    test : DeviceRatings, ordered by user and then item
    nnz : ratings in both sets
    name, sha256 : what results call it; sha256 is over the offsets of both orders and a checksum of each set's
        ratings (little-endian 64-bit integers)
    """

    train: DeviceRatings
    test: DeviceRatings
    n_users: int
    n_items: int
    nnz: int
    name: str
    sha256: str


def synthetic_ratings(name, seed=0, device="cuda"):
    """Generate a synthetic data set, one of `RECIPES`, on a device: 'cuda', or 'emulator' for a small one.

    Raises
    ------
    DataError : unknown name
    gpumf.backends.DeviceError : where there is no such device
    """
    if name not in RECIPES:
        raise DataError(f"there is no {name!r} to make on a GPU; there are {', '.join(RECIPES)}")
    return generate(RECIPES[name], seed, name, device)


def generate(spec, seed=0, name="synthetic", device="cuda", chunk=None):
    """Generate the ratings that a `Recipe` describes; scale and step are not used.

    spec : Recipe with a test set, and at least 3 ratings a user
    chunk : users transposed at a time; by default as many as 4 GiB of bits hold

    Returns
    -------
    DeviceSplit: the same bits for a seed, whatever the device and the chunk

    Raises
    ------
    DataError : a recipe that does not fit
    """
    check(spec)
    if not spec.test or spec.user_counts[0] < 3:
        raise DataError(f"a test set and at least 3 ratings a user are needed, not {spec}")
    device = backends.device(device)
    streams = streams_of(seed)
    user_counts = draw_counts(spec.users, spec.ratings, *spec.user_counts, streams[USER_COUNTS])
    item_counts = draw_counts(spec.items, spec.ratings, *spec.item_counts, streams[ITEM_COUNTS])
    weights = item_weights(user_counts, item_counts)
    thresholds, aliases = alias_table(weights)
    total = weights.sum()
    offsets = row_offsets(user_counts)
    every = spec.ratings // spec.test
    user_offsets = offsets - _tests_before(offsets, spec.test, every, streams[TEST])

    def kernel(entry):
        return device.kernel("ratings/synthetic.cu", entry, RANK=RANK)

    user_traits = device.empty(spec.users * (RANK + 1), np.float32)
    kernel("draw_traits")(
        *_grid(user_traits.size), traits=user_traits, n_users=spec.users, key=streams[USERS], bias=spec.user_bias
    )
    item_traits = device.array(draw_item_traits(spec, streams[ITEMS], item_counts).astype(np.float32))
    parts = {
        "user_traits": user_traits,
        "item_traits": item_traits,
        "mean": spec.mean,
        "noise": spec.noise,
        "noise_key": streams[NOISE],
    }

    n_train = int(user_offsets[-1])
    by_user, by_item = ((device.empty(n_train, np.int32), device.empty(n_train, np.float32)) for _ in range(2))
    test = [device.empty(spec.test, dtype) for dtype in (np.int32, np.int32, np.float32)]
    counted, checks = device.zeros(spec.items, np.int32), device.zeros(3, np.uint64)
    warps, words = min(spec.users, _WARPS), -(-spec.items // 32)
    kernel("draw_ratings")(
        *_grid(32 * warps),
        **parts,
        offsets=device.array(offsets),
        n_users=spec.users,
        n_warps=warps,
        words=words,
        taken=device.zeros((warps, words), np.uint32),
        thresholds=device.array(np.minimum(thresholds, total).astype(np.uint32)),
        aliases=device.array(aliases.astype(np.int32)),
        n_items=spec.items,
        total=total,
        max_draws=MAX_DRAWS * spec.items,
        draws=streams[DRAWS],
        n_tests=spec.test,
        every=every,
        test_key=streams[TEST],
        train_items=by_user[0],
        train_values=by_user[1],
        test_users=test[0],
        test_items=test[1],
        test_values=test[2],
        item_counts=counted,
        checks=checks,
    )

    item_offsets = row_offsets(device.to_numpy(counted))
    chunk = chunk or max(_BITS_BYTES // (4 * spec.items), 1) * 32
    words = -(-min(chunk, spec.users) // 32)
    bits = device.zeros((spec.items, words), np.uint32)
    following, starts = device.array(item_offsets[:-1]), device.array(user_offsets)
    for first in range(0, spec.users, chunk):
        n_users = min(chunk, spec.users - first)
        chosen = {"first_user": first, "words": words, "bits": bits}
        kernel("mark_items")(*_grid(32 * n_users), **chosen, offsets=starts, items=by_user[0], n_users=n_users)
        kernel("append_users")(
            *_grid(32 * spec.items),
            **chosen,
            **parts,
            n_items=spec.items,
            next=following,
            users=by_item[0],
            user_values=by_item[1],
            checks=checks,
        )

    train_check, test_check, transposed_check = device.to_numpy(checks)
    if train_check != transposed_check:
        raise DataError(f"{name}: its two orders hold other ratings")
    digest = hashlib.sha256()
    for array in (user_offsets, item_offsets, np.array([train_check, test_check])):
        digest.update(array.astype(array.dtype.newbyteorder("<"), copy=False))
    orders = CompressedRows(user_offsets, *by_user), CompressedRows(item_offsets, *by_item)
    return DeviceSplit(
        presort(*orders, device=device, name=name),
        DeviceRatings(*test, spec.users, spec.items, name=name, device=device),
        spec.users,
        spec.items,
        spec.ratings,
        name,
        digest.hexdigest(),
    )


def _grid(threads):
    """(blocks, threads a block) that have at least so many threads."""
    return -(-threads // _BLOCK), _BLOCK


def _tests_before(positions, n_tests, every, key):
    """How many of the ratings before each position are in the test set, int64; as in kernels/ratings/synthetic.cu."""
    run = positions // every
    chosen = splitmix64(run.astype(np.uint64) + key) % np.uint64(every)
    return np.where(run < n_tests, run + (chosen.astype(np.int64) < positions % every), n_tests)
