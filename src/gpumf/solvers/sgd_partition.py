"""Who gets which ratings: partitions of the rating matrix, and the orders of its ratings that go with them.

Blocks and tags follow newgpusgd, section 4.1; tiles are those of kernels/sgd/fast.cu. What has an entry for each
rating is made where the ratings are, by arrays of `ratings.xp`; offsets and what is short are on the host.
"""

from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np

from gpumf._util import threads
from gpumf._util.counter_rng import positional_hash, splitmix64
from gpumf._util.jit import cached_njit
from gpumf.backends.cpu import sgd as cpu_sgd
from gpumf.ratings.csr import row_offsets, sorted_by

SOURCE = "ratings/segments.cu"
_CHUNK = 256  # users of a block, CHUNK of the source


@dataclass(frozen=True)
class Blocks:
    """The ratings by tag and block: blocks of the same tag share neither users nor items.

    order : int64 (nnz,), positions of the ratings, tag after tag, in each block after block
    offsets : int64 (l * l + 1,), where the blocks begin in that order; block b of tag t is number t * l + b
    """

    order: np.ndarray
    offsets: np.ndarray

    @property
    def tags(self):
        """Where the tags begin, int64 (l + 1,)."""
        side = round(np.sqrt(len(self.offsets) - 1))
        return self.offsets[::side]


def parts_of(positions, side, n):
    """Which of `side` parts of 0..n-1 positions are in, int32; parts differ by one position at most.

    With n >= side no part is empty. Rounding the length of a part up instead would leave parts at the end without a
    position: for n = 1025 and 1024 parts half of them.
    """
    return (positions.astype(np.int64) * side // n).astype(np.int32)


def diagonal_blocks(ratings, side, height, width):
    """side x side blocks, cut evenly from height users by width items; block (a, b) has the tag (b - a) mod side.

    `height` and `width` cover all users and items: newgpusgd takes m and n, gpusgd the larger one of both twice, so
    that its blocks are square and some have no ratings.

    Returns Blocks; in each block the ratings are in the order given
    """
    across, down = parts_of(ratings.items, side, width), parts_of(ratings.users, side, height)
    keys = (across - down) % np.int32(side) * np.int32(side) + down
    return Blocks(*ratings.sorted_by(keys, side * side))


def shuffled_blocks(train, side, seed, values=None):
    """(users, items, values, offsets) of side x side blocks by diagonal, those of each shuffled, on all threads.

    values : what goes with the ratings in the place of their values, (nnz,), as their positions
    """
    down, across = (parts_of(np.arange(n), side, n) for n in (train.n_users, train.n_items))
    values = train.values if values is None else values
    slices = min(threads.count(), max(train.nnz // side**2, 1))  # a counter a slice and block, no more than ratings
    return cpu_sgd.into_blocks(
        train.users, train.items, values, down, across, side, splitmix64(np.uint64(seed)), slices
    )


def conflict_free_groups(ratings, blocks, edge):
    """The ratings of each block by tag: groups no two ratings of which share a row or a column.

    A rating's tag is its diagonal, (column - row) mod edge, where no block has more rows or columns than `edge`, so
    that a group has one rating of a row at most. Only tags that occur make groups. Where ratings name the same cell
    the second one of each is in a group behind, and so on.

    Returns (order, groups, of_blocks): int64 (nnz,) positions of the ratings, block after block as in `blocks`, in
        each group after group; int64 (n_groups + 1,), where the groups begin in that order; int32 (n_blocks + 1,),
        the groups of each block
    """
    xp, n_blocks = ratings.xp, len(blocks.offsets) - 1
    cells = ratings.users.astype(np.int64) * ratings.n_items + ratings.items
    by_cell = ratings.order(cells, ratings.n_users * ratings.n_items)
    number, repeat = (xp.empty(ratings.nnz, np.int64) for _ in range(2))  # of its block; of its cell, from 0
    number[blocks.order] = _part_of(xp.asarray(blocks.offsets), xp)
    cuts = _cuts(cells[by_cell], xp)
    repeat[by_cell] = xp.arange(ratings.nnz) - cuts[_part_of(cuts, xp)]
    most = int(repeat.max()) + 1
    keys = (number * edge + (ratings.items - ratings.users) % np.int32(edge)) * most + repeat
    order = ratings.order(keys, n_blocks * edge * most)
    groups = _cuts(keys[order], xp)
    return order, groups, xp.searchsorted(groups, xp.asarray(blocks.offsets)).astype(np.int32)


def _cuts(keys, xp):
    """Where each of the keys that occur begins among sorted ones, and the length of these."""
    begins = xp.ones(len(keys) + 1, bool)
    begins[1:-1] = keys[1:] != keys[:-1]
    return xp.flatnonzero(begins)


def _part_of(offsets, xp):
    """In which of the parts that begin at ascending offsets each position is, int64 (offsets[-1],)."""
    return xp.searchsorted(offsets, xp.arange(int(offsets[-1])), side="right") - 1


def balanced_tiles(counts, n_tiles, most):
    """Deal items to tiles, the most popular first, each to the tile with the fewest ratings that has room.

    counts : int64 (n_items,), ratings of each item
    n_tiles, most : tiles, and items that a tile has room for; n_tiles * most >= n_items
    Returns int32 (n_items,), the tile of each item
    """
    tile_of, room = np.empty(len(counts), np.int32), [most] * n_tiles
    heap = [(0, tile) for tile in range(n_tiles)]
    heapify(heap)
    for item in np.argsort(-counts, kind="stable"):
        ratings, tile = heappop(heap)
        tile_of[item] = tile
        room[tile] -= 1
        if room[tile]:
            heappush(heap, (ratings + int(counts[item]), tile))
    return tile_of


def waves(ratings, workers, columns, seed):
    """The ratings by worker and wave, as kernels/sgd/cumf_sgd.cu takes them in its wavefront update.

    A worker has a part of the users, and takes the parts of the items, the columns of blocks, in a random order.

    Returns (order, offsets, sequence): int64 (nnz,) positions of the ratings; int64 (workers * columns + 1,), where
        the waves begin in that order, wave v of worker w being number w * columns + v; int32 (workers, columns), the
        column of blocks of each wave
    """
    hashes = positional_hash(workers * columns, seed).reshape(workers, columns)
    sequence = np.argsort(hashes, axis=1).astype(np.int32)
    wave_of = np.empty_like(sequence)
    np.put_along_axis(wave_of, sequence, np.arange(columns, dtype=np.int32)[None], axis=1)
    worker = parts_of(ratings.users, workers, ratings.n_users)
    wave = ratings.xp.asarray(wave_of)[worker, parts_of(ratings.items, columns, ratings.n_items)]
    return *ratings.sorted_by(worker * np.int32(columns) + wave, workers * columns), sequence


@dataclass(frozen=True)
class Tiles:
    """The ratings as kernels/sgd/fast.cu takes them: by part (of the users), tile (of the items), and user.

    order : int64 (nnz,), positions of the ratings
    users, rows, values : (nnz,), of the ratings in this order: int32, int32 the row of its tile, float32
    segments : int64, where segments begin in the order, and its length: whole runs of a user within a tile
    tile_segments : int32 (parts * tiles + 1,), the segments of each part and tile
    items : int32 (n_items,), tile after tile
    tile_rows : int32 (tiles + 1,), the items of each tile in `items`
    parts : int64 (parts + 1,), where the parts begin in the order
    """

    order: np.ndarray
    users: np.ndarray
    rows: np.ndarray
    values: np.ndarray
    segments: np.ndarray
    tile_segments: np.ndarray
    items: np.ndarray
    tile_rows: np.ndarray
    parts: np.ndarray


def tiled(ratings, n_tiles, most, n_parts, longest, seed):
    """Deal items to tiles and users to parts, all with about as many ratings, and order the ratings by both.

    ratings : Ratings
    n_tiles, most : as of `balanced_tiles`
    n_parts : int, of the users, who are shuffled
    longest : int, ratings of a segment, unless it is a single run
    seed : int
    """
    tile_of = balanced_tiles(ratings.item_counts, n_tiles, most)
    items, tile_rows = sorted_by(tile_of, n_tiles)
    row_of = np.empty(ratings.n_items, np.int32)
    row_of[items] = np.arange(ratings.n_items) - tile_rows[tile_of[items]]
    there = ratings.device.array if ratings.device else np.asarray

    rank, part_of = _dealt(ratings, n_parts, seed)
    order = ratings.order(ratings.take(rank, ratings.users), ratings.n_users)
    by_tile, offsets = ratings.sorted_by(
        _keys_of(ratings, order, part_of, there(tile_of), n_tiles), n_parts * n_tiles
    )
    order = ratings.take(order, by_tile)
    users, of_items, values = ratings.in_order(order)
    segments, firsts = _segments(ratings, users, offsets, longest)
    rows, tile_rows = ratings.take(there(row_of), of_items), tile_rows.astype(np.int32)
    of_ratings = order, users, rows, values, segments
    return Tiles(*of_ratings, firsts, items.astype(np.int32), tile_rows, offsets[::n_tiles])


def _dealt(ratings, n_parts, seed):
    """(rank, part): of each user, int32, the place in a random order, and the part that this place is in."""
    n, order = ratings.n_users, ratings.random_order(ratings.n_users, seed)
    if ratings.device is None:
        rank, part_of = np.empty(n, np.int32), np.empty(n, np.int32)
        counts = ratings.user_counts[order]
        rank[order], part_of[order] = np.arange(n), (np.cumsum(counts) - counts) * n_parts // ratings.nnz
        return rank, part_of
    device, chunks = ratings.device, -(-n // _CHUNK)
    given = {"order": order, "n": n, "counts": device.array(ratings.user_counts)}
    sums = device.zeros(chunks, np.uint64)
    device.kernel(SOURCE, "sum_counts")(chunks, _CHUNK, **given, sums=sums)
    given["before"] = device.array(row_offsets(device.to_numpy(sums))[:-1])
    rank, part_of = (device.empty(n, np.int32) for _ in range(2))
    dealt = {"n_parts": n_parts, "nnz": ratings.nnz, "rank": rank, "part_of": part_of}
    device.kernel(SOURCE, "deal_users")(chunks, _CHUNK, **given, **dealt)
    return rank, part_of


def _keys_of(ratings, order, part_of, tile_of, n_tiles):
    """The part and tile of each rating of an order, as one number, int32."""
    if ratings.device is None:
        return part_of[ratings.users[order]] * np.int32(n_tiles) + tile_of[ratings.items[order]]
    keys = ratings.device.empty(ratings.nnz, np.int32)
    given = {"order": order, "n": len(order), "users": ratings.users, "items": ratings.items}
    given |= {"part_of": part_of, "tile_of": tile_of, "n_tiles": n_tiles}
    ratings.device.kernel(SOURCE, "key_of_ratings")(-(-len(order) // _CHUNK), _CHUNK, **given, keys=keys)
    return keys


def _segments(ratings, users, offsets, longest):
    """(segments, firsts) of `Tiles`, `firsts` on the host; as kernels/ratings/segments.cu.

    users : of the ratings in their order, where offsets (on the host) say where each part and tile begins
    """
    if ratings.device is None:
        begins = np.zeros(ratings.nnz + 1, bool)
        begins[-1] = True
        _cut_segments(users, offsets, longest, begins)
        segments = np.flatnonzero(begins)
        return segments, np.searchsorted(segments, offsets).astype(np.int32)
    device, n = ratings.device, len(offsets) - 1
    # Of two segments that follow each other one could not take the other in: they have more than `longest` ratings.
    room = row_offsets(2 * (np.diff(offsets) // (longest + 1)) + 1)
    begins, cut = device.empty(int(room[-1]), np.int64), device.empty(n, np.int32)
    room, offsets = map(device.array, (room, offsets))
    device.kernel(SOURCE, "cut_segments")(-(-n // 32), 32, users, offsets, n, longest, room, begins, cut)
    firsts = row_offsets(device.to_numpy(cut)).astype(np.int32)
    segments = device.empty(int(firsts[-1]) + 1, np.int64)
    device.kernel(SOURCE, "join_segments")(n, _CHUNK, begins, room, device.array(firsts), ratings.nnz, segments)
    return segments, firsts


@cached_njit()
def _cut_segments(users, offsets, longest, begins):
    for key in range(len(offsets) - 1):
        begin, end = offsets[key], offsets[key + 1]
        while begin < end:
            begins[begin] = 1
            after = min(begin + longest, end)
            if after < end:
                while after > begin and users[after] == users[after - 1]:
                    after -= 1
                if after == begin:
                    after += 1
                    while after < end and users[after] == users[after - 1]:
                        after += 1
            begin = after
