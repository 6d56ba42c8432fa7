"""Conjugate gradient on the processor: against float64, on one core and on all, in C++ and by Numba."""

from functools import partial

import numpy as np
import pytest

from gpumf import ALS, ImplicitALS
from gpumf.backends import compile
from gpumf.backends.cpu import cg, reference
from gpumf.ratings import Ratings
from support import ragged_ratings, random_factors

ALPHA = 2.0


@pytest.fixture(params=[cg.native_update, cg.numba_update], ids=["native", "numba"])
def make(request):
    if request.param is cg.native_update and request.param(16, False, False) is None:
        pytest.skip("C++ does not compile here")
    return request.param


@pytest.fixture(params=[False, True], ids=["explicit", "implicit"])
def implicit(request):
    return request.param


def ridges(rows, regularization, weighted):
    """Lambda, or lambda n, of each row."""
    return np.float32(regularization) * (rows.counts if weighted else np.ones(rows.n_rows)).astype(np.float32)


def side_update(make, ratings, fixed, start, implicit, *, regularization=0.05, weighted=None, parallel=0, **limits):
    """(what is solved from `start`, the reference's solution or None where there is none)."""
    rows, solved = ratings.by_user, start.copy()
    weighted = not implicit if weighted is None else weighted
    run = make(fixed.shape[1], parallel, implicit)
    given = {"steps": 3 * fixed.shape[1] + 50, "tolerance": 1e-7} | limits
    run(
        rows,
        cg.longest_first(rows.indptr),
        fixed,
        solved,
        ridges(rows, regularization, weighted),
        ALPHA,
        *given.values(),
    )
    try:
        if implicit:
            return solved, reference.implicit_update(rows, fixed, regularization, ALPHA)
        return solved, reference.als_update(rows, fixed, regularization, weighted)
    except np.linalg.LinAlgError:
        return solved, None


def steps_of(a, b, x, steps):
    """Algorithm 1 of Tan et al. 2018 in float64; from zero where that is nearer than x."""
    residual = b - a @ x
    if not residual @ residual < b @ b:
        x, residual = np.zeros_like(b), b
    p = residual
    for _ in range(steps):
        along = residual @ residual / (p @ a @ p)
        x, before = x + along * p, residual @ residual
        residual = residual - along * a @ p
        p = residual + residual @ residual / before * p
    return x


def close(actual, expected, tolerance=1e-4):
    assert np.isfinite(actual).all()
    return np.linalg.norm(actual - expected) < tolerance * np.linalg.norm(expected)


@pytest.mark.parametrize(
    "factors", [1, 17, 33, *(pytest.param(f, marks=pytest.mark.slow) for f in (2, 15, 32, 48, 64, 100, 128))]
)
def test_many_steps_solve_the_normal_equations(make, implicit, factors):
    # The longest row has several chunks of 256 ratings, and a rest.
    ratings = ragged_ratings(n_users=30, n_items=700, longest=650, seed=factors)
    assert ratings.by_user.counts.max() > 512 and ratings.by_user.counts.min() == 0
    fixed, start = random_factors(700, factors, 1), random_factors(30, factors, 2)
    for weighted in (True, False) if not implicit else (False,):
        solved, expected = side_update(make, ratings, fixed, start, implicit, weighted=weighted, regularization=1.0)
        assert close(solved, expected)
        assert not solved[ratings.by_user.counts == 0].any()


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_each_step_is_one_of_conjugate_gradient(make, implicit, steps):
    ratings = ragged_ratings(seed=1)
    rows, fixed = ratings.by_user, random_factors(ratings.n_items, 20, 1) - np.float32(0.3)
    start = random_factors(ratings.n_users, 20, 2) * np.float32(0.3)
    start[::2] *= -100
    solved, _ = side_update(make, ratings, fixed, start, implicit, steps=steps, tolerance=0.0)
    v, cold = fixed.astype(float), 0
    for row, (begin, end) in enumerate(zip(rows.indptr[:-1], rows.indptr[1:], strict=True)):
        of_row, values = v[rows.indices[begin:end]], rows.values[begin:end]
        weights = ALPHA * values if implicit else np.ones(len(values))
        a = (of_row.T * weights) @ of_row + (v.T @ v if implicit else 0)
        a += 0.05 * (1 if implicit else len(values)) * np.eye(20)
        b = of_row.T @ (1 + weights if implicit else values)
        if len(values) > steps:  # fewer ratings than steps are solved, and what is left is rounding
            expected = steps_of(a, b, start[row].astype(float), steps)
            cold += np.linalg.norm(b - a @ start[row]) >= np.linalg.norm(b)
            assert close(solved[row], expected, 2e-3), row
    assert 0 < cold < len(rows.counts)  # from zero, and from the solution before


def test_all_cores_give_the_same_bits(make, implicit):
    ratings = ragged_ratings(n_users=900, seed=1)  # enough for three threads of C++, as it starts them
    fixed, start = random_factors(ratings.n_items, 33, 1), random_factors(900, 33, 2)
    one, all_ = (side_update(make, ratings, fixed, start, implicit, parallel=p, steps=3)[0] for p in (False, True))
    assert np.array_equal(one, all_) and not np.array_equal(one, start)


@pytest.mark.parametrize("factors", [16, 17])
def test_rows_may_begin_anywhere_in_a_cache_line(implicit, factors):
    if (run := cg.native_update(factors, False, implicit)) is None:
        pytest.skip("C++ does not compile here")
    ratings = ragged_ratings(seed=2)
    rows, whole = ratings.by_user, compile.aligned(np.zeros((ratings.n_items + 1, factors), np.float32))
    found = set()
    for first in range(0, factors, 4):
        fixed = whole.reshape(-1)[first : first + ratings.n_items * factors].reshape(-1, factors)
        fixed[...] = random_factors(ratings.n_items, factors, 1)
        solved = random_factors(ratings.n_users, factors, 2)
        run(rows, cg.longest_first(rows.indptr), fixed, solved, ridges(rows, 0.05, not implicit), ALPHA, 3, 0.0)
        found.add(solved.tobytes())
    assert len(found) == 1


def test_the_order_of_rows_changes_no_bit(implicit):
    if (run := cg.native_update(20, True, implicit)) is None:
        pytest.skip("C++ does not compile here")
    ratings = ragged_ratings(n_users=50, seed=4)
    rows, fixed = ratings.by_user, random_factors(ratings.n_items, 20, 1)
    found = set()
    for order in (cg.longest_first(rows.indptr), *(np.random.default_rng(k).permutation(50) for k in range(3))):
        solved = random_factors(50, 20, 2)
        run(rows, order.astype(np.int32), fixed, solved, ridges(rows, 0.05, not implicit), ALPHA, 3, 0.0)
        found.add(solved.tobytes())
    assert len(found) == 1


def test_a_long_row_keeps_its_digits(make, implicit):
    """One running sum in FP32 over 300,000 ratings is off by more than a thousandth."""
    n = 300_000
    rng = np.random.default_rng(0)
    ratings = Ratings(np.zeros(n), np.arange(n), rng.integers(1, 6, n), 1, n)
    fixed = rng.random((n, 16), np.float32)
    solved, expected = side_update(make, ratings, fixed, np.zeros((1, 16), np.float32), implicit)
    assert np.abs(solved - expected).max() < 2e-4 * np.abs(expected).max()


def test_a_residual_within_the_tolerance_ends_the_steps(make, implicit):
    ratings = ragged_ratings(seed=3)
    fixed, start = random_factors(ratings.n_items, 16, 1), random_factors(ratings.n_users, 16, 2)
    solved, expected = side_update(make, ratings, fixed, start, implicit, tolerance=1e-7)
    again, _ = side_update(make, ratings, fixed, solved, implicit, tolerance=1e-3)
    assert np.array_equal(again, solved) and close(solved, expected)


def test_a_right_side_of_zero_gives_zero(make, implicit):
    ratings = ragged_ratings(seed=5)
    values = np.where(ratings.users % 2, 0, ratings.values)
    zeros = Ratings(ratings.users, ratings.items, values, ratings.n_users, ratings.n_items)
    fixed, start = random_factors(ratings.n_items, 16, 1), random_factors(ratings.n_users, 16, 2)
    solved, expected = side_update(make, zeros, fixed, start, implicit)
    assert not solved[1::2].any() and solved[::2].any() and close(solved, expected)


def test_what_is_not_a_number_stays_in_its_rows(make):
    ratings = ragged_ratings(n_users=30, seed=3)
    fixed, start = random_factors(ratings.n_items, 17, 1), random_factors(30, 17, 2)
    fixed[4, 3] = np.nan
    start[5] = np.inf  # is left behind
    solved, _ = side_update(make, ratings, fixed, start, False)
    touched = np.isin(np.arange(30), ratings.users[ratings.items == 4])
    assert touched.any() and not touched.all()
    assert np.isnan(solved).any(axis=1)[touched].all() and np.isfinite(solved[~touched]).all()


def test_no_ridge_worth_the_name_and_equal_columns_stay_finite(make, implicit):
    ratings = ragged_ratings(n_users=30, longest=10, seed=2)
    fixed = np.repeat(random_factors(ratings.n_items, 1, 1) * 100, 40, axis=1)
    start = random_factors(30, 40, 2)
    solved, _ = side_update(make, ratings, fixed, start, implicit, regularization=1e-12)
    rated = ratings.by_user.counts > 0
    assert np.isfinite(solved).all() and np.abs(solved).max() < 1 and solved[rated].any(axis=1).all()


@pytest.mark.parametrize("model", [ALS, ImplicitALS])
def test_the_default_and_its_options(model):
    ratings = ragged_ratings(seed=1)
    assert model(64, device="cpu").fit(ratings, 1).solver == "parallel_cg"
    assert model(64, device="cpu").cg_steps == 3


def test_few_factors_are_solved_exactly_by_default():
    ratings = ragged_ratings(seed=1)
    assert ALS(16, device="cpu", biases=False).fit(ratings, 1).solver == "parallel"
    assert ALS(16, solver="cg", device="cpu", biases=False).fit(ratings, 1).solver == "cg"
    assert ImplicitALS(16, device="cpu").fit(ratings, 1).solver == "parallel_cg"


@pytest.mark.parametrize("model", [partial(ALS, biases=False), ImplicitALS])
def test_numba_takes_the_place_of_the_compiler(model, monkeypatch):
    ratings, found = ragged_ratings(seed=1), []
    # Not from near zero, where few steps end far from the solution and rounding decides how far.
    start = random_factors(ratings.n_users, 10, 1), random_factors(ratings.n_items, 10, 2)
    for make in (cg.side_update, cg.numba_update):
        monkeypatch.setattr(cg, "side_update", make)
        trainer = model(10, 1.0, solver="parallel_cg", device="cpu").make_solver(ratings, *start)
        for epoch in range(3):
            trainer.epoch(epoch)
        found.append([side.copy() for side in trainer.factors()])
    for of_native, of_numba in zip(*found, strict=True):
        assert close(of_native, of_numba, 1e-3)


def test_numba_takes_the_place_of_c_where_there_is_no_compiler(monkeypatch):
    ran, rows = [], ragged_ratings(seed=1).by_user
    arrays = cg.longest_first(rows.indptr), random_factors(int(rows.indices.max()) + 1, 4, 1)
    solved = random_factors(rows.n_rows, 4, 2), ridges(rows, 0.05, True)
    for_numba = lambda *what: lambda *_: ran.append(("Numba", *what))  # noqa: E731
    monkeypatch.setattr(cg, "numba_update", for_numba)
    monkeypatch.setattr(cg, "native_update", lambda *what: lambda *_: ran.append(("C++", *what)))
    cg.side_update(4, True, False)(rows, *arrays, *solved)
    monkeypatch.setattr(cg, "native_update", lambda *what: None)
    cg.side_update(4, False, True)(rows, *arrays, *solved)
    assert ran == [("C++", 4, True, False), ("Numba", 4, False, True)]
