"""Implicit feedback by Hopper's own products, which take rows that were multiplied in shared memory."""

import numpy as np
import pytest

from cases import HALF, als_case
from gpumf import ImplicitALS
from gpumf.models import batch
from gpumf.ratings import DeviceRatings, Ratings
from gpumf.solvers import als_tensor_core
from gpumf.solvers.als_tensor_core import is_hopper
from support import ragged_ratings, random_factors, slow

WGMMA = {"WGMMA": 1, "THROUGH_L1": 0, "STAGE_ROWS": 64}
FACTORS = [113, 128, *slow(65, 100, 120, 200, 256)]


@pytest.fixture
def hopper(launcher, monkeypatch):
    """The devices that have these products, which models of tensor_core take there."""
    if launcher.name == "cuda" and not is_hopper(launcher.facts):
        pytest.skip("only compute capability 9.0 has its instructions")
    monkeypatch.setattr(als_tensor_core, "of_device", lambda *_: WGMMA)
    return launcher


def counts(n_users=5, n_items=300, longest=150, seed=0, scale=1):
    """Ratings from -2 to 5, some of them 0, times `scale`."""
    ratings = ragged_ratings(n_users, n_items, longest, seed)
    values = np.random.default_rng(seed).integers(-2, 6, ratings.nnz) * np.float32(scale)
    return Ratings(ratings.users, ratings.items, values, n_users, n_items)


def case_of(device, ratings, factors, alpha, regularization, **options):
    start = random_factors(ratings.n_users, factors, 2), random_factors(ratings.n_items, factors, 1)
    case = als_case(device.name, "tensor_core", ratings, factors, alpha, regularization, start, **options)
    case.parts = {"longest": 64}  # rows of several segments
    return case


@pytest.mark.parametrize("alpha", [0.3, 40.0])
@pytest.mark.parametrize("factors", FACTORS)
def test_half_sweep_matches_the_reference(hopper, factors, alpha):
    ratings = counts(seed=factors)
    assert (ratings.by_user.counts == 0).any() and (ratings.values < 0).any() and (ratings.values == 0).any()
    case = case_of(hopper, ratings, factors, alpha, 25 * alpha)
    first, again = case.run(HALF), case.run(HALF)
    assert all(map(np.array_equal, first, again))
    assert not first[0][ratings.by_user.counts == 0].any()
    case.assert_close(2e-3, HALF, first, floor=1e-3)


@pytest.mark.parametrize("factors", [128, *slow(256)])
def test_weights_of_any_size_fit_half_precision(hopper, factors):
    for scale, alpha in ((1e4, 40.0), (1e-4, 1e-3)):
        ratings = counts(seed=5, scale=scale)
        case_of(hopper, ratings, factors, alpha, 25 * max(alpha * scale, 1)).assert_close(2e-3, HALF, floor=1e-3)


@pytest.mark.parametrize("factors", [120, *slow(208)])
def test_few_steps_go_as_far_as_those_of_other_products(hopper, factors):
    """Both round the same factors times the same roots; their sums have other orders."""
    ratings = counts(n_users=8, seed=7)
    case = case_of(hopper, ratings, factors, 3.0, 40.0, cg_steps=3, cg_tolerance=0)
    ours = case.run(HALF)[0]
    case.parts |= {"WGMMA": 0, "THROUGH_L1": 1}
    theirs = case.run(HALF)[0]
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3 * np.abs(theirs).max())
    assert not np.array_equal(ours, theirs)


@pytest.mark.parametrize("factors", [113, *slow(200)])
def test_second_epochs_go_on_from_the_first(hopper, factors):
    case = case_of(hopper, counts(n_users=12, n_items=40, longest=38, seed=2), factors, 2.0, 50.0)
    case.assert_close(1e-2, 2, floor=1e-3)


@pytest.mark.parametrize("factors", [113, *slow(128, 256)])
def test_short_stages_give_the_same_bits(hopper, factors):
    case = case_of(hopper, counts(seed=3), factors, 2.0, 50.0)
    long = case.run(HALF)[0]
    case.parts |= {"STAGE_ROWS": 32}
    assert np.array_equal(case.run(HALF)[0], long)


def test_streamed_rows_give_the_same_bits(hopper):
    ratings, found = counts(n_users=9, n_items=20, longest=15, seed=1), set()
    for chunk in (None, 1, 40):
        model = ImplicitALS(113, 0.1, solver="tensor_core", device=hopper.name, chunk=chunk).fit(ratings, 1)
        found.add(model.user_factors.tobytes() + model.item_factors.tobytes())
    assert len(found) == 1


def test_together_and_alone_are_the_same_bits(hopper, monkeypatch):
    monkeypatch.setattr(als_tensor_core, "longest_segment", lambda nnz: 4)
    settings = {"alpha": 1.0}, {"alpha": 9.0, "unobserved_weight": 2.0}, {"regularization": 0.5}
    ratings = counts(n_users=9, n_items=20, longest=15, seed=4)
    models = [ImplicitALS(113, device=hopper.name, **setting) for setting in settings]
    shared = DeviceRatings.of(ratings, hopper)._shared()
    for setting, arrays in zip(settings, list(batch.trained_together(models, shared, 2)), strict=True):
        alone = ImplicitALS(113, device=hopper.name, **setting).fit(ratings, 2)
        assert all(map(np.array_equal, arrays, alone._learned))


@pytest.mark.parametrize("factors", [113, *slow(200)])
def test_the_same_bits_in_every_order(host, factors):
    case, found = case_of(host, counts(n_users=4, n_items=90, longest=80, seed=6), factors, 2.0, 50.0), set()
    case.parts |= WGMMA
    for seed in range(3):
        with host.shuffled(seed):
            found.add(case.run(HALF)[0].tobytes())
    assert len(found) == 1


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [1, 3])
def test_blocks_that_take_several_segments_give_the_same_bits(hopper, blocks):
    ratings, found = counts(n_users=9, n_items=200, seed=1), set()
    for most in (blocks, 1000):
        solver = case_of(hopper, ratings, 200, 2.0, 50.0).make_solver()
        solver._max_blocks = {"tensor_core": most}
        solver.solve_users()
        found.add(hopper.to_numpy(solver.factors()[0]).tobytes())
    assert len(found) == 1
