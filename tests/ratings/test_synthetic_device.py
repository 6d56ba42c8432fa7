"""Synthetic data sets made on a device: exact shapes, two orders of the same ratings, the same on every machine."""

import dataclasses
from functools import cache

import numpy as np
import pytest

from gpumf import backends
from gpumf.ratings import DataError, synthetic_device
from gpumf.ratings.csr import row_offsets
from gpumf.ratings.synthetic.counts import draw_counts
from gpumf.ratings.synthetic.items import alias_table, fill, item_weights
from gpumf.ratings.synthetic.numbers import (
    DRAWS,
    ITEM_COUNTS,
    ITEMS,
    NOISE,
    USER_COUNTS,
    USERS,
    normal,
    normals,
    streams_of,
)
from gpumf.ratings.synthetic.recipes import Recipe
from gpumf.ratings.synthetic.values import draw_item_traits
from gpumf_study.experiments.cumf import als_hugewiki

SPEC = Recipe(
    500, 60, 10_005, (3, 60), (30, 450), None, None, mean=2.0, user_bias=0.3, item_bias=0.2, signal=0.4, noise=0.5,
    test=1_000,
)  # fmt: skip
GOLDEN = "086574f8f2ff8b46b0a955e2533a1e8e2525d0f01f11178fab43111ab65ce333"


@cache
def made_on(device, seed=0, chunk=None):
    """A data set; users, items and values of its training ratings by user, by item, and of its test ratings."""
    made = synthetic_device.generate(SPEC, seed, "small", device, chunk)
    numpy, train = backends.device(device).to_numpy, made.train
    users, items = (np.repeat(np.arange(rows.n_rows), rows.counts) for rows in (train.by_user, train.by_item))
    by_user = users, numpy(train.by_user.indices), numpy(train.by_user.values)
    by_item = numpy(train.by_item.indices), items, numpy(train.by_item.values)
    return made, by_user, by_item, tuple(map(numpy, (made.test.users, made.test.items, made.test.values)))


def pairs(users, items):
    return users.astype(np.int64) * SPEC.items + items


def everything(device, **options):
    """(pairs, values) of training and test ratings, by user and then item."""
    _, by_user, _, test = made_on(device, **options)
    users, items, values = (np.concatenate(two) for two in zip(by_user, test, strict=True))
    order = np.argsort(pairs(users, items), kind="stable")
    return users[order], items[order], values[order]


def test_it_has_the_recipes_users_items_and_ratings(launcher):
    made, by_user, by_item, test = made_on(launcher.name)
    assert (made.n_users, made.n_items, made.nnz) == (500, 60, 10_005)
    assert len(test[0]) == 1_000 and len(by_user[0]) == len(by_item[0]) == 9_005
    users, items, _ = everything(launcher.name)
    counts = np.bincount(users)
    assert (counts.min(), counts.max(), len(counts)) == (3, 60, 500)
    assert items.min() == 0 and items.max() == 59


def test_no_user_has_an_item_twice_and_items_ascend(launcher):
    _, by_user, by_item, test = made_on(launcher.name)
    for users, items, _ in (by_user, test):
        assert (np.diff(pairs(users, items)) > 0).all()
    assert (np.diff(pairs(*everything(launcher.name)[:2])) > 0).all()
    assert (np.diff(by_item[1] * np.int64(SPEC.users) + by_item[0]) > 0).all()


def test_both_orders_hold_the_same_ratings(launcher):
    _, by_user, (users, items, values), _ = made_on(launcher.name)
    order = np.argsort(pairs(users, items))
    for one, other in zip(by_user, (users[order], items[order], values[order]), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("chunk", [32, 77, 480])
def test_the_chunk_does_not_matter(launcher, chunk):
    whole, parts = made_on(launcher.name), made_on(launcher.name, chunk=chunk)
    assert whole[0].sha256 == parts[0].sha256
    for one, other in zip(whole[2], parts[2], strict=True):
        assert np.array_equal(one, other)


def test_same_seed_same_ratings_on_every_machine(launcher):
    again = synthetic_device.generate(SPEC, 0, "again", launcher.name)
    assert again.sha256 == GOLDEN == made_on(launcher.name)[0].sha256
    assert np.array_equal(launcher.to_numpy(again.train.by_user.values), made_on(launcher.name)[1][2])
    assert made_on(launcher.name, seed=1)[0].sha256 != GOLDEN


def test_the_order_of_the_threads_does_not_matter(host):
    spec = dataclasses.replace(SPEC, users=70, ratings=1_400, item_counts=(3, 65), test=140)
    digests = {synthetic_device.generate(spec, device="emulator").sha256}
    for order in range(3):
        with host.shuffled(order):
            digests.add(synthetic_device.generate(spec, device="emulator").sha256)
    assert len(digests) == 1


def test_every_user_keeps_a_training_rating_and_a_tenth_is_tested(launcher):
    made, _, _, test = made_on(launcher.name)
    assert made.train.by_user.counts.min() >= 1
    # One rating of ten in order: the share of any thousand of them is a tenth, give or take one.
    users, items, _ = everything(launcher.name)
    tested = np.isin(pairs(users, items), pairs(*test[:2]))[:10_000]
    assert (tested.reshape(-1, 10).sum(axis=1) == 1).all()
    places = np.bincount(tested.reshape(-1, 10).argmax(axis=1), minlength=10)
    assert places.min() > 60  # of a hundred each


def wanted_counts():
    """The recipe's counts of users and items, as drawn for seed 0."""
    streams = streams_of(0)
    return (
        draw_counts(SPEC.users, SPEC.ratings, *SPEC.user_counts, streams[USER_COUNTS]),
        draw_counts(SPEC.items, SPEC.ratings, *SPEC.item_counts, streams[ITEM_COUNTS]),
    )


def test_items_are_drawn_as_those_of_the_others(launcher):
    """`fill`, which draws for one user after another on the processor, makes the same items bit for bit."""
    user_counts, item_counts = wanted_counts()
    weights = item_weights(user_counts, item_counts)
    expected = np.full(SPEC.ratings, -1, np.int32)
    stream = streams_of(0)[DRAWS]
    fill(expected, row_offsets(user_counts), 0, SPEC.users, *alias_table(weights), weights.sum(), stream)
    users, items, _ = everything(launcher.name)
    assert np.array_equal(np.bincount(users), user_counts) and np.array_equal(items, expected)


def test_popularity_is_the_recipes_but_for_chance(launcher):
    """As of distinct items drawn by chance: neither off by more, nor closer to the recipe than that."""
    _, wanted = wanted_counts()
    counts = np.bincount(everything(launcher.name)[1], minlength=SPEC.items)
    off = (counts - wanted) / np.sqrt(wanted * (1 - wanted / SPEC.users))
    assert 0.3 < np.mean(off**2) < 1.7 and np.abs(off).max() < 4


def test_items_and_users_are_numbered_without_order(launcher):
    users, items, _ = everything(launcher.name)
    for counts in (np.bincount(users), np.bincount(items)):
        ranks = counts.argsort().argsort()
        assert np.abs(np.corrcoef(ranks, np.arange(len(ranks)))[0, 1]) < 3 / np.sqrt(len(ranks))


def test_the_number_of_warps_does_not_matter(host, monkeypatch):
    monkeypatch.setattr(synthetic_device, "_WARPS", 7)
    assert synthetic_device.generate(SPEC, device="emulator").sha256 == made_on("emulator")[0].sha256


def test_rows_that_chance_does_not_fill_are_filled_in_turn(host, monkeypatch):
    monkeypatch.setattr(synthetic_device, "MAX_DRAWS", 0)
    made = synthetic_device.generate(SPEC, device="emulator")
    users, items = made.train.users, made.train.items
    assert (np.diff(pairs(users, items)) > 0).all() and len(users) == 9_005


def test_a_rating_is_its_parts(launcher):
    """Biases, low-rank part and noise as `gpumf.ratings.synthetic` draws them, in float64."""
    users, items, values = everything(launcher.name)
    streams = streams_of(0)
    p = normals(streams[USERS], SPEC.users, 15)
    q = draw_item_traits(SPEC, streams[ITEMS], wanted_counts()[1])
    noise = np.array([normal(streams[NOISE], k) for k in pairs(users, items)])
    expected = SPEC.mean + SPEC.user_bias * p[users, 14] + q[items, 14] + SPEC.noise * noise
    expected += np.einsum("tk,tk->t", p[users, :14], q[items, :14])
    np.testing.assert_allclose(values, expected, rtol=0, atol=2e-6)
    spread = np.sqrt(SPEC.user_bias**2 + SPEC.item_bias**2 + SPEC.signal**2 + SPEC.noise**2)
    assert values.mean() == pytest.approx(SPEC.mean, abs=0.1) and values.std() == pytest.approx(spread, rel=0.1)


@pytest.mark.parametrize("wrong", [{"test": 0}, {"user_counts": (2, 60)}, {"user_counts": (3, 61)}])
def test_recipes_that_do_not_fit_are_refused(wrong):
    with pytest.raises(DataError, match=r"at least 3 ratings a user|user_counts 3 to 61"):
        synthetic_device.generate(dataclasses.replace(SPEC, **wrong), device="emulator")


def test_unknown_names_are_refused():
    with pytest.raises(DataError, match=r"no 'netflix'.*hugewiki-synthetic"):
        synthetic_device.synthetic_ratings("netflix")


def test_hugewiki_has_the_published_shape():
    spec = synthetic_device.RECIPES["hugewiki-synthetic"]
    assert (spec.users, spec.items, spec.ratings) == (50_082_603, 39_780, 3_101_144_313)
    assert spec.test == round(0.1 * spec.ratings) and spec.ratings // spec.test == 10


def test_positions_beyond_32_bits_count_their_tests():
    key, n_tests = np.uint64(5), 310_114_431
    positions = np.arange(3_101_144_000, 3_101_144_314)
    before = synthetic_device._tests_before(positions, n_tests, 10, key)
    assert before[-1] == n_tests and set(np.diff(before)) == {0, 1}
    assert row_offsets(np.diff(before))[-1] == before[-1] - before[0] == 31


def test_a_device_that_is_too_small_is_told_so_at_once(host):
    with pytest.raises(backends.DeviceError, match=r"hugewiki-synthetic with 100 factors takes about \d+ GB"):
        als_hugewiki.run("hugewiki-synthetic", factors=100, iterations=1, repeats=1)


def test_als_learns_what_is_generated(host):
    frame = als_hugewiki.run("hugewiki-small-synthetic", factors=5, iterations=2, repeats=1)
    rmse = frame.value.dropna()
    assert len(rmse) == 3 and (rmse.diff().iloc[1:] < 0).all()
    seconds = frame[frame.x_iteration > 0].pivot(index="x_iteration", columns="x_step", values="seconds")
    np.testing.assert_allclose(seconds["users"] + seconds["items"], seconds["iteration"])
