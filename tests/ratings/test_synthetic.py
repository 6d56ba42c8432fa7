"""Synthetic data sets: the published shapes, the same ratings on every machine."""

from dataclasses import replace
from functools import cache

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpumf.ratings import DataError, describe, load_dataset, published_shapes, synthetic, synthetic_ratings
from gpumf.ratings.synthetic.items import alias_table
from gpumf.ratings.synthetic.numbers import exp, normals

NAMES = ["ml-100k", "jester", "ml-1m"]
GOLDEN = "79f19b7493393936df167b1089de3fcb8b2b6d68b42b88cd9c47ecc1c602ce75"


@cache
def made(name, seed=0):
    return synthetic_ratings(name, seed)


@pytest.mark.parametrize("name", NAMES)
def test_shape_is_the_published_one(name):
    row, known = describe(made(name)).loc[f"{name}-synthetic"], published_shapes().loc[name]
    exact = ["users", "items", "ratings", "density", "user_mean", "item_mean", "scale_min", "scale_max"]
    assert row[exact].to_dict() == known[exact].to_dict()
    assert (row.user_min, row.user_max) == (known.user_min, known.user_max)
    assert row.item_min == pytest.approx(known.item_min, rel=0.1)
    assert row.item_max == pytest.approx(known.item_max, rel=0.3)


@pytest.mark.parametrize("name", NAMES)
def test_no_pair_is_rated_twice(name):
    ratings = made(name)
    pairs = ratings.users.astype(np.int64) * ratings.n_items + ratings.items
    assert (np.diff(pairs) > 0).all()
    assert ratings.items.min() == 0 and ratings.items.max() == ratings.n_items - 1


@pytest.mark.parametrize(("name", "mean"), [("ml-100k", 3.53), ("jester", 3.18), ("ml-1m", 3.58)])
def test_ratings_fill_the_scale_around_the_real_mean(name, mean):
    ratings = made(name)
    assert ratings.mean == pytest.approx(mean, abs=0.03)
    assert np.unique(ratings.values).tolist() == [1, 2, 3, 4, 5]
    assert np.bincount(ratings.values.astype(int))[1:].min() > 0.01 * ratings.nnz


def test_half_stars():
    spec = synthetic.Recipe(300, 200, 6_000, (5, 80), (1, 150), (0.5, 5), 0.5, 3.5, 0.4, 0.4, 0.4, 0.8)
    assert np.unique(synthetic.generate(spec).values).tolist() == (np.arange(1, 11) / 2).tolist()


def test_heavy_rows_are_not_first():
    ratings = made("ml-1m")
    for counts in (ratings.by_user.counts, ratings.by_item.counts):
        halves = np.array_split(counts, 2)
        assert 0.9 < halves[0].mean() / halves[1].mean() < 1.1


def test_same_seed_same_ratings_on_every_machine():
    assert made("ml-100k").sha256 == GOLDEN
    assert load_dataset("ml-100k-synthetic").sha256 == GOLDEN
    assert made("ml-100k", 1).sha256 != GOLDEN


def test_one_thread_makes_the_same_ratings():
    before = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        assert synthetic_ratings("ml-100k").sha256 == GOLDEN
    finally:
        numba.set_num_threads(before)


@pytest.mark.parametrize("name", ["hugewiki", "douban-monti"])
def test_data_sets_that_are_not(name):
    with pytest.raises(
        DataError, match=f"{name}.*3,101,144,313 ratings|no synthetic data set with the shape of '{name}'"
    ):
        synthetic_ratings(name)


def test_every_data_set_has_the_published_shape():
    published = published_shapes()
    for name, spec in synthetic.RECIPES.items():
        known = published.loc[name]
        assert (spec.users, spec.items, spec.ratings, spec.scale) == (
            *known[["users", "items", "ratings"]],
            tuple(known[["scale_min", "scale_max"]]),
        )
        assert spec.step == (0.5 if known.scale_min == 0.5 else 1)
        for side in ("user", "item"):
            counts = getattr(spec, f"{side}_counts")
            for found, expected in zip(counts, known[[f"{side}_min", f"{side}_max"]], strict=True):
                assert found == expected or np.isnan(expected)


@st.composite
def recipes(draw):
    """Recipes of small sets, many of which some set can have."""
    users, items = draw(st.integers(1, 60)), draw(st.integers(1, 60))

    def counts(n, others):
        fewest = draw(st.integers(0, others))
        return fewest, draw(st.integers(fewest, others + 1))

    user_counts, item_counts = counts(users, items), counts(items, users)
    least = max(users * user_counts[0], items * item_counts[0], 1)
    greatest = min(users * user_counts[1], items * item_counts[1])
    ratings = draw(st.integers(least, max(least, greatest)))
    return synthetic.Recipe(users, items, ratings, user_counts, item_counts, (1, 5), 1, 3.5, 0.4, 0.4, 0.4, 0.8)


def feasible(n, total, fewest, most, others):
    """Whether n counts from `fewest` to `most`, both of which occur, can sum to the total: by trying all sums."""
    if not 1 <= fewest <= most <= others:
        return False
    if n == 1:
        return fewest == most == total
    return any(fewest + most + extra == total for extra in range((n - 2) * fewest, (n - 2) * most + 1))


def assert_has_its_recipe(made, spec):
    counts = made.by_user.counts
    assert (made.nnz, counts.min(), counts.max()) == (spec.ratings, *spec.user_counts)
    assert (np.diff(made.users.astype(np.int64) * spec.items + made.items) > 0).all()
    assert made.items.min() >= 0 and made.items.max() < spec.items and np.isfinite(made.values).all()


@settings(max_examples=60)
@given(recipes())
def test_a_recipe_becomes_a_set_or_is_refused(spec):
    sides = (spec.users, spec.user_counts, spec.items), (spec.items, spec.item_counts, spec.users)
    if all(feasible(n, spec.ratings, *counts, others) for n, counts, others in sides):
        assert_has_its_recipe(synthetic.generate(spec), spec)
    else:
        with pytest.raises(DataError, match=r"_counts \d+ to \d+: each|both of which occur"):
            synthetic.generate(spec)


@pytest.mark.parametrize(
    ("users", "items", "ratings", "user_counts", "item_counts"),
    [
        (1_000, 500, 1_500, (1, 2), (1, 20)),
        (10, 10, 100, (10, 10), (10, 10)),
        (1, 7, 7, (7, 7), (1, 1)),
        (7, 1, 7, (1, 1), (7, 7)),
        (2, 2, 3, (1, 2), (1, 2)),
        (60, 60, 3_541, (1, 60), (1, 60)),
        (300, 2_000, 300_000, (1_000, 1_000), (1, 300)),
        (300, 200, 59_500, (1, 200), (1, 300)),
        (500, 400, 5_000, (10, 10), (1, 200)),
    ],
)
def test_hard_recipes(users, items, ratings, user_counts, item_counts):
    spec = synthetic.Recipe(users, items, ratings, user_counts, item_counts, (1, 5), 1, 3.5, 0.4, 0.4, 0.4, 0.8)
    assert_has_its_recipe(synthetic.generate(spec), spec)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"user_counts": (5, 201)}, "user_counts 5 to 201: each of them has at least 1 rating, and at most 200"),
        ({"item_counts": (1, 301)}, "item_counts 1 to 301: each of them has at least 1 rating, and at most 300"),
        (
            {"ratings": 1_574},
            "300 users with 5 to 80 ratings, both of which occur, have 1575 to 23925 ratings and not",
        ),
        ({"test": 6_000}, "a test set of 6000 of 6000 ratings"),
        ({"scale": None}, "scale None and step 0.5"),
        ({"step": 0}, r"scale \(0.5, 5\) and step 0"),
    ],
)
def test_recipes_that_no_set_can_have(change, message):
    spec = synthetic.Recipe(300, 200, 6_000, (5, 80), (1, 150), (0.5, 5), 0.5, 3.5, 0.4, 0.4, 0.4, 0.8)
    with pytest.raises(DataError, match=message):
        synthetic.generate(replace(spec, **change))


def test_the_structure_can_be_learnt_and_the_noise_cannot():
    """The best prediction of a rating leaves the noise; biases alone leave the low-rank part too."""
    ratings = made("jester")
    spec = synthetic.RECIPES["jester"]
    user = np.bincount(ratings.users, ratings.values) / np.bincount(ratings.users)
    item = np.bincount(ratings.items, ratings.values) / np.bincount(ratings.items)
    left = np.std(ratings.values - user[ratings.users] - item[ratings.items] + ratings.mean)
    assert spec.noise < left < np.sqrt(spec.noise**2 + spec.signal**2 + 1 / 12)


def test_alias_table_gives_each_item_its_weight():
    weights = np.array([5, 1, 1_000_000, 70, 3, 3, 12_345], np.int64)
    threshold, alias = alias_table(weights)
    shares = np.minimum(threshold, weights.sum())
    np.add.at(shares, alias, weights.sum() - shares)
    assert shares.tolist() == (weights * len(weights)).tolist()


def test_exp_and_normal():
    x = np.linspace(-30, 30, 601)
    np.testing.assert_allclose([exp(v) for v in x], np.exp(x), rtol=1e-11)
    deviates = normals(np.uint64(7), 1000, 200)
    assert deviates.mean() == pytest.approx(0, abs=0.01)
    assert deviates.std() == pytest.approx(1, abs=0.01)
    assert np.mean(np.abs(deviates) > 1.959964) == pytest.approx(0.05, abs=0.003)
    # Every deviate is a multiple of 2**-16 and so exact.
    assert np.array_equal(deviates * 65536, np.rint(deviates * 65536))


def test_a_data_set_has_the_scale_the_name_and_the_sizes_of_its_recipe():
    spec = synthetic.Recipe(60, 40, 900, (5, 30), (1, 50), (0.5, 4), 0.5, 3.5, 0.4, 0.4, 0.4, 0.8, test=90)
    ratings = synthetic.generate(spec, name="tiny")
    assert ratings.scale == (0.5, 4) and ratings.name == "tiny" and len(ratings.sha256) == 64
    assert (ratings.n_users, ratings.n_items, ratings.nnz, ratings.test_mask.sum()) == (60, 40, 900, 90)
    assert [part.nnz for part in ratings.official_split()] == [810, 90]
    assert synthetic.generate(replace(spec, test=0)).test_mask is None


# The standard deviations of the real sets' ratings.
@pytest.mark.parametrize(
    ("name", "deviation"),
    [("ml-100k", 1.126), ("ml-1m", 1.117), ("ml-10m", 1.060), ("ml-20m", 1.052), ("netflix", 1.085)],
)
def test_ratings_spread_as_the_real_ones_do(name, deviation):
    few = synthetic.RECIPES[name]
    spec = replace(few, users=400, items=300, ratings=20_000, user_counts=(5, 250), item_counts=(2, 350), test=0)
    assert synthetic.generate(spec).values.std() == pytest.approx(deviation, rel=0.1)
