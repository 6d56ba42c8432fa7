"""Implicit feedback: every kernel against the float64 reference, and what the estimator makes of it."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from cases import HALF, HU, als_case, als_tolerance
from gpumf import ImplicitALS
from gpumf.backends.cpu import reference
from gpumf.models import als
from gpumf.ratings import Ratings
from support import kernels_on, ragged_ratings, random_factors, slow


def implicit_ratings(n_users=30, n_items=50, longest=40, seed=0):
    """Counts from -2 to 5: dislikes below 0, which is as good as no rating."""
    ratings = ragged_ratings(n_users, n_items, longest, seed)
    values = np.random.default_rng(seed).integers(-2, 6, ratings.nnz)
    return Ratings(ratings.users, ratings.items, values, n_users, n_items)


def case_of(device, kernel, ratings, factors, alpha, regularization=5.0):
    start = random_factors(ratings.n_users, factors, 2), random_factors(ratings.n_items, factors, 1)
    return als_case(device, kernel, ratings, factors, alpha, regularization, start)


def tolerance(kernel):
    """FP16 rounds weighted factors, or the matrix."""
    return 1e-2 if kernel == "tensor_core" else als_tolerance(kernel)


@pytest.mark.parametrize("alpha", [0.3, 40.0])
@pytest.mark.parametrize("factors", [1, 32, *slow(10, 64)])
def test_half_sweep_matches_the_reference(device, factors, alpha):
    ratings = implicit_ratings(seed=factors)
    assert (ratings.by_user.counts == 0).any()
    for kernel in kernels_on(ImplicitALS, device):
        case = case_of(device, kernel, ratings, factors, alpha, 5 * alpha)
        learned = case.run(HALF)
        case.assert_close(tolerance(kernel), HALF, learned, floor=1e-3)  # of users who like nothing
        assert not learned[0][ratings.by_user.counts == 0].any()


@pytest.mark.parametrize(("weight", "exponent"), [(0.1, 1.0), (3.0, 0.5), (0.02, 1.7), (1.0, 0.0)])
def test_regularization_by_frequency_matches_the_reference(device, weight, exponent):
    ratings = implicit_ratings(seed=4)
    given = {"unobserved_weight": weight, "regularization_exponent": exponent}
    start = random_factors(ratings.n_users, 12, 2), random_factors(ratings.n_items, 12, 1)
    for kernel in kernels_on(ImplicitALS, device):
        case = als_case(device, kernel, ratings, 12, 2.0, 0.5, start, **given)
        case.assert_close(10 * tolerance(kernel), 1, floor=1e-3)


def test_an_exponent_of_zero_and_a_weight_of_one_are_the_objective_of_hu_et_al():
    hyper = ImplicitALS(4, 0.3, alpha=7.0, **HU, device="cpu").hyperparameters
    assert hyper.confidence == 7.0 and (hyper.ridges(np.arange(5), 100) == np.float32(0.3)).all()


def test_the_objective_of_rendle_et_al_has_the_same_order():
    """Theirs: a sum over rated pairs of (1 - x . y)^2, w0 times one over all pairs of (x . y)^2, and their lambda."""
    ratings, weight = blocks(), 0.2
    ratings = replace(ratings, values=np.ones(ratings.nnz, np.float32))
    given = {"unobserved_weight": weight, "regularization_exponent": 1.0, "solver": "parallel", "device": "cpu"}
    model = ImplicitALS(6, 0.05 * (1 + weight), **given).fit(ratings, 200)
    p, q = (side.astype(np.float64) / (1 + weight) ** 0.5 for side in (model.user_factors, model.item_factors))
    rated = np.zeros((80, 60))
    rated[ratings.users, ratings.items] = 1
    for factors, other, seen in ((p, q, rated), (q, p, rated.T)):
        error = seen * (factors @ other.T - 1) + weight * (factors @ other.T)
        ridges = 0.05 * (seen.sum(axis=1) + weight * len(other))
        gradient = error @ other + ridges[:, None] * factors
        np.testing.assert_allclose(gradient, 0, atol=2e-3)


def test_new_users_are_solved_with_the_regularization_of_training(device):
    train = blocks()
    given = {"unobserved_weight": 0.1, "regularization_exponent": 1.0, "cg_steps": 50, "cg_tolerance": 1e-7}
    for kernel in kernels_on(ImplicitALS, device)[-1:]:
        model = ImplicitALS(6, 0.01, solver=kernel, device=device, **given).fit(train, 3)
        expected = reference.implicit_update(train.by_user, model.item_factors, 0.01, 1.0, 0.1, 1.0)
        folded = model.fold_in(train).user_factors
        assert np.linalg.norm(folded - expected) < 2 * tolerance(kernel) * np.linalg.norm(expected)
        row = train.by_user.indices[: train.by_user.indptr[1]]
        preference, _, _ = model.explain(0, int(row[0]))
        assert preference == pytest.approx(expected[0] @ model.item_factors[row[0]], abs=0.02)


def test_second_epochs_and_second_fits_go_on_from_the_first(device):
    ratings = implicit_ratings(seed=2)
    for kernel in kernels_on(ImplicitALS, device):
        case, close = case_of(device, kernel, ratings, 6, 2.0), 10 * tolerance(kernel)
        case.assert_close(close, 1, floor=1e-3)
        case.assert_close(close, 2, floor=1e-3)
        case.assert_fits_close(close, floor=1e-3)


@pytest.mark.parametrize("factors", [100, *slow(128)])
def test_tensor_core_with_many_factors(launcher, factors):
    ratings = implicit_ratings(n_users=5, n_items=300, longest=50, seed=factors)
    case = case_of(launcher.name, "tensor_core", ratings, factors, 2.0, 50.0)
    case.parts = {"longest": 32}  # rows of several segments
    case.assert_close(tolerance("tensor_core"), HALF, floor=1e-3)


def test_weights_of_any_size_fit_half_precision(launcher):
    ratings = implicit_ratings(seed=5)
    huge = Ratings(ratings.users, ratings.items, ratings.values * 1e4, ratings.n_users, ratings.n_items)
    case = case_of(launcher.name, "tensor_core", huge, 8, 40.0, 1e5)
    case.assert_close(tolerance("tensor_core"), HALF, floor=1e-3)


def blocks(seed=0):
    """Users and items in four groups; a user likes items of the own group."""
    rng = np.random.default_rng(seed)
    users, items = np.nonzero((np.arange(80)[:, None] % 4 == np.arange(60) % 4) & (rng.random((80, 60)) < 0.7))
    return Ratings(users, items, rng.integers(1, 4, len(users)), 80, 60)


def test_it_finds_what_users_like(device):
    train, test = blocks().split(0.3, seed=1)
    exact = ImplicitALS(8, 0.1, alpha=10.0, **HU, solver="parallel").fit(train, 4, test)
    assert (
        exact.evaluate_ranking(test, k=5)["ndcg"] > 3 * 5 / 60
    )  # a list at random has as many hits as it has of all items
    items, preferences = exact.recommend(0, k=3)
    assert (items % 4 == 0).all() and not set(items) & set(train.items[train.users == 0])
    assert preferences.max() < 1.5
    for kernel in kernels_on(ImplicitALS, device)[-1:]:
        model = ImplicitALS(8, 0.1, alpha=10.0, **HU, solver=kernel, device=device, cg_steps=10).fit(train, 4, test)
        assert model.evaluate_ranking(test, k=5)["ndcg"] == pytest.approx(
            exact.evaluate_ranking(test, k=5)["ndcg"], abs=0.02
        )
        errors = np.abs(model.predict(test.users, test.items) - 1)
        assert model.score(test)["mae"] == pytest.approx(errors.mean(), rel=1e-5)


def test_a_user_without_ratings_prefers_nothing():
    train = Ratings([0, 0, 1], [0, 1, 1], [1, 2, 5], 3, 3)
    model = ImplicitALS(4, solver="parallel").fit(train, 2)
    assert model.predict(2, 0) == 0 and model.predict(0, 2) == 0 and model.predict(1, 1) > 0.5


@pytest.mark.parametrize("factors", [1, 64])
def test_it_starts_near_zero(factors):
    for start in ImplicitALS(factors, device="cpu").initial_factors(blocks()):
        assert abs(start.mean()) < 0.02 and start.std() == pytest.approx(0.1 / factors**0.5, rel=0.3)


def test_a_regularization_that_shrinks_all_factors_to_zero_is_told(device):
    train = ragged_ratings(60, 40, 20, seed=3)
    with pytest.warns(RuntimeWarning, match="regularization=1000000.0 is so large that all factors became 0"):
        ImplicitALS(8, regularization=1e6, device=device).fit(train, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ImplicitALS(8, device=device).fit(train, 4)
        ImplicitALS(8, regularization=1e6, device=device).fit(train, 0)


def test_an_exponent_beyond_the_range_of_float32_is_refused():
    with pytest.raises(ValueError, match=r"regularization_exponent=30\.0 .* exceeds the range of float32"):
        ImplicitALS(8, 1.0, regularization_exponent=30, device="cpu").fit(blocks(), 1)


def test_defaults_depend_on_the_ratings_and_not_on_their_scale():
    """All pairs weigh 16 times what the ratings do, or four ratings each; lambda_u is 0.55 of the root of that."""
    ratings, found = blocks(), []
    for scale in (1, 20):
        scaled = replace(ratings, values=ratings.values * scale)
        model = ImplicitALS(8, device="cpu").fit(scaled, 5)
        hyper, mean, of_user = model.hyperparameters, scaled.mean, ratings.nnz / 80
        assert hyper.unobserved_weight == pytest.approx(min(16 * mean * of_user / 60, 4 * mean))
        ridge = hyper.regularization * (of_user + hyper.unobserved_weight * 60)
        assert ridge == pytest.approx(0.55 * (mean * hyper.unobserved_weight * 60) ** 0.5)
        found.append(model.recommend(np.arange(80), k=5)[0])
    assert (found[0] == found[1]).mean() > 0.9
    plain = ImplicitALS(8, 0.3, regularization_exponent=0.0, device="cpu").fit(ratings, 1)
    assert plain.hyperparameters.regularization == 0.3 and plain.regularization == 0.3


@pytest.mark.parametrize("weights", [-1, 0, 1])
@pytest.mark.parametrize("strengths", [-2, 0, 1])
def test_shares_are_the_best_that_steps_lead_to(weights, strengths):
    def judged(shares):
        places = np.log2(np.divide(shares, als._SHARES)) / (4, 0.5)
        tried.append(tuple(np.round(places).astype(int)))
        return np.exp(-0.1 * abs(places - (weights, strengths)).sum())

    tried = []
    found = als.best_shares(judged, als._SHARES)
    assert found == pytest.approx((16 * 16.0**weights, 0.55 * 2 ** (strengths / 2)))
    assert len(set(tried)) == len(tried) <= als._TRIALS
    bounded = als.best_shares(judged, als._SHARES, heaviest=100)
    assert bounded == pytest.approx((16 * 16.0 ** min(weights, 0), 0.55 * 2 ** (strengths / 2)))


def test_shares_stay_where_lists_are_hardly_better():
    assert als.best_shares(lambda shares: 1 + 0.004 * (shares != als._SHARES), als._SHARES) == als._SHARES
    assert als.best_shares(lambda shares: 0.0, als._SHARES) == als._SHARES


@pytest.mark.parametrize("given", [None, 3.0])
def test_held_out_ratings_choose_the_defaults(given, monkeypatch):
    """By their NDCG, each with its own; who says lambda, or trains no epoch, has nothing held out."""
    monkeypatch.setattr(als, "_FEWEST", 1)
    ratings, judged = blocks(), []

    def judge(model, held):
        known = model._training
        assert known.nnz + held.nnz == ratings.nnz and held.nnz == round(0.1 * ratings.nnz)
        judged.append((model.unobserved_weight, model.regularization))
        return {"ndcg": float(len(judged))}  # the longer, the better

    monkeypatch.setattr(ImplicitALS, "evaluate_ranking", judge)
    model = ImplicitALS(8, unobserved_weight=given, device="cpu").fit(ratings, 2)
    assert len(judged) == len(set(judged)) == als._TRIALS and model.epoch == 2
    assert all(weight == given for weight, _ in judged) or given is None
    hyper = model.hyperparameters
    strength = 0.55 * 2 ** ((als._TRIALS - 1) / 2)
    ridge = hyper.regularization * (ratings.nnz / 80 + hyper.unobserved_weight * 60)
    assert ridge == pytest.approx(strength * (ratings.mean * hyper.unobserved_weight * 60) ** 0.5)
    found = {"regularization": hyper.regularization, "unobserved_weight": hyper.unobserved_weight}
    assert np.array_equal(ImplicitALS(8, **found, device="cpu").fit(ratings, 2).user_factors, model.user_factors)
    ImplicitALS(8, device="cpu").fit(ratings, 0)
    assert len(judged) == als._TRIALS


def test_dislikes_weigh_as_ratings_do_in_the_defaults():
    ratings = blocks()
    signs = np.where(np.arange(ratings.nnz) % 2, -1, 1)
    found = [
        ImplicitALS(4, device="cpu").fit(replace(ratings, values=values), 1).hyperparameters.unobserved_weight
        for values in (np.ones(ratings.nnz, np.float32), signs.astype(np.float32))
    ]
    assert found[0] == pytest.approx(found[1])


def test_ratings_of_zero_have_the_defaults_of_ones():
    ratings = blocks()
    found = [
        ImplicitALS(4, device="cpu")._defaults_for(replace(ratings, values=np.full(ratings.nnz, value, np.float32)))
        for value in (0, 1)
    ]
    assert found[0] == found[1]


def test_a_solver_made_before_fit_has_the_defaults_of_its_ratings():
    model = ImplicitALS(8, device="cpu")
    solver = model.make_solver(blocks())
    solver.epoch(0)
    assert model.unobserved_weight is None and model.get_params()["regularization"] is None
    assert np.array_equal(solver.factors()[0], ImplicitALS(8, device="cpu").fit(blocks(), 1).user_factors)


def test_files_without_the_newer_parameters_keep_their_objective():
    model = ImplicitALS(4, 0.1, alpha=3.0, **HU, device="cpu").fit(blocks(), 2)
    header, arrays = model._content()
    for name in ("unobserved_weight", "regularization_exponent"):
        del header["parameters"][name]
    assert ImplicitALS._of_content(header, arrays, "cpu").hyperparameters == model.hyperparameters


def test_pairs_without_ratings_count_one():
    users, items = ["ann", "ann", "bob", "eve"], ["up", "heat", "up", "alien"]
    frame = pd.DataFrame({"user": users, "item": items})
    wanted = ImplicitALS(2, device="cpu").fit((users, items, [1] * 4), 3)
    for given in (frame, (users, items), frame[["item", "user"]]):
        model = ImplicitALS(2, device="cpu").fit(given, 3, validation=frame)
        assert np.array_equal(model.user_factors, wanted.user_factors)
    assert wanted.score(frame) == model.score(frame)
    assert model.fold_in(pd.DataFrame({"user": ["zoe"], "item": ["up"]})).user_ids.tolist() == ["zoe"]


def test_what_users_dislike_is_recommended_less_than_what_they_have_not_seen():
    users, items = (index.ravel() for index in np.indices((20, 6)))
    chosen = (users + items) % 3 > 0
    likes = Ratings(users[chosen], items[chosen], np.ones(chosen.sum()), 20, 6)
    disliked = np.where((likes.users == 0) & (likes.items == 1), -5, likes.values)
    before, after = (
        ImplicitALS(3, 0.1, alpha=5.0, **HU, device="cpu").fit(Ratings(likes.users, likes.items, values, 20, 6), 10)
        for values in (np.where(disliked < 0, 0, disliked), disliked)
    )
    assert after.predict(0, 1) < before.predict(0, 1) - 0.05


@pytest.mark.parametrize("scale", [None, (-5, 5)])
@pytest.mark.parametrize("value", [0, -2])
def test_ratings_of_which_none_is_above_zero_are_refused(value, scale):
    ratings = blocks()
    none = replace(ratings, values=np.full(ratings.nnz, value, np.float32), scale=scale)
    model = ImplicitALS(4, device="cpu")
    with pytest.raises(ValueError, match="no rating above 0"):
        model.fit(none, 2)
    assert model.history is None
    one = replace(none, values=np.where(np.arange(ratings.nnz) == 3, np.float32(1), none.values))
    before = model.fit(one, 2).user_factors
    assert before.any()
    with pytest.raises(ValueError, match="no rating above 0"):
        model.fit(none, 2, warm_start=True)
    assert model.user_factors is before and model.epoch == 2


def test_defaults_stay_where_all_that_is_preferred_is_held_out(monkeypatch):
    monkeypatch.setattr(als, "_FEWEST", 1)
    ratings = blocks()
    _, held = ratings.split(als._HELD, seed=0)
    only = (ratings.users == held.users[0]) & (ratings.items == held.items[0])
    one = replace(ratings, values=np.where(only, np.float32(1), np.float32(-1)))
    model = ImplicitALS(4, device="cpu").fit(one, 1)
    assert model._shares == als._SHARES and model.user_factors.any()


def test_ratings_whose_weight_is_beyond_32_bits_are_refused():
    with pytest.raises(ValueError, match="beyond the range of 32 bits; scale the ratings"):
        ImplicitALS(4, alpha=3e38, device="cpu").fit(ragged_ratings(30, 20, 10, seed=1), 1)
