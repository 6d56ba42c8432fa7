"""`fast`: its shapes, its rounding, and which of its updates count; and the draws of the schemes with replacement."""

from itertools import product

import numpy as np
import pytest

from gpumf import SGD
from gpumf._util.counter_rng import high_product, random_positions
from gpumf.backends.cpu import sgd
from gpumf.ratings import Ratings
from gpumf.ratings.synthetic.numbers import normal
from gpumf.solvers.sgd_fast import Fast
from gpumf_study.experiments.gpumf import lost_updates
from support import KERNELS, to_numpy


def trained(device, ratings, p, q, epoch=0, factors=None, **parameters):
    """(user_factors, item_factors) after an epoch from these factors."""
    model = SGD(factors or p.shape[1], solver="fast", device=device, biases=False, **parameters)
    trainer = model.make_solver(ratings, p, q)
    trainer.epoch(epoch)
    return to_numpy(device, *trainer.factors())


@pytest.mark.parametrize("n", [1, 7, 10**8, 3 << 30, 2**32 + 5, 2**63 - 1])
def test_positions_are_the_high_product_everywhere(launcher, n):
    key, first = 2**64 - 40, 2**33
    drawn = random_positions(key, first + np.arange(64), n)
    assert drawn.min() >= 0 and drawn.max() < n
    compiled = [int(sgd.random_position(np.uint64(key), np.uint64(first + t), np.uint64(n))) for t in range(64)]
    assert drawn.tolist() == compiled
    result = launcher.empty(64, np.int64)
    kernel = launcher.kernel(KERNELS / "random.cu", "positions")
    kernel(2, 32, np.uint64(key), np.uint64(first), np.int64(n), result)
    assert np.array_equal(launcher.to_numpy(result), drawn)


def test_the_high_product_is_exact():
    a, b = np.random.default_rng(0).integers(0, 2**64, (2, 1000), dtype=np.uint64)
    a[:2], b[:2] = 2**64 - 1, [2**64 - 1, 2**32]
    assert high_product(a, b).tolist() == [int(x) * int(y) >> 64 for x, y in zip(a, b, strict=True)]


@pytest.mark.parametrize("n", [3 << 30, 3 << 31, 5 << 40])
def test_draws_are_uniform_for_large_sets_too(n):
    # 32 bits onto 3 * 2^30 positions would hit those of one remainder twice as often, and onto more miss some.
    draws = random_positions(5, np.arange(60_000), n)
    for buckets, k in ((draws % 3, 3), (draws % 4, 4), (draws * 16 // n, 16)):
        counts, expected = np.bincount(buckets, minlength=k), len(draws) / k
        assert len(counts) == k and ((counts - expected) ** 2 / expected).sum() < k + 5 * np.sqrt(2 * k)


@pytest.mark.parametrize("precision", [16, 32])
def test_what_is_not_finite_stays_so(launcher, precision):
    # Users 0 to 19 meet an item of NaN, 20 to 39 one that overflows half precision, the others one that is fine.
    users = np.arange(60)
    ratings = Ratings(users, users // 20, np.full(60, 3), 60, 3)
    p, q = np.ones((60, 5), np.float32), np.ones((3, 5), np.float32)
    q[0].view(np.uint32)[:] = 0x7FFFFFFF  # the NaN that a GPU's arithmetic gives
    q[1] = 1e30
    for seed in range(3):
        new_p, _ = trained(launcher.name, ratings, p, q, precision=precision, seed=seed)
        assert not np.isfinite(new_p[:40]).any() and np.isfinite(new_p[40:]).all()


class Device:
    """What `Fast.shape` asks of an H100."""

    facts = {  # noqa: RUF012 - not changed
        "multiprocessors": 132,
        "threads_per_multiprocessor": 2048,
        "shared_bytes_per_multiprocessor": 228 << 10,
    }


def of_shape(n_users, n_items):
    return Ratings([0], [0], [1], n_users, n_items)


def model_of(factors, **options):
    return SGD(factors, solver="fast", device="emulator", biases=False, **options)


@pytest.mark.parametrize("locked", [False, True])
@pytest.mark.parametrize("factors", [16, 100, 128])
@pytest.mark.parametrize("rows_too_many", [0, 1, 500])
def test_every_block_has_as_many_tiles(host, factors, locked, rows_too_many):
    model = model_of(factors, locked=locked)
    room = Fast.shape(model, of_shape(10**6, 10**5), Device)[3]
    n_items = 132 * room + rows_too_many
    blocks, groups, n_tiles, most, _ = Fast.shape(model, of_shape(10**6, n_items), Device)
    assert blocks == 132 and n_tiles == (264 if rows_too_many else 132) and most == room
    assert groups * 4 * -(-factors // 16) >= 1024 - 128
    assert most * (4 * factors + 4 * locked) <= 227 << 10


def test_a_tile_that_was_asked_for_has_all_groups_and_too_few_are_refused(host):
    ratings = of_shape(10**6, 600)
    assert Fast.shape(model_of(16, tiles=1), ratings, Device)[:3] == (1, 256, 1)
    with pytest.raises(ValueError, match=r"tiles .* at least 2 for 600 rows of 128 factors .* not 1"):
        Fast.shape(model_of(128, tiles=1), ratings, Device)


def test_no_block_is_without_items(host):
    blocks, groups, n_tiles, *_ = Fast.shape(model_of(128), of_shape(73_421, 100), Device)
    assert blocks == n_tiles == 100 and groups == 8


@pytest.mark.parametrize("factors", [16, 128])
def test_few_rows_change_places_with_many(host, factors):
    model = model_of(factors)
    for n_users, n_items in ((15, 10**6), (1, 10**6), (943, 1682)):
        ratings = of_shape(n_users, n_items)
        assert Fast.turned(model.hyperparameters, ratings) and not Fast.turned(
            model.hyperparameters, ratings.transposed()
        )
        blocks, groups, *_ = Fast.shape(model, ratings.transposed(), Device)
        assert blocks * groups >= min(8 * n_users, n_items // 16) * 0.9
    assert not Fast.turned(model_of(16, tiles=3), of_shape(15, 10**6))
    assert not Fast.turned(model_of(16, resident="items"), of_shape(15, 10**6))
    assert Fast.turned(model_of(16, resident="users"), of_shape(10**6, 15))


@pytest.mark.parametrize("seed", [0, 2**32, 2**64 - 1])
def test_every_seed_has_its_rotations(seed):
    turns = np.array([Fast.rotation(number, seed) for number in range(100)])
    assert len(np.unique(turns[:, 0])) == len(np.unique(turns[:, 1])) == 100
    assert abs(turns[:, 0].mean() / 2**32 - 0.5) < 0.15
    assert Fast.rotation(1, seed) != Fast.rotation(0, (seed + 1) % 2**64) != Fast.rotation(0, seed)


@pytest.mark.parametrize("shape", [(1, 1), (1, 150), (150, 1), (2, 90)])
def test_degenerate_shapes_are_fitted(launcher, shape):
    users, items = (a.ravel() for a in np.indices(shape))
    ratings = Ratings(users, items, np.random.default_rng(1).uniform(1, 5, len(users)), *shape)
    for locked in (False, True):
        model = SGD(
            3,
            0.001,
            learning_rate=0.05,
            solver="fast",
            device=launcher.name,
            locked=locked,
            precision=32,
            biases=False,
            clip=False,  # to the one rating that there is
        )
        history = model.fit(ratings, 40, ratings).history
        assert history.rmse.iloc[-1] < 0.3 * history.rmse.iloc[0]


def moved(device, n_users, n_items, factors, **options):
    """What each item's factors moved, in steps, where every user has rated every item and each update is one step."""
    users, items = (a.ravel() for a in np.indices((n_users, n_items)))
    ratings, step = Ratings(users, items, np.ones(len(users)), n_users, n_items), 2.0**-20
    p, q = np.ones((n_users, factors), np.float32), np.zeros((n_items, factors), np.float32)
    options |= {"regularization": 0, "learning_rate": step, "precision": 32, "resident": "items"}
    return trained(device, ratings, p, q, **options)[1] / step


@pytest.mark.parametrize(("factors", "reread"), list(product([5, 20, 40], [True, False])))
def test_groups_of_a_warp_lose_nothing_to_each_other(launcher, factors, reread):
    # They have the same item in the same step all the time.
    for n_users, n_items in ((64, 1), (61, 3)):
        steps = moved(launcher.name, n_users, n_items, factors, threads=32, longest=4, reread=reread, tiles=1)
        assert np.allclose(steps, n_users, rtol=1e-2)


@pytest.mark.parametrize("factors", [5, 100])
def test_locked_items_lose_nothing(launcher, factors):
    given = {"n_users": 80, "n_items": 2, "factors": factors, "threads": 256, "longest": 2, "tiles": 1}
    assert np.allclose(moved(launcher.name, **given, locked=True), 80, rtol=1e-2)


@pytest.mark.parametrize("factors", [5, 100])
def test_in_any_order_locked_items_lose_nothing_and_others_do(host, factors):
    given = {"n_users": 80, "n_items": 2, "factors": factors, "threads": 256, "longest": 2, "tiles": 1}
    for seed in range(2):
        with host.shuffled(seed):
            assert np.allclose(moved("emulator", **given, locked=True), 80, rtol=1e-2)
        with host.shuffled(seed):
            assert moved("emulator", **given, reread=False).min() < 70


def shares(ratings, whose, kernel, device="emulator", epochs=2, **options):
    """The share of the updates of each row that count, in each epoch."""
    side = lost_updates.Side(ratings, whose)
    measured = list(lost_updates.counts(side, 16, epochs, kernel, device, **options))
    assert sum(taken.sum() for _, _, taken, _ in measured) == epochs * ratings.nnz
    return np.array([share for *_, share in measured])


@pytest.mark.parametrize("side", ["users", "items"])
def test_one_after_another_all_updates_count(host, side):
    # An item with more ratings than are marked, and users and items without any.
    crowded = Ratings(np.arange(300), np.zeros(300), np.ones(300), 301, 2)
    scattered = lost_updates.scattered(30, 20, 250)
    for ratings in (crowded, scattered):
        rated = np.unique(getattr(ratings, side))
        for kernel, options in (
            ("sequential", {"device": "cpu"}),
            ("hogwild", {"threads": 1}),
            ("cumf_sgd", {"threads": 1}),
            ("fast", {"threads": 1}),
            ("fast", {"locked": True}),
            ("newgpusgd", {"side": 4}),
        ):
            share = shares(ratings, side, kernel, **options)
            if kernel in ("sequential", "hogwild"):  # which draw some ratings never
                assert np.isfinite(share[:, rated]).mean() > 0.5
                share = np.nan_to_num(share, nan=1)
            assert np.allclose(share[:, rated], 1, atol=0.003), kernel


def test_a_conflict_is_counted_as_it_was_made(host):
    # Eight groups of a warp take a rating each of one item, read it at the same time, and write it one after another.
    ratings = Ratings(np.arange(8), np.zeros(8), np.ones(8), 8, 1)
    assert np.allclose(shares(ratings, "items", "cumf_sgd", run=1, threads=32), 1 / 8, rtol=0.003)
    assert np.allclose(shares(ratings, "users", "cumf_sgd", run=1, threads=32), 1, rtol=0.003)
    # Of an item's updates in a step of cu2rec one counts, or all.
    for conflict, share in (("early_bird_gets", 1 / 8), ("early_bird_loses", 1 / 8), ("atomic", 1)):
        assert np.allclose(shares(ratings, "items", "cu2rec", conflict=conflict), share, rtol=0.003)


def test_updates_are_summed_up_by_popularity():
    rows = np.repeat(np.arange(20), np.arange(20))  # row r has r ratings, row 0 none
    taken = np.bincount(rows, minlength=20)
    share = np.where(np.arange(20) < 18, 1.0, 0.5)
    table = lost_updates.deciles(taken, taken, share)
    assert list(table.decile) == list(range(1, 11)) and table.rows.sum() == 19 and table.updates.sum() == len(rows)
    assert table.counted.iloc[-1] == 19 / 2 and (table.counted / table.updates).iloc[:-2].eq(1).all()


def test_the_summary_of_lost_updates_weighs_both_sides(host):
    parameters = lost_updates.PROFILES["smoke"] | {"schemes": ["sequential", "fast, locked"]}
    frame = lost_updates.run(**parameters)
    frame.loc[frame.x_side == "items", "value"] /= 2
    frame["seconds"] = np.where(frame.repeat == 0, 1e9, 2.0)
    table = lost_updates.summary(frame)
    assert list(table.scheme) == parameters["schemes"] and list(table.device) == ["cpu", "emulator"]
    assert np.allclose(table[["of_users", "of_items", "of_popular_items"]], [1, 0.5, 0.5], atol=0.003)
    assert np.allclose(table.attempted_per_second, 30) and np.allclose(table.effective_per_second, 22.5, rtol=0.003)


def test_fast_rounds_users_by_chance_so_that_small_steps_count(launcher):
    # Each step is about an eighth of the last digit of a half: rounded to the nearest, none would be taken.
    n = 3000
    ratings = Ratings(np.arange(n), np.zeros(n), np.full(n, 1.0), n, 1)
    p, q = np.full((n, 1), 0.6, np.float32).astype(np.float16).astype(np.float32), np.full((1, 1), 0.5, np.float32)
    step = 2.0**-11 / 8
    rate = step / (0.5 * (1 - 0.5 * p[0, 0]))
    model = SGD(1, 0, learning_rate=rate, solver="fast", device=launcher.name, threads=64, biases=False)
    trainer = model.make_solver(ratings, p, q)
    trainer.epoch(0)
    moved = (to_numpy(launcher.name, *trainer.factors())[0] - p).ravel()
    assert set(np.unique(moved)) == {0.0, np.float32(2.0**-11)}
    assert moved.mean() == pytest.approx(step, rel=0.2)


def test_normal_deviates_are_those_of_synthetic_ratings(launcher):
    result = launcher.empty(64, np.float32)
    launcher.kernel(KERNELS / "random.cu", "deviates")(2, 32, key=99, result=result)
    expected = [normal._function(np.uint64(99), np.uint64(k)) for k in range(64)]
    np.testing.assert_array_equal(launcher.to_numpy(result), np.float32(expected))
