"""Who gets which ratings: partitions of the rating matrix, and the orders of its ratings that go with them.

Blocks and tags follow newgpusgd, section 4.1; tiles are those of kernels/sgd/fast.cu.
"""

from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np

from gpumf.compiled import cached_njit
from gpumf.datasets.ratings import grouped, row_offsets
from gpumf.hashing import random_order


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


def diagonal_blocks(ratings, side, height, width):
    """side x side blocks of height users by width items; block (a, b) has the tag (b - a) mod side.

    `height` * side and `width` * side cover all users and items: newgpusgd takes m / side and n / side, rounded
    up, gpusgd the larger one of both twice, so that its blocks are square and some have no ratings.

    Returns
    -------
    Blocks; in each block the ratings are in the order given
    """
    across, down = ratings.items // np.int32(width), ratings.users // np.int32(height)
    keys = (across - down) % np.int32(side) * np.int32(side) + down
    return Blocks(*sorted_by(keys, side * side))


def conflict_free_groups(ratings, blocks, edge):
    """The ratings of each block of edge x edge by tag: groups no two ratings of which share a row or a column.

    A rating's tag is its diagonal, (column - row) mod edge, so that a group has one rating of a row at most. Only
    tags that occur make groups.

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
    groups = np.r_[np.flatnonzero(begins), ratings.nnz]
    return order, groups, np.searchsorted(groups, blocks.offsets).astype(np.int32)


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
