"""ALS with biases: every solver finds the other unknowns of rows whose pinned column is 1."""

import numpy as np
import pytest

from cases import HALF, als_case, als_tolerance
from gpumf import ALS
from gpumf.backends.cpu import reference
from gpumf.ratings import Ratings
from support import fewer, kernels_on, ragged_ratings, random_factors, slow


@pytest.mark.parametrize("factors", [1, 14, *slow(3, 16, 30)])
def test_every_solver_matches_the_reference(device, factors):
    ratings = ragged_ratings(seed=factors)
    assert (ratings.by_user.counts == 0).any() and (ratings.by_item.counts == 0).any()
    for kernel in kernels_on(ALS, device):
        case = als_case(device, kernel, ratings, factors, biases=True)
        learned = case.run(2)
        case.assert_close(als_tolerance(kernel), 2, learned)
        users, items = learned
        assert (users[:, -1] == 1).all() and (items[:, -2] == 1).all()


@pytest.mark.parametrize("factors", [62, *slow(111, 254)])
def test_many_factors(launcher, factors):
    items, longest = fewer(launcher.name, 2500), fewer(launcher.name, 2100)
    ratings = ragged_ratings(n_users=5, n_items=items, longest=longest, seed=factors)
    tolerance = als_tolerance("tensor_core") * max(1, factors / 100)
    als_case(launcher.name, "tensor_core", ratings, factors, biases=True).assert_close(tolerance, HALF)


def test_a_chunk_after_another_gives_the_same_bits(launcher):
    ratings = ragged_ratings(seed=4)
    whole, parts = (
        ALS(6, biases=True, solver="tensor_core", device=launcher.name, chunk=chunk).fit(ratings, 2)
        for chunk in (None, 50)
    )
    assert np.array_equal(whole.user_factors, parts.user_factors)
    assert np.array_equal(whole.item_factors, parts.item_factors)


def test_the_reference_has_the_least_loss():
    rows, rng = ragged_ratings(seed=1).by_user, np.random.default_rng(0)
    fixed = random_factors(40, 5, seed=2).astype(np.float64)
    solved = reference.als_update(rows, fixed, 0.1, pinned=-2)
    assert (solved[:, -2] == 1).all()

    def loss(row, x):
        chosen = slice(rows.indptr[row], rows.indptr[row + 1])
        left = rows.values[chosen] - fixed[rows.indices[chosen]] @ x
        return left @ left + 0.1 * rows.counts[row] * (np.delete(x, -2) @ np.delete(x, -2))

    for row in np.flatnonzero(rows.counts)[:10]:
        for _ in range(20):
            step = rng.standard_normal(5) * 1e-3
            step[-2] = 0
            assert loss(row, solved[row]) < loss(row, solved[row] + step)


@pytest.mark.parametrize("solver", kernels_on(ALS, "cpu"))
def test_planted_biases_are_found(solver):
    rng = np.random.default_rng(0)
    of_user, of_item = rng.standard_normal(80), rng.standard_normal(60)
    users, items = (a.ravel() for a in np.indices((80, 60)))
    ratings = Ratings(users, items, 3 + of_user[users] + of_item[items], 80, 60)
    fitted, without = (ALS(1, 1e-3, biases=b, solver=solver, device="cpu").fit(ratings, 30) for b in (True, False))
    assert fitted.score(ratings)["rmse"] < 0.05 < 0.2 < without.score(ratings)["rmse"]


def test_who_has_no_rating_is_predicted_by_the_other_one(device):
    ratings = ragged_ratings(seed=3)
    for kernel in kernels_on(ALS, device)[-2:]:
        fitted = ALS(4, biases=True, solver=kernel, device=device).fit(ratings, 2, ratings)
        user, item = np.flatnonzero(ratings.user_counts == 0)[0], np.flatnonzero(ratings.item_counts == 0)[0]
        some_user, some_item = ratings.users[0], ratings.items[0]
        assert fitted.predict(user, some_item) == np.float32(fitted.item_biases[some_item]) + np.float32(fitted.mean)
        assert fitted.predict(some_user, item) == np.float32(fitted.user_biases[some_user]) + np.float32(fitted.mean)
        error = fitted.predict(ratings.users, ratings.items).astype(np.float64) - ratings.values
        assert fitted.history.rmse.iloc[-1] == pytest.approx(np.sqrt(np.mean(error**2)), rel=1e-5)
        items, predicted = fitted.recommend(user, 5)
        assert np.allclose(predicted, fitted.predict(user, items))


def test_the_start_is_the_mean_for_who_has_no_rating_and_near_it_for_others():
    ratings = ragged_ratings(seed=3)
    users, items = ALS(4, biases=True, device="cpu").initial_factors(ratings)
    assert users.shape[1] == items.shape[1] == 6 and users.dtype == items.dtype == np.float32
    assert (users[:, -1] == 1).all() and (items[:, -2] == 1).all()
    assert not users[:, -2].any() and not items[:, -1].any()
    assert not users[ratings.user_counts == 0, :-2].any() and not items[ratings.item_counts == 0, :-2].any()
    assert users[:, :-2].min() < -0.4 and users[:, :-2].max() > 0.4


def test_biases_count_as_two_columns_of_a_kernel(host):
    assert ALS(254, biases=True, solver="tensor_core", device="emulator").columns == 256
    with pytest.raises(ValueError, match="biases"):
        ALS(255, biases=True, solver="tensor_core", device="emulator")
    with pytest.raises(ValueError, match="biases"):
        ALS(31, biases=True, solver="thesis_shared", device="emulator")
    with pytest.raises(ValueError, match="biases"):
        ALS(biases=1)
