"""Every bad rating gives one DataError that says where it is and what to do."""

from datetime import datetime, timedelta, timezone
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from gpumf.ratings import DataError, Ratings
from gpumf.ratings.csr import row_offsets

USERS, ITEMS, VALUES = [10, 20, 10, 30], ["b", "a", "a", "c"], [1.0, 2.0, 3.0, 4.0]


def make(users=USERS, items=ITEMS, values=VALUES, **options):
    return Ratings.from_arrays(users, items, values, **({"name": "mine", "scale": (1, 5)} | options))


def test_ids_map_to_positions_and_back():
    ratings = make()
    assert (ratings.n_users, ratings.n_items, ratings.nnz) == (3, 3, 4)
    assert list(ratings.user_ids[ratings.users]) == USERS
    assert list(ratings.item_ids[ratings.items]) == ITEMS
    assert list(ratings.values) == VALUES
    assert list(ratings.user_ids) == sorted(set(USERS)) and list(ratings.item_ids) == ["a", "b", "c"]


def test_columns_are_taken_as_they_are_meant():
    ratings = Ratings(np.array([0.0, 1.0, 2.0]), np.array([1, 0, 1], np.uint64), [1.0, 2.5, 4.0], 3, 2)
    assert ratings.users.dtype == ratings.items.dtype == np.int32 and ratings.values.dtype == np.float32
    assert ratings.users.tolist() == [0, 1, 2] and ratings.items.tolist() == [1, 0, 1]
    empty = ratings.select(np.zeros(3, bool))
    assert empty.nnz == 0 and Ratings([], [], [], 3, 2).nnz == 0


@pytest.mark.parametrize("kind", [np.uint8, np.int32, ">i8", np.uint64, np.float64, ">f8"])
def test_ids_of_every_numeric_type(kind):
    ratings = make(users=np.array(USERS, kind))
    assert list(ratings.user_ids) == [10, 20, 30] and ratings.user_ids.dtype.kind in "iu"


DAYS = [datetime(2020, 1, day, 12) for day in (1, 3, 2)]
OSLO = [day.replace(tzinfo=timezone(timedelta(hours=1))) for day in DAYS]


@pytest.mark.parametrize(
    ("times", "hour"),
    [
        (DAYS, 12),
        (np.array(DAYS, object), 12),
        (pd.Categorical(DAYS), 12),
        (pd.Series(OSLO), 11),
        (OSLO, 11),
        ([day.date() for day in DAYS], 0),
        ([*OSLO[:2], pd.Timestamp("2020-01-02 11:00")], 11),
        (np.array([np.datetime64(day, "ms") for day in DAYS], object), 12),
    ],
)
def test_dates_of_every_kind_are_times(times, hour):
    found = Ratings.from_arrays([0, 1, 1], [5, 5, 6], [1, 2, 3], times=times).times
    assert ((found - 1577836800) / 3600).tolist() == [hour, 48 + hour, 24 + hour]


def test_dates_that_are_missing_or_beside_numbers_are_refused():
    for times, words in (([DAYS[0], None], "row 1: nan is no time"), ([DAYS[0], 7], "must be numbers or dates")):
        with pytest.raises(DataError, match=words):
            Ratings.from_arrays([0, 1], [5, 5], [1, 2], times=times)


@pytest.mark.parametrize("ids", [[True, False], np.array([False, True]), np.array([7, True], object)])
def test_ids_that_are_bools_are_called_so(ids):
    with pytest.raises(DataError, match=r"row [01]: user id (True|False) is a bool; give all as integers"):
        make(ids, ids, [1, 2])


def test_shape_keeps_empty_rows():
    ratings = make([0, 2, 0], [1, 0, 0], [1, 2, 3], shape=(5, 4))
    assert (ratings.n_users, ratings.n_items) == (5, 4)
    assert list(ratings.users) == [0, 2, 0]


def test_the_first_of_several_duplicates_is_named():
    with pytest.raises(DataError, match=r"row 3: user 2 rates item 5 again, first at mine, row 1;"):
        make([1, 2, 3, 2, 1], [4, 5, 6, 5, 4], [1, 2, 3, 4, 5])


@pytest.mark.parametrize(("how", "values"), [("mean", [3.0, 2.0, 4.0]), ("last", [5.0, 2.0, 4.0])])
def test_duplicates_merge(how, values):
    ratings = make(
        [1, 2, 1, 3, 1],
        [7, 7, 7, 8, 7],
        [1, 2, 3, 4, 5],
        duplicates=how,
        test_mask=np.array([False, False, False, True, True]),
    )
    # Each pair stands where its last rating stood.
    merged = dict(zip(ratings.user_ids[ratings.users], ratings.values, strict=True))
    assert merged == dict(zip([1, 2, 3], values, strict=True))
    assert list(ratings.test_mask) == [False, True, True]


def test_pairs_that_agree_in_32_bits_are_not_duplicates():
    n = 70_000
    row, column = divmod(2**32, n)
    ratings = make([0, row], [0, column], [1, 2], shape=(n, n))
    assert ratings.nnz == 2


def test_offsets_count_beyond_32_bits():
    """More than 2**31 ratings need offsets of 64 bits, from counts of any type; no such set fits a test machine."""
    counts = np.array([2**31 - 1, 0, 2**31 - 1, 7], np.int32)
    assert row_offsets(counts).tolist() == [0, 2**31 - 1, 2**31 - 1, 2**32 - 2, 2**32 + 5]
    assert row_offsets(counts).dtype == np.int64


def test_compressed_rows_hold_every_rating_in_order():
    rng = np.random.default_rng(3)
    cells = rng.permutation(40 * 30)[:400]
    users, items = np.divmod(cells, 30)
    users[users == 7] = 8  # leaves an empty row
    ratings = make(users, items, rng.integers(1, 6, 400), shape=(40, 30), duplicates="last")
    dense = np.zeros((40, 30), np.float32)
    dense[ratings.users, ratings.items] = ratings.values
    for compressed, matrix in ((ratings.by_user, dense), (ratings.by_item, dense.T)):
        assert compressed.indptr[0] == 0 and compressed.indptr[-1] == ratings.nnz
        for r in range(compressed.n_rows):
            row = slice(*compressed.indptr[r : r + 2])
            assert np.array_equal(compressed.indices[row], np.flatnonzero(matrix[r]))
            assert np.array_equal(compressed.values[row], matrix[r][compressed.indices[row]])
    assert ratings.by_user.counts[7] == 0


def ratings_in_order(n):
    return Ratings(np.arange(n) // 10, np.arange(n) % 10, np.arange(n) % 5 + 1, n // 10, 10)


def test_compressed_rows_know_which_pairs_they_hold():
    cells = np.random.default_rng(0).random((30, 20)) < np.linspace(0, 1, 30)[:, None]  # no row to a full one
    users, items = np.nonzero(cells)
    ratings = Ratings(users, items, np.ones(len(users)), *cells.shape)
    for rows, found in ((ratings.by_user, cells), (ratings.by_item, cells.T)):
        assert np.array_equal(rows.holds(*np.indices(found.shape).reshape(2, -1)), found.ravel())
    assert ratings.select(slice(0)).by_user.holds([29], [19]).tolist() == [False]
    assert not ratings.by_user.holds([29, 29], [20, 2**32]).any()
    for wrong in (([30], [0]), ([-1], [0]), ([0, 1], [0]), ([[0]], [[0]])):
        with pytest.raises(DataError, match="rows"):
            ratings.by_user.holds(*wrong)


@pytest.mark.parametrize("share", [0.1, 0.2, 0.5])
def test_split_parts_the_ratings(share):
    ratings = ratings_in_order(1000)
    train, test = ratings.split(share, seed=4)
    assert test.nnz == round(Fraction(share) * 1000)
    pairs = np.concatenate([part.users * 10 + part.items for part in (train, test)])
    assert np.array_equal(np.sort(pairs), np.arange(1000))


@pytest.mark.parametrize(("n", "share", "n_test"), [(2, 0.5, 1), (3, 0.2, 1), (3, 0.8, 2), (10, 0.06, 1)])
def test_split_of_few_ratings(n, share, n_test):
    ratings = Ratings(np.arange(n), np.arange(n), np.ones(n), n, n)
    train, test = ratings.split(share, seed=2)
    assert (train.nnz, test.nnz) == (n - n_test, n_test)
    assert sorted([*train.users, *test.users]) == list(range(n))
    assert (train.n_users, train.n_items) == (test.n_users, test.n_items) == (n, n)


@pytest.mark.parametrize(("n", "share"), [(0, 0.5), (1, 0.5), (1, 0.9), (2, 0.2), (2, 0.8), (10, 0.05)])
def test_a_split_that_leaves_a_set_empty_is_refused(n, share):
    with pytest.raises(ValueError, match=f"{share} leaves an empty set of {n} ratings"):
        Ratings(np.arange(n), np.arange(n), np.ones(n), 10, 10).split(share)


GOLDEN_SPLIT = [5, 7, 14, 33, 34, 53, 55, 76, 89, 93]


def test_split_is_the_same_on_every_machine():
    _, test = ratings_in_order(100).split(0.1, seed=0)
    assert (test.users * 10 + test.items).tolist() == GOLDEN_SPLIT
    _, other = ratings_in_order(100).split(0.1, seed=1)
    assert (other.users * 10 + other.items).tolist() != GOLDEN_SPLIT


def test_kfold_tests_each_rating_once():
    ratings = ratings_in_order(100)
    tested = [test.users * 10 + test.items for _, test in ratings.kfold(3, seed=1)]
    assert np.array_equal(np.sort(np.concatenate(tested)), np.arange(100))
    assert {len(part) for part in tested} == {33, 34}


def test_the_official_split_is_that_of_the_mask():
    train, test = make(test_mask=np.array([True, False, False, False])).official_split()
    assert (train.nnz, test.nnz) == (3, 1)


def test_few_ratings_of_many_items_are_ordered_alike():
    """By comparing them, and not by counting every item's: with a pair twice, in the order given."""
    rng = np.random.default_rng(0)
    users, items = rng.integers(4, size=60), rng.integers(9, size=60)
    narrow, wide = (Ratings(users, items * step, np.arange(60), 4, 9 * step) for step in (1, 300))
    for side in ("by_user", "by_item"):
        rows, many = getattr(narrow, side), getattr(wide, side)
        assert np.array_equal(rows.values, many.values)
        assert np.array_equal(rows.indices * (300 if side == "by_user" else 1), many.indices)
    assert np.array_equal(narrow.by_user.indptr, wide.by_user.indptr)


@pytest.mark.parametrize("shorter", range(3))
def test_columns_of_unequal_length_are_counted(shorter):
    columns, counts = [USERS, ITEMS, VALUES], [4, 4, 4]
    columns[shorter], counts[shorter] = columns[shorter][:3], 3
    with pytest.raises(DataError, match="mine: {} users, {} items and {} ratings; give as many".format(*counts)):
        make(*columns)


def test_a_sum_off_the_scale_is_named():
    twice = {"users": [10, 20, 10], "items": ["b", "a", "b"], "values": [4.0, 2.0, 3.0], "duplicates": "sum"}
    with pytest.raises(DataError, match=r"item 'b' by user 10 have the sum 7, off the scale 1 to 5"):
        make(**twice)
    assert make(**twice, scale=(1, 9)).values.max() == 7
