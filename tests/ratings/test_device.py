"""Ratings on a device: every order and layout that is made there is the host's, bit for bit."""

from dataclasses import replace

import numpy as np
import pytest

from gpumf._util.counter_rng import positional_hash, random_order, splitmix64, splitmix64_inverse
from gpumf._util.sorting import stable_order
from gpumf.ratings import DataError, Ratings, device
from gpumf.ratings.csr import grouped, row_offsets
from gpumf.ratings.device import DeviceRatings
from gpumf.solvers import sgd_partition
from gpumf.solvers.als_base import segments_of, segments_on
from gpumf.solvers.sgd_blocks import GpuSgd

SHAPES = [(1, 1, 1), (1, 40, 25), (40, 1, 25), (9, 7, 63), (300, 50, 4_000), (50, 300, 999), (70_000, 80_000, 500)]


def ragged(users, items, nnz, seed=0, repeats=False):
    """Ratings in random order of which few users and items have most; some cells more than once if asked for."""
    rng = np.random.default_rng(seed)
    rows, columns = (np.minimum(rng.zipf(1.3, 4 * nnz + 9) - 1, n - 1) for n in (users, items))
    cells = np.unique(rows * items + columns)
    cells = np.union1d(cells[: nnz // 2], rng.choice(users * items, nnz)) if users * items > nnz else cells
    cells = rng.permutation(np.r_[cells, rng.choice(cells, 20)] if repeats else cells)
    return Ratings(cells // items, cells % items, rng.random(len(cells)), users, items, scale=(0, 1), name="ragged")


@pytest.fixture(params=[(shape, repeats) for shape in SHAPES for repeats in (False, True)], ids=str)
def both(request, launcher):
    """The same ratings on the host and on a device."""
    (users, items, nnz), repeats = request.param
    ratings = ragged(users, items, nnz, repeats=repeats)
    return ratings, DeviceRatings.of(ratings, launcher)


def same(device, there, here):
    """Whether arrays on a device have type, shape and bits of those on the host; some may be on the host already."""
    for a, b in zip(there, here, strict=True):
        a = a if isinstance(a, np.ndarray) else device.to_numpy(a)
        assert (a.dtype, a.shape) == (b.dtype, b.shape) and a.tobytes() == b.tobytes()


@pytest.mark.parametrize("n", [0, 1, 2, 17, 4097])
@pytest.mark.parametrize("keys", [1, 3, 5_000, 2**40, 2**62])
def test_stable_order_is_that_of_a_stable_argsort(n, keys):
    given = np.random.default_rng(n).integers(0, keys, n)
    order = stable_order(given, keys)
    assert order.dtype == np.int64 and np.array_equal(order, np.argsort(given, kind="stable"))
    if keys <= 5_000:
        assert np.array_equal(order, grouped(given, row_offsets(np.bincount(given, minlength=keys))))


def test_a_hash_says_what_it_is_of():
    numbers = np.r_[np.arange(1000), -np.arange(1000)].astype(np.uint64)
    assert np.array_equal(splitmix64_inverse(splitmix64(numbers)), numbers)


@pytest.mark.parametrize("n", [1, 2, 255, 1_000])
@pytest.mark.parametrize("seed", [0, 7, 2**64 - 1])
def test_random_order_is_the_order_of_the_hashes(n, seed, launcher):
    expected = np.argsort(positional_hash(n, seed), kind="stable")
    assert np.array_equal(random_order(n, seed), expected)
    there = DeviceRatings.of(ragged(3, 3, 5), launcher).random_order(n, seed)
    same(launcher, [there], [expected])


def test_compressed_forms_and_counts_are_the_hosts(both, launcher):
    here, there = both
    for rows, expected in ((there.by_user, here.by_user), (there.by_item, here.by_item)):
        assert isinstance(rows.indptr, np.ndarray)
        same(launcher, (rows.indptr, rows.indices, rows.values), (expected.indptr, expected.indices, expected.values))
    same(launcher, (there.user_counts, there.item_counts), (here.user_counts, here.item_counts))
    assert there.mean == pytest.approx(here.mean, rel=1e-12) and there.nnz == here.nnz


def same_rows(device, there, here):
    same(device, (there.indptr, there.indices, there.values), (here.indptr, here.indices, here.values))


@pytest.mark.parametrize("orders", [("by_user",), ("by_item", "by_user")])
def test_orders_that_begin_before_the_values_are_there_are_the_hosts(both, launcher, orders, monkeypatch):
    here, there = both[0], DeviceRatings._with_orders(both[0], launcher, orders)
    monkeypatch.setattr(DeviceRatings, "_sorted", None)  # which is not asked again
    for side in orders:
        same_rows(launcher, getattr(there, side), getattr(here, side))
    assert not vars(there)["_begun"]


def test_ratings_with_other_values_take_orders_that_were_begun(launcher, monkeypatch):
    here = ragged(40, 30, 500)
    there = DeviceRatings._with_orders(here, launcher, ("by_user", "by_item"))
    monkeypatch.setattr(DeviceRatings, "_sorted", None)
    for made, wanted in [(there.less(0.25), here.less(0.25))]:
        same_rows(launcher, made.by_user, wanted.by_user)
        same_rows(launcher, made.by_item, wanted.by_item)
    assert not vars(there)["_begun"]


@pytest.mark.parametrize("side", ["by_user", "by_item"])
@pytest.mark.parametrize("at", [None, 0, 1, "row", 499, 998])
def test_ratings_that_come_in_order_are_not_copied(launcher, at, side):
    cells = np.sort(np.random.default_rng(1).choice(2_000, 1_000, replace=False))
    cells[600] = cells[601]
    if at is not None:
        at = int(np.flatnonzero(np.diff(cells // 40))[3]) if at == "row" else at
        cells[at], cells[at + 1] = cells[at + 1], cells[at]
    here = Ratings(cells // 40, cells % 40, np.arange(1_000), 50, 40)
    here = here if side == "by_user" else here.transposed()
    there = DeviceRatings.of(here, launcher)
    rows, columns = getattr(there, side), there.items if side == "by_user" else there.users
    same = launcher.xp.shares_memory(rows.indices, columns)  # on the emulator, indices are a view
    assert (same and rows.values is there.values) == (at is None)
    same_rows(launcher, rows, getattr(here, side))
    assert not there._in_order_already["by_item" if side == "by_user" else "by_user"]


def test_orders_and_what_is_made_of_values_are_the_hosts(both, launcher):
    here = replace(both[0], values=both[0].values - np.float32(0.5), scale=None)
    there, places = DeviceRatings.of(here, launcher), here.users % here.nnz

    def made(ratings, places):
        order = ratings.order(ratings.items, ratings.n_items)
        values = ratings.preferences().values, ratings.less(0.3).values
        return (
            order,
            *ratings.in_order(order),
            *values,
            ratings.take(ratings.items, places),
            ratings.take(order, order),
        )

    same(launcher, made(there, launcher.array(places)), made(here, places))
    assert there.bounds == here.bounds


@pytest.mark.parametrize(
    ("users", "items"), [([0, 3], [0, 0]), ([0, -1], [0, 0]), ([0, 0], [1, 5]), ([0, 0], [-1, 0])]
)
def test_positions_outside_are_noticed(launcher, users, items):
    columns = launcher.array(np.int32(users)), launcher.array(np.int32(items)), launcher.array(np.float32([1, 2]))
    with pytest.raises(DataError, match=r"(users|items) must lie in 0\.\.[24]"):
        DeviceRatings(*columns, 3, 5, device=launcher)


@pytest.mark.parametrize("side", [1, 5])
def test_blocks_and_groups_are_the_hosts(both, launcher, side):
    here, there = both
    for height, width in ((here.n_users, here.n_items), (max(here.n_users, here.n_items),) * 2):
        a, b = (sgd_partition.diagonal_blocks(ratings, side, height, width) for ratings in (there, here))
        same(launcher, (a.order, a.offsets, a.tags), (b.order, b.offsets, b.tags))
    same(launcher, GpuSgd.grouped(there, side), GpuSgd.grouped(here, side))


def test_groups_of_repeated_cells_come_behind_one_another():
    # One block; the cell (0, 0) three times, (1, 1) twice, all on one diagonal: groups of 3, 2 and 1.
    users, items = np.array([0, 1, 0, 2, 1, 0]), np.array([0, 1, 0, 2, 1, 0])
    order, groups, of_blocks, _ = GpuSgd.grouped(Ratings(users, items, np.ones(6), 3, 3), 1)
    assert order.tolist() == [0, 1, 3, 2, 4, 5] and groups.tolist() == [0, 3, 5, 6] and of_blocks.tolist() == [0, 3]


def test_waves_are_the_hosts(both, launcher):
    here, there = both
    same(launcher, sgd_partition.waves(there, 3, 6, seed=5), sgd_partition.waves(here, 3, 6, seed=5))


@pytest.mark.parametrize("longest", [1, 4, 33])
@pytest.mark.parametrize(("tiles", "parts"), [(1, 1), (6, 3)])
def test_tiles_are_the_hosts(both, launcher, tiles, parts, longest):
    made = [sgd_partition.tiled(r, min(tiles, r.n_items), r.n_items, parts, longest, seed=2) for r in both[::-1]]
    same(launcher, *(vars(tiled).values() for tiled in made))


def test_a_copy_comes_back_whole(both, launcher):
    here, there = both
    back = there.on_host()
    same(launcher, (back.users, back.items, back.values), (here.users, here.items, here.values))
    assert (back.n_users, back.n_items, back.scale, back.name) == (here.n_users, here.n_items, (0, 1), "ragged")
    assert type(back) is Ratings and np.array_equal(back.user_ids, here.user_ids)
    chosen = here.values > 0.5
    if chosen.any():
        same(launcher, *([r.select(chosen).users] for r in (there, here)))
        turned, expected = there.transposed().by_user, here.transposed().by_user
        same(launcher, (turned.indices, turned.values), (expected.indices, expected.values))


def test_an_order_is_the_hosts_where_cells_and_positions_do_not_share_an_integer(launcher, monkeypatch):
    here = ragged(300, 50, 4_000, repeats=True)
    assert len(here.values) > len(np.unique(here.users * here.n_items + here.items)), "some cells come twice"
    monkeypatch.setattr(device, "_KEY_BITS", 14 + 11)  # of the cells, and of fewer positions than there are
    there = DeviceRatings.of(here, launcher)
    for side in ("by_user", "by_item"):
        rows, expected = getattr(there, side), getattr(here, side)
        same(launcher, (rows.indices, rows.values), (expected.indices, expected.values))


def test_columns_that_are_not_contiguous_are_copied(launcher):
    here = ragged(9, 7, 40)
    pairs = launcher.xp.empty((3, here.nnz, 2), np.float32)
    columns = [pairs[k, :, 0].view(dtype) for k, dtype in enumerate((np.int32, np.int32, np.float32))]
    for column, given in zip(columns, (here.users, here.items, here.values), strict=True):
        column[:] = launcher.array(given)
    there = DeviceRatings(*columns, 9, 7, device=launcher)
    same(launcher, [there.by_user.values, there.user_counts], [here.by_user.values, here.user_counts])
    assert there.mean == pytest.approx(here.mean, rel=1e-12)


def test_columns_that_do_not_fit_are_refused(launcher):
    def columns(*types):
        return [launcher.array(np.ones(3, dtype)) for dtype in types]

    fitting = columns(np.int32, np.int32, np.float32)
    DeviceRatings(*fitting, 2, 2, device=launcher)
    with pytest.raises(TypeError, match="values must be float32"):
        DeviceRatings(*columns(np.int32, np.int32, np.float64), 2, 2, device=launcher)
    with pytest.raises(DataError, match="items must lie in"):
        DeviceRatings(*fitting, 2, 1, device=launcher)
    with pytest.raises(DataError, match="as long as each other"):
        DeviceRatings(fitting[0][:2], *fitting[1:], 2, 2, device=launcher)


@pytest.mark.parametrize(("name", "power"), [("sum_values", 1), ("sum_squares", 2)])
@pytest.mark.parametrize("n", [1, 255, 2_000])
def test_threads_add_up_several_values(launcher, n, name, power):
    values, sums = np.random.default_rng(n).random(n, np.float32), launcher.empty(2, np.float64)
    launcher.kernel("ratings/ratings.cu", name)(2, 256, launcher.array(values), n, sums)
    assert launcher.to_numpy(sums).sum() == pytest.approx((values.astype(np.float64) ** power).sum(), rel=1e-7)


@pytest.mark.parametrize("longest", [3, 50, 8192])
@pytest.mark.parametrize("most", [1, 2, 200])
def test_work_lists_are_the_hosts(launcher, most, longest):
    indptr = row_offsets(np.random.default_rng(0).integers(0, most, 300))
    (records, n), slots = segments_on(launcher, indptr + 2**40, longest)
    expected, expected_slots = segments_of(indptr, longest)
    same(launcher, [records.reshape(-1)], [expected.view(np.uint8)])
    assert n == len(expected) and slots == expected_slots
    # Parts by the eighth of the row that their middle is in, before whole rows; the longest first; by row and part.
    keys = [
        (int(8 * (part + 0.5) / parts) if parts > 1 else 8, -length, row, part)
        for length, row, part, parts in expected[["length", "row", "part", "parts"]].tolist()
    ]
    assert keys == sorted(keys)


@pytest.mark.parametrize("side", ["users", "items"])
@pytest.mark.parametrize("outside", [-1, 9])
def test_positions_that_were_changed_on_a_device_are_refused(launcher, side, outside):
    there = DeviceRatings.of(ragged(9, 9, 40), launcher)
    there._check_columns()
    getattr(there, side)[7:8] = outside
    with pytest.raises(DataError, match=rf"ragged: {side} must lie in 0\.\.8; the Ratings were changed"):
        there._check_columns()
