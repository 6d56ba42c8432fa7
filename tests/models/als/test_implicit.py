"""Implicit feedback: every kernel against the float64 reference, and what the estimator makes of it."""

import numpy as np
import pytest

from gpumf import ImplicitALS
from gpumf.cpu import reference
from gpumf.datasets import Ratings
from support import kernels_on, ragged_ratings, random_factors, to_numpy

# Conjugate gradient ends at a residual; FP16 rounds weighted factors, or the matrix.
TOLERANCE = {"tensor_core": 1e-2, "cumf_cg": 5e-3, "cumf_cg_fp16": 5e-2}


def implicit_ratings(n_users=30, n_items=50, longest=40, seed=0):
    """Counts from 0 to 5, of which 0 is as good as no rating."""
    ratings = ragged_ratings(n_users, n_items, longest, seed)
    values = np.random.default_rng(seed).integers(0, 6, ratings.nnz)
    return Ratings(ratings.users, ratings.items, values, n_users, n_items)


def solved(device, kernel, ratings, factors, *, alpha, regularization=5.0, **options):
    steps = {"cg_steps": factors + 50, "cg_tolerance": 1e-7}
    model = ImplicitALS(factors, regularization, alpha=alpha, kernel=kernel, device=device, **steps)
    items = random_factors(ratings.n_items, factors, 1)
    users = random_factors(ratings.n_users, factors, 2)
    trainer = model.trainer(ratings, users, items, **options)
    trainer.solve_users()
    return to_numpy(device, *trainer.factors())[0], items


def relative_error(actual, expected):
    assert np.isfinite(actual).all()
    return np.linalg.norm(actual - expected) / np.linalg.norm(expected)


@pytest.mark.parametrize("alpha", [0.3, 40.0])
@pytest.mark.parametrize("factors", [1, 10, 32, 64])
def test_half_sweep_matches_the_reference(device, factors, alpha):
    ratings = implicit_ratings(seed=factors)
    for kernel in kernels_on(ImplicitALS, device):
        actual, items = solved(device, kernel, ratings, factors, alpha=alpha, regularization=5 * alpha)
        expected = reference.implicit_half_sweep(ratings.by_user, items, 5 * alpha, alpha)
        assert relative_error(actual, expected) < TOLERANCE.get(kernel, 1e-4), kernel
        empty = ratings.by_user.counts == 0
        assert empty.any() and not actual[empty].any()


@pytest.mark.parametrize("factors", [100, 128])
def test_tensor_core_with_many_factors(launcher, factors):
    ratings = implicit_ratings(n_users=5, n_items=300, longest=50, seed=factors)
    actual, items = solved(launcher.name, "tensor_core", ratings, factors, alpha=2.0, regularization=50.0)
    assert (
        relative_error(actual, reference.implicit_half_sweep(ratings.by_user, items, 50.0, 2.0))
        < TOLERANCE["tensor_core"]
    )


def test_long_rows_meet_in_any_order(host):
    ratings, found = implicit_ratings(n_users=4, n_items=700, longest=90, seed=3), set()
    for seed in range(5):
        with host.shuffled(seed):
            actual, items = solved("host", "tensor_core", ratings, 16, alpha=2.0, longest=20)
        found.add(actual.tobytes())
    assert len(found) == 1
    assert (
        relative_error(actual, reference.implicit_half_sweep(ratings.by_user, items, 5.0, 2.0))
        < TOLERANCE["tensor_core"]
    )


def test_weights_of_any_size_fit_half_precision(launcher):
    ratings = implicit_ratings(seed=5)
    huge = Ratings(ratings.users, ratings.items, ratings.values * 1e4, ratings.n_users, ratings.n_items)
    actual, items = solved(launcher.name, "tensor_core", huge, 8, alpha=40.0, regularization=1e5)
    assert (
        relative_error(actual, reference.implicit_half_sweep(huge.by_user, items, 1e5, 40.0))
        < TOLERANCE["tensor_core"]
    )


def blocks(seed=0):
    """Users and items in four groups; a user likes items of the own group."""
    rng = np.random.default_rng(seed)
    users, items = np.nonzero((np.arange(80)[:, None] % 4 == np.arange(60) % 4) & (rng.random((80, 60)) < 0.7))
    return Ratings(users, items, rng.integers(1, 4, len(users)), 80, 60)


def test_it_finds_what_users_like(device):
    train, test = blocks().split(0.3, seed=1)
    exact = ImplicitALS(8, 0.1, alpha=10.0, kernel="parallel").fit(train, 4, test)
    assert exact.rank(test, k=5)["ndcg"] > 3 * 5 / 60  # a list at random has as many hits as it has of all items
    items, preferences = exact.recommend(0, k=3)
    assert (items % 4 == 0).all() and not set(items) & set(train.items[train.users == 0])
    assert preferences.max() < 1.5
    for kernel in kernels_on(ImplicitALS, device)[-1:]:
        model = ImplicitALS(8, 0.1, alpha=10.0, kernel=kernel, device=device, cg_steps=10).fit(train, 4, test)
        assert model.rank(test, k=5)["ndcg"] == pytest.approx(exact.rank(test, k=5)["ndcg"], abs=0.02)
        errors = np.abs(model.predict(test.users, test.items) - 1)
        assert model.score(test)["mae"] == pytest.approx(errors.mean(), rel=1e-5)


def test_a_user_without_ratings_prefers_nothing():
    train = Ratings([0, 0, 1], [0, 1, 1], [1, 2, 5], 3, 3)
    model = ImplicitALS(4, kernel="parallel").fit(train, 2)
    assert model.predict(2, 0) == 0 and model.predict(0, 2) == 0 and model.predict(1, 1) > 0.5


def test_the_cost_falls_in_every_epoch():
    ratings, alpha, regularization = blocks(), 5.0, 0.5
    preferred, confidence = np.zeros((80, 60)), np.ones((80, 60))
    preferred[ratings.users, ratings.items] = 1
    confidence[ratings.users, ratings.items] += alpha * ratings.values
    model, costs = ImplicitALS(6, regularization, alpha=alpha, kernel="parallel"), []
    for epoch in range(5):
        model.fit(ratings, 1, warm_start=epoch > 0)
        p, q = model.user_factors.astype(float), model.item_factors.astype(float)
        error = (confidence * (preferred - p @ q.T) ** 2).sum()
        costs.append(error + regularization * ((p**2).sum() + (q**2).sum()))
    assert (np.diff(costs) < 0).all()


@pytest.mark.parametrize("factors", [1, 64])
def test_it_starts_near_zero(factors):
    for start in ImplicitALS(factors, device="cpu").initial_factors(blocks()):
        assert 0 <= start.min() < 0.001 and 0.009 < start.max() < 0.01


def test_parameters_are_checked():
    for wrong in (0, -1, float("nan")):
        with pytest.raises(ValueError, match="alpha"):
            ImplicitALS(8, alpha=wrong)
    assert ImplicitALS(8, alpha=3.0, device="cpu")._parameters["alpha"] == 3.0


def test_save_and_load(tmp_path):
    model = ImplicitALS(4, alpha=3.0, device="cpu").fit(blocks(), 2)
    model.save(tmp_path / "model.npz")
    loaded = ImplicitALS.load(tmp_path / "model.npz", device="cpu")
    assert loaded.alpha == 3.0 and np.array_equal(loaded.predict(0, [1, 2]), model.predict(0, [1, 2]))
