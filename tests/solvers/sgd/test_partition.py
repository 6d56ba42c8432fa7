"""Partitions of the rating matrix: every rating in one place, and nothing shared where nothing may be."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumf.ratings import Ratings
from gpumf.solvers import sgd_partition
from gpumf.solvers.sgd_blocks import GpuSgd, rectangular_blocks


@st.composite
def rating_sets(draw):
    """Ratings of random shapes, from a single one to every cell, in random order."""
    n_users, n_items = draw(st.integers(1, 30)), draw(st.integers(1, 30))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    cells = rng.permutation(n_users * n_items)[: draw(st.integers(1, n_users * n_items))]
    if draw(st.booleans()):  # some cells more than once
        cells = np.r_[cells, rng.choice(cells, draw(st.integers(1, 20)))]
    return Ratings(cells // n_items, cells % n_items, rng.random(len(cells)), n_users, n_items)


def parts_of(order, offsets):
    """The positions between offsets, part by part; together every position once."""
    assert sorted(order) == list(range(len(order))) and offsets[0] == 0 and offsets[-1] == len(order)
    return [order[begin:end] for begin, end in pairwise(offsets)]


def shares_nothing(*rows):
    """Whether no two of several sets have a member in common."""
    return len(set().union(*map(set, rows))) == sum(len(set(r)) for r in rows)


@given(rating_sets(), st.integers(1, 12))
def test_rectangular_blocks_of_a_tag_share_neither_users_nor_items(ratings, side):
    blocks = rectangular_blocks(ratings, side)
    parts = parts_of(blocks.order, blocks.offsets)
    assert len(parts) == side**2 and np.array_equal(blocks.tags, blocks.offsets[::side])
    for tag in range(side):
        of_tag = parts[tag * side : (tag + 1) * side]
        assert shares_nothing(*(ratings.users[p] for p in of_tag))
        assert shares_nothing(*(ratings.items[p] for p in of_tag))
    assert all((np.diff(part) > 0).all() for part in parts)


@given(st.integers(1, 400), st.integers(1, 50))
def test_parts_are_even(n, side):
    parts = sgd_partition.parts_of(np.arange(n, dtype=np.int32), side, n)
    counts = np.bincount(parts, minlength=side)
    assert (np.diff(parts) >= 0).all() and len(counts) == side and np.ptp(counts) <= 1


def test_no_block_is_blank_for_want_of_rows_or_columns():
    # A diagonal and the one beside it: with 1024 parts of 2 rows each, half of the blocks would have none.
    n, side = 1025, 1024
    users, items = np.r_[np.arange(n), np.arange(n)], np.r_[np.arange(n), (np.arange(n) + 1) % n]
    ratings = Ratings(users, items, np.ones(2 * n), n, n)
    for blocks in (rectangular_blocks(ratings, side), sgd_partition.diagonal_blocks(ratings, side, n, n)):
        filled = np.diff(blocks.offsets).reshape(side, side) > 0
        assert filled[0].all() and filled[1].sum() >= side - 2
    # And no overflow where there are many rows.
    assert sgd_partition.parts_of(np.array([2**31 - 2], np.int32), 4096, 2**31 - 1) == [4095]


@given(rating_sets(), st.integers(1, 12), st.integers(0, 9))
def test_waves_have_every_rating_once_and_a_worker_all_of_a_user(ratings, workers, seed):
    columns = 2 * workers
    order, offsets, sequence = sgd_partition.waves(ratings, workers, columns, seed)
    parts = parts_of(order, offsets)
    assert len(parts) == workers * columns and (np.sort(sequence, axis=1) == np.arange(columns)).all()
    of_worker = [np.concatenate(parts[w * columns : (w + 1) * columns]) for w in range(workers)]
    assert shares_nothing(*(ratings.users[p] for p in of_worker))
    of_column = [[] for _ in range(columns)]
    for part, column in zip(parts, sequence.ravel(), strict=True):
        of_column[column] += list(ratings.items[part])
    assert shares_nothing(*of_column)


@given(rating_sets(), st.integers(1, 12))
def test_square_blocks_of_a_tag_share_nothing_nor_do_the_ratings_of_a_group(ratings, side):
    order, groups, of_blocks, tags = GpuSgd.grouped(ratings, side)
    parts = parts_of(order, groups)
    assert len(of_blocks) == side**2 + 1 and of_blocks[-1] == len(parts) and all(map(len, parts))
    for part in parts:
        assert len(set(ratings.users[part])) == len(set(ratings.items[part])) == len(part)
    for tag in range(side):
        blocks = [
            np.concatenate([np.zeros(0, int), *parts[of_blocks[b] : of_blocks[b + 1]]])
            for b in range(tag * side, (tag + 1) * side)
        ]
        assert shares_nothing(*(ratings.users[b] for b in blocks))
        assert shares_nothing(*(ratings.items[b] for b in blocks))
        assert sum(map(len, blocks)) == tags[tag + 1] - tags[tag]


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=60), st.integers(1, 8), st.integers(0, 5))
def test_tiles_are_balanced_and_have_room(counts, n_tiles, spare):
    most = -(-len(counts) // n_tiles) + spare
    tile_of = sgd_partition.balanced_tiles(np.array(counts), n_tiles, most)
    assert np.bincount(tile_of, minlength=n_tiles).max() <= most
    if spare == 5 and len(counts) <= n_tiles * 5:
        # With room enough, no tile has more than another one plus the largest item that it could have given.
        loads = np.bincount(tile_of, counts, n_tiles)
        assert loads.max() - loads.min() <= max(counts)


@given(rating_sets(), st.integers(1, 6), st.integers(1, 4), st.integers(1, 9))
def test_tiles_have_every_rating_once_in_whole_runs(ratings, n_tiles, n_parts, longest):
    tiles = sgd_partition.tiled(ratings, n_tiles, ratings.n_items, n_parts, longest, seed=3)
    segments = parts_of(tiles.order, tiles.segments)
    assert sorted(tiles.items) == list(range(ratings.n_items)) and tiles.tile_rows[-1] == ratings.n_items
    assert tiles.tile_segments[-1] == len(segments) and len(tiles.tile_segments) == n_tiles * n_parts + 1
    users_of_part, runs = [set() for _ in range(n_parts)], set()
    for k in range(n_tiles * n_parts):
        part, tile = divmod(k, n_tiles)
        of_tile = tiles.items[tiles.tile_rows[tile] : tiles.tile_rows[tile + 1]]
        for s in range(tiles.tile_segments[k], tiles.tile_segments[k + 1]):
            here = segments[s]
            users = ratings.users[here]
            assert np.array_equal(of_tile[tiles.rows[tiles.segments[s] : tiles.segments[s + 1]]], ratings.items[here])
            assert len(here) <= longest or len(set(users)) == 1
            begins = users[np.r_[True, np.diff(users) != 0]]
            for user in begins:
                assert (user, tile) not in runs
                runs.add((user, tile))
            users_of_part[part] |= set(users)
    assert shares_nothing(*users_of_part)


def test_parts_and_tiles_have_about_as_many_ratings():
    rng = np.random.default_rng(0)
    users, items = rng.integers(0, 2000, 20_000), np.minimum(rng.zipf(1.5, 20_000), 500) - 1
    tiles = sgd_partition.tiled(Ratings(users, items, rng.random(20_000), 2000, 500), 7, 500, 4, 16, seed=0)
    of_both = np.diff(tiles.segments[tiles.tile_segments]).reshape(4, 7)
    hottest = np.bincount(items).max()
    busiest = np.bincount(users).max()
    assert of_both.sum(1).max() <= 20_000 / 4 + busiest and of_both.sum(1).min() >= 20_000 / 4 - busiest
    assert of_both.sum(0).max() == pytest.approx(max(hottest, 20_000 / 7), rel=0.2)
    assert np.array_equal(np.diff(tiles.parts), of_both.sum(1))
