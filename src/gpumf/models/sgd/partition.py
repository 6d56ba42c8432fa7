"""Who gets which ratings: partitions of the rating matrix, and the orders of its ratings that go with them.

Blocks and tags follow newgpusgd, section 4.1; tiles are those of kernels/sgd/fast.cu.
"""

from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np

from gpumf.compiled import cached_njit
from gpumf.datasets.ratings import grouped, row_offsets
from gpumf.hashing import positional_hash, random_order


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


def sorted_by(keys, n):
    """(order, offsets): a stable order of keys in 0..n-1, and where each key begins, by counting."""
    offsets = row_offsets(np.bincount(keys, minlength=n))
    return grouped(keys, offsets), offsets


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

    Returns
    -------
    Blocks; in each block the ratings are in the order given
    """
    across, down = parts_of(ratings.items, side, width), parts_of(ratings.users, side, height)
    keys = (across - down) % np.int32(side) * np.int32(side) + down
    return Blocks(*sorted_by(keys, side * side))


def conflict_free_groups(ratings, blocks, edge):
    """The ratings of each block by tag: groups no two ratings of which share a row or a column.

    A rating's tag is its diagonal, (column - row) mod edge, where no block has more rows or columns than `edge`, so
    that a group has one rating of a row at most. Only tags that occur make groups. Where ratings name the same cell
    the second one of each is in a group behind, and so on.

    Returns
    -------
    (order, groups, of_blocks) : int64 (nnz,) positions of the ratings, block after block as in `blocks`, in each
    group after group; int64 (n_groups + 1,), where the groups begin in that order; int32 (n_blocks + 1,), the groups
    of each block
    """
    tags = (ratings.items - ratings.users) % np.int32(edge)
    by_tag, _ = sorted_by(tags, edge)
    number = np.empty(ratings.nnz, np.int32)  # of each rating's block
    number[blocks.order] = np.repeat(np.arange(len(blocks.offsets) - 1), np.diff(blocks.offsets))
    order = by_tag[grouped(number[by_tag], blocks.offsets)]
    begins = np.r_[True, np.diff(number[order]) + np.diff(tags[order]) != 0] if ratings.nnz else np.zeros(0, bool)
    begins[1:] |= np.diff(number[order]) != 0
    order, groups = _without_repeats(ratings.users, order, np.r_[np.flatnonzero(begins), ratings.nnz])
    return order, groups, np.searchsorted(groups, blocks.offsets).astype(np.int32)


@cached_njit()
def _without_repeats(users, order, groups):
    """The order and the groups, with a group that has a user twice split into such that have not."""
    result, cuts = np.empty_like(order), np.empty(len(order) + 1, np.int64)
    group_of = np.full(users.max() + 1 if len(users) else 0, -1)  # the user's newest
    used, done = 0, 0
    for g in range(len(groups) - 1):
        left = order[groups[g] : groups[g + 1]]
        while len(left):
            cuts[used] = done
            kept = np.zeros(len(left), np.bool_)
            for k, t in enumerate(left):
                if group_of[users[t]] != used:
                    group_of[users[t]], kept[k] = used, True
                    result[done] = t
                    done += 1
            used += 1
            left = left[~kept]
    cuts[used] = done
    return result, cuts[: used + 1].copy()


def balanced_tiles(counts, n_tiles, most):
    """Deal items to tiles, the most popular first, each to the tile with the fewest ratings that has room.

    Parameters
    ----------
    counts : int64 (n_items,), ratings of each item
    n_tiles, most : tiles, and items that a tile has room for; n_tiles * most >= n_items

    Returns
    -------
    int32 (n_items,), the tile of each item
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

    Returns
    -------
    (order, offsets, sequence) : int64 (nnz,) positions of the ratings; int64 (workers * columns + 1,), where the
        waves begin in that order, wave v of worker w being number w * columns + v; int32 (workers, columns), the
        column of blocks of each wave
    """
    hashes = positional_hash(workers * columns, seed).reshape(workers, columns)
    sequence = np.argsort(hashes, axis=1).astype(np.int32)
    wave_of = np.empty_like(sequence)
    np.put_along_axis(wave_of, sequence, np.arange(columns, dtype=np.int32)[None], axis=1)
    worker = parts_of(ratings.users, workers, ratings.n_users)
    wave = wave_of[worker, parts_of(ratings.items, columns, ratings.n_items)]
    return *sorted_by(worker * np.int32(columns) + wave, workers * columns), sequence


@dataclass(frozen=True)
class Tiles:
    """The ratings as kernels/sgd/fast.cu takes them: by part (of the users), tile (of the items), and user.

    order : int64 (nnz,), positions of the ratings
    rows : int32 (nnz,), the row of its tile that each rating of the order is of
    segments : int64, where segments begin in the order, and its length: whole runs of a user within a tile
    tile_segments : int32 (parts * tiles + 1,), the segments of each part and tile
    items : int32 (n_items,), tile after tile
    tile_rows : int32 (tiles + 1,), the items of each tile in `items`
    """

    order: np.ndarray
    rows: np.ndarray
    segments: np.ndarray
    tile_segments: np.ndarray
    items: np.ndarray
    tile_rows: np.ndarray

    @property
    def parts(self):
        """Where the parts begin in the order, int64 (parts + 1,)."""
        return self.segments[self.tile_segments[:: len(self.tile_rows) - 1]]


def tiled(ratings, n_tiles, most, n_parts, longest, seed):
    """Deal items to tiles and users to parts, all with about as many ratings, and order the ratings by both.

    Parameters
    ----------
    ratings : Ratings
    n_tiles, most : as of `balanced_tiles`
    n_parts : int, of the users, who are shuffled
    longest : int, ratings of a segment, unless it is a single run
    seed : int

    Returns
    -------
    Tiles
    """
    tile_of = balanced_tiles(np.bincount(ratings.items, minlength=ratings.n_items), n_tiles, most)
    items, tile_rows = sorted_by(tile_of, n_tiles)
    row_of = np.empty(ratings.n_items, np.int32)
    row_of[items] = np.arange(ratings.n_items) - tile_rows[tile_of[items]]

    shuffled = random_order(ratings.n_users, seed)
    rank = np.empty(ratings.n_users, np.int32)
    rank[shuffled] = np.arange(ratings.n_users)
    before = row_offsets(np.bincount(ratings.users, minlength=ratings.n_users)[shuffled])[:-1]
    part_of = (before * n_parts // ratings.nnz).astype(np.int32)  # of a user by rank

    ranks = rank[ratings.users]
    order, _ = sorted_by(ranks, ratings.n_users)
    keys = (part_of[ranks] * np.int32(n_tiles) + tile_of[ratings.items])[order]
    by_tile, offsets = sorted_by(keys, n_parts * n_tiles)
    order = order[by_tile]
    segments = _segments(keys[by_tile], ratings.users[order], longest)
    tile_segments = np.searchsorted(segments, offsets).astype(np.int32)
    return Tiles(
        order,
        row_of[ratings.items[order]],
        segments,
        tile_segments,
        items.astype(np.int32),
        tile_rows.astype(np.int32),
    )


@cached_njit()
def _segments(keys, users, longest):
    n = len(keys)
    cuts = np.empty(n + 1, np.int64)
    cuts[0] = 0
    used, run = 1, 0
    for t in range(1, n + 1):
        new_key = t == n or keys[t] != keys[t - 1]
        if not new_key and users[t] == users[t - 1]:
            continue
        if t - cuts[used - 1] > longest and run > cuts[used - 1]:
            cuts[used] = run
            used += 1
        if new_key:
            cuts[used] = t
            used += 1
        run = t
    return cuts[:used].copy()
