"""Implicit feedback by warpgroups.cu, whose products take numbers that were multiplied by weights."""

import numpy as np
import pytest

from cases import HALF, als_case
from gpumf import ImplicitALS
from gpumf.ratings import Ratings
from gpumf.solvers import als_tensor_core
from gpumf.solvers.als_tensor_core import WARPGROUPS, is_hopper
from support import ragged_ratings, random_factors, slow

OF_SOME_SIZES = [
    *(100, 128, 160, 200, 256),
    *slow(9, 64, 65, 72, 88, 112, 113, 120, 121, 129, 144, 192, 193, 248, 249, 255),
]


@pytest.fixture
def hopper(launcher):
    """The devices that have these products."""
    if launcher.name == "cuda" and not is_hopper(launcher.facts):
        pytest.skip("only compute capability 9.0 has its instructions")
    return launcher


@pytest.fixture(autouse=True)
def taken(monkeypatch):
    """Have models of tensor_core launch it, unless definitions of tensor_core.cu are given."""
    monkeypatch.setattr(als_tensor_core, "takes_warpgroups", lambda *_: True)


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
@pytest.mark.parametrize("factors", OF_SOME_SIZES)
def test_half_sweep_matches_the_reference(hopper, factors, alpha):
    ratings = counts(seed=factors)
    assert (ratings.by_user.counts == 0).any() and (ratings.values < 0).any() and (ratings.values == 0).any()
    case = case_of(hopper, ratings, factors, alpha, 25 * alpha)
    assert case.make_solver().source == WARPGROUPS
    first, again = case.run(HALF), case.run(HALF)
    assert all(map(np.array_equal, first, again))
    assert not first[0][ratings.by_user.counts == 0].any()
    case.assert_close(2e-3, HALF, first, floor=1e-3)


@pytest.mark.parametrize("factors", [100, 200, *slow(128, 256)])
def test_weights_of_any_size_fit_half_precision(hopper, factors):
    for scale, alpha in ((1e4, 40.0), (1e-4, 1e-3)):
        ratings = counts(seed=5, scale=scale)
        case_of(hopper, ratings, factors, alpha, 25 * max(alpha * scale, 1)).assert_close(2e-3, HALF, floor=1e-3)


@pytest.mark.parametrize("factors", [70, *slow(128, 208)])
def test_few_steps_go_as_far_as_those_of_tensor_core(hopper, factors):
    found, ratings = [], counts(n_users=8, seed=7)
    for defines in ({}, {"WGMMA": 0, "THROUGH_L1": 1}):
        case = case_of(hopper, ratings, factors, 3.0, 40.0, cg_steps=3, cg_tolerance=0)
        case.parts |= defines
        found.append(case.run(HALF)[0])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-3, atol=1e-3 * np.abs(found[1]).max())
    assert not np.array_equal(found[0], found[1])


@pytest.mark.parametrize("factors", [130, *slow(100)])
def test_second_epochs_go_on_from_the_first(hopper, factors):
    case = case_of(hopper, counts(n_users=12, n_items=40, longest=38, seed=2), factors, 2.0, 50.0)
    case.assert_close(1e-2, 2, floor=1e-3)


@pytest.mark.parametrize("factors", [65, 129, *slow(256)])
def test_sums_over_all_columns_may_have_several_parts(hopper, monkeypatch, factors):
    monkeypatch.setattr(als_tensor_core, "_longest_of_gram", lambda wgmma: 70)
    case = case_of(hopper, counts(seed=8), factors, 2.0, 50.0)
    assert case.make_solver()._users[2].slots == 5
    case.assert_close(2e-3, HALF, floor=1e-3)


def test_streamed_rows_give_the_same_bits(hopper):
    ratings, found = counts(n_users=9, n_items=20, longest=15, seed=1), set()
    for chunk in (None, 1, 40):
        model = ImplicitALS(113, 0.1, solver="tensor_core", device=hopper.name, chunk=chunk).fit(ratings, 1)
        found.add(model.user_factors.tobytes() + model.item_factors.tobytes())
    assert len(found) == 1


@pytest.mark.parametrize("factors", [20, 100, *slow(129)])
def test_the_same_bits_in_every_order(host, factors):
    case, found = case_of(host, counts(n_users=4, n_items=90, longest=80, seed=6), factors, 2.0, 50.0), set()
    for seed in range(3):
        with host.shuffled(seed):
            found.add(case.run(HALF)[0].tobytes())
    assert len(found) == 1


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("factors", [9, 65, *slow(128)])
def test_blocks_that_take_several_segments_give_the_same_bits(hopper, factors, blocks):
    # More segments than a fetching warp knows at a time, and more stages than there is room for.
    for ratings in (counts(50, 800, 60, seed=1), counts(3, 800, 790, seed=2)):
        found = set()
        for most in (blocks, 1000):
            solver = case_of(hopper, ratings, factors, 2.0, 50.0).make_solver()
            solver._max_blocks = {"warpgroups": most}
            solver.solve_users()
            found.add(hopper.to_numpy(solver.factors()[0]).tobytes())
        assert len(found) == 1


@pytest.mark.parametrize("factors", [70, *slow(128)])
def test_weights_of_a_row_may_be_far_apart(hopper, factors):
    ratings = counts(seed=9)
    values = ratings.values * 10 ** np.random.default_rng(9).uniform(-1, 5, ratings.nnz).astype(np.float32)
    far = Ratings(ratings.users, ratings.items, values, ratings.n_users, ratings.n_items)
    assert np.ptp(np.log10(np.abs(values[values != 0]))) > 5
    case_of(hopper, far, factors, 1.0, 2000.0).assert_close(2e-3, HALF, floor=1e-3)
