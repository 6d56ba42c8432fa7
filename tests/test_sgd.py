"""SGD: every kernel against the float64 reference where updates cannot collide, and convergence where they can."""

import numpy as np
import pytest

from conftest import kernels_on, ragged_ratings, random_factors, to_numpy
from gpumf import SGD
from gpumf.cpu import reference
from gpumf.datasets import Ratings
from gpumf.hashing import splitmix64
from gpumf.models.sgd.hogwild import safe_updates


def after_updates(device, kernel, ratings, factors, updates, **options):
    """Factors after the first updates of a model, and by the reference from the same start."""
    model = SGD(factors, 0.03, learning_rate=0.02, item_regularization=0.05, kernel=kernel, device=device, **options)
    p, q = (random_factors(n, factors, n) for n in (ratings.n_users, ratings.n_items))
    trainer = SGD._trainers[kernel](model, ratings, p, q)
    trainer.updates(0, updates)
    key = splitmix64(np.uint64(model.seed))
    return to_numpy(device, *trainer.factors()), reference.hogwild(ratings, p, q, 0.02, 0.03, 0.05, key, 0, updates)


def one_rating_a_row(n, seed=0):
    """n ratings no two of which share a user or an item: no update can collide with another one's vectors."""
    rng = np.random.default_rng(seed)
    return Ratings(rng.permutation(n), rng.permutation(n), rng.integers(1, 6, n), n, n, scale=(1, 5))


@pytest.mark.parametrize("factors", [1, 5, 16, 17, 32, 33, 100, 256])
def test_one_group_follows_the_reference(device, factors):
    # One group of lanes, or one core, makes the updates in order: the result is the sequential one.
    ratings = ragged_ratings(seed=factors)
    for kernel in kernels_on(SGD, device):
        if kernel == "parallel":
            continue
        actual, expected = after_updates(device, kernel, ratings, factors, 200, threads=1)
        for a, e in zip(actual, expected, strict=True):
            assert np.abs(a - e).max() < 1e-4, kernel


@pytest.mark.parametrize("factors", [1, 10, 16, 32, 100])
def test_updates_that_cannot_collide_match_the_reference(device, factors):
    # Each sample is drawn about once among many, so that a lost update would be a wrong kernel, not a race.
    ratings = one_rating_a_row(200_000)
    for kernel in kernels_on(SGD, device):
        actual, expected = after_updates(device, kernel, ratings, factors, 300)
        for a, e in zip(actual, expected, strict=True):
            wrong = np.abs(a - e).max(axis=1) > 1e-5
            # Of 300 draws from 200,000 ratings, a pair may be the same by chance and race.
            assert wrong.sum() <= 2, kernel


def test_every_draw_is_a_rating_of_the_set(device):
    # Three ratings among empty rows: vectors of other users and items stay as they were.
    ratings = Ratings([1, 5, 8], [2, 0, 2], [1, 3, 5], 10, 4)
    for kernel in kernels_on(SGD, device):
        p, q = random_factors(10, 16, 1), random_factors(4, 16, 2)
        model = SGD(16, kernel=kernel, device=device)
        trainer = SGD._trainers[kernel](model, ratings, p, q)
        trainer.updates(0, 500)
        new_p, new_q = to_numpy(device, *trainer.factors())
        assert sorted(np.flatnonzero((new_p != p).any(1))) == [1, 5, 8]
        assert sorted(np.flatnonzero((new_q != q).any(1))) == [0, 2]


def test_sequential_is_deterministic_and_seeded():
    ratings = ragged_ratings(seed=4)
    fits = [SGD(16, kernel="sequential", seed=s).fit(ratings, 3).user_factors for s in (1, 1, 2)]
    assert np.array_equal(fits[0], fits[1]) and not np.allclose(fits[0], fits[2])


def low_rank_ratings(noise):
    """Every rating of 400 users and 300 items, of rank 4 plus noise: as dense, so as contended, as can be."""
    rng = np.random.default_rng(0)
    p, q = rng.random((400, 4)), rng.random((300, 4)) * 3
    users, items = (a.ravel() for a in np.meshgrid(np.arange(400), np.arange(300), indexing="ij"))
    return Ratings(users, items, (p @ q.T).ravel() + noise * rng.standard_normal(120_000), 400, 300).split(0.2)


def test_few_groups_converge_like_the_sequential_reference(device):
    (train, test), epochs = low_rank_ratings(noise=0.0), 3 if device == "host" else 10
    options = {"factors": 8, "regularization": 0.001, "learning_rate": 0.02, "threads": 64}
    expected = SGD(kernel="sequential", **options).fit(train, epochs, test).history.rmse.iloc[-1]
    for kernel in kernels_on(SGD, device):
        assert (
            SGD(kernel=kernel, device=device, **options).fit(train, epochs, test).history.rmse.iloc[-1]
            < 1.1 * expected + 0.01
        )


def test_the_default_grid_loses_little(device):
    (train, test), epochs = low_rank_ratings(noise=0.5), 3 if device == "host" else 20
    options = {"factors": 8, "regularization": 0.01, "learning_rate": 0.02}
    expected = SGD(kernel="sequential", **options).fit(train, epochs, test).history.rmse.min()
    for kernel in kernels_on(SGD, device):
        assert (
            SGD(kernel=kernel, device=device, **options).fit(train, epochs, test).history.rmse.min() < 1.1 * expected
        )


def test_safe_updates_counts_meetings():
    # 50 users and 20 items with equal shares: of n draws at once, n (1/50 + 1/20) meet a given one.
    users, items = (a.ravel() for a in np.meshgrid(np.arange(50), np.arange(20)))
    assert safe_updates(Ratings(users, items, np.ones(1000), 50, 20)) == np.ceil(1 / (1 / 50 + 1 / 20))
    # One item in every rating: whatever else is in flight meets it.
    assert safe_updates(Ratings(np.arange(1000), np.zeros(1000), np.ones(1000), 1000, 9)) == 1


def test_parameters_are_checked():
    for wrong in (0, -0.1, float("inf")):
        with pytest.raises(ValueError, match="learning_rate"):
            SGD(16, learning_rate=wrong)
    assert SGD(16, 0.3).item_regularization == 0.3
