"""Preconditioned conjugate gradient for many factors: against float64, in chunks, in parts, and its residual."""

from dataclasses import replace

import numpy as np
import pytest

from cases import HALF, als_case
from gpumf import ImplicitALS
from gpumf.ratings import Ratings
from gpumf.solvers import als_preconditioned
from support import mixed, random_factors, slow

GIVEN = {"unobserved_weight": 0.2, "regularization_exponent": 1.0}


def disliking():
    """Users without ratings, with one, with dislikes alone, and with all items."""
    ratings = mixed(few=(0, 1, 2))
    values = ratings.values.copy()
    values[1:3] = -1
    return replace(ratings, values=values)


def case_of(device, factors, parts=None, **options):
    ratings = disliking()
    start = random_factors(ratings.n_users, factors, 2), random_factors(ratings.n_items, factors, 1)
    case = als_case(device, "preconditioned_cg", ratings, factors, 2.0, 0.3, start, **options)
    case.parts = parts or {}
    return case


def within(device, bound):
    """On a GPU products have operands of TF32, whose digits are 2^-11 of a number apart, not 2^-24."""
    return bound if device.name == "emulator" else max(bound, 0.06)


@pytest.mark.parametrize("factors", [7, 40, *slow(300)])
@pytest.mark.parametrize("options", [{}, GIVEN])
@pytest.mark.parametrize("one_chunk", [2048, 8])
def test_it_has_the_solution_of_float64(launcher, factors, options, one_chunk, monkeypatch):
    """With eight factors a thread and with sixteen; a user without ratings or preferences gets zeros."""
    monkeypatch.setattr(als_preconditioned, "_ONE_CHUNK", one_chunk)
    case = case_of(launcher.name, factors, cg_steps=40, **options)
    learned = case.run(HALF)
    case.assert_close(within(launcher, 2e-3), HALF, learned, floor=1e-3)
    assert not learned[0][0].any() and not learned[0][2].any()
    case.assert_close(within(launcher, 5e-3), 1, floor=1e-3)


def test_parts_of_rows_and_chunks_of_them_change_nothing_but_rounding(launcher):
    whole, parts = (
        np.concatenate(case_of(launcher.name, 40, given, cg_steps=4).run(1))
        for given in ({}, {"longest": 16, "floats": 400})
    )
    assert np.allclose(parts, whole, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("options", [{}, GIVEN])
def test_blocks_of_matrices_change_nothing_but_rounding(launcher, options):
    """U has two blocks or five, and is inverted; G has one or two."""
    whole, *blocked = (
        np.concatenate(case_of(launcher.name, 40, {"columns": columns}, cg_steps=4, **options).run(1))
        for columns in ((40, 40), (24, 40), (8, 32))
    )
    for factors in blocked:
        assert 0 < np.linalg.norm(factors - whole) < 7e-4 * np.linalg.norm(whole)


def test_few_steps_reach_the_solution_and_small_residuals_end_a_row(launcher):
    """From random factors, where most is to be done."""
    solution = case_of(launcher.name, 40, cg_steps=40).run(HALF)[0]

    def distance(**options):
        found = case_of(launcher.name, 40, **options).run(HALF)[0]
        return np.linalg.norm(found - solution) / np.linalg.norm(solution)

    assert distance(cg_steps=20, cg_tolerance=0.0) < 1e-4 < 1 < distance(cg_steps=4)
    assert 0.1 < distance(cg_steps=20, cg_tolerance=0.3) < distance(cg_steps=4)


def test_more_factors_than_rows_of_the_other_side_and_hardly_a_ridge(launcher):
    """Half precision errs most in directions that no row of the fixed side has: predictions stay the same."""
    cells = np.random.default_rng(0).permutation(320)[:150]
    ratings = Ratings(cells // 16, cells % 16, np.ones(150), 20, 16)

    def learned(solver, device, **options):
        model = ImplicitALS(100, 1e-3, **GIVEN, solver=solver, device=device, seed=0, **options).fit(ratings, 2)
        users, items = np.float64(model.user_factors), np.float64(model.item_factors)
        return users, items, users @ items.T

    exact, found = learned("dense", "cpu"), learned("preconditioned_cg", launcher.name, cg_steps=40)
    users, items, products = (np.linalg.norm(a - b) / np.linalg.norm(b) for a, b in zip(found, exact, strict=True))
    assert max(users, items) < within(launcher, 0.02) and products < 1e-3


def test_it_is_the_default_of_many_factors(launcher):
    model = ImplicitALS(400, 0.1, device=launcher.name).fit(disliking(), 1)
    assert model.solver == "preconditioned_cg" and np.isfinite(model.user_factors).all()
