"""Half-sweeps of ALS on the processor where FP32 ends: what is singular but for rounding."""

from itertools import pairwise

import numpy as np
import pytest

from gpumf.backends.cpu import als
from gpumf.ratings import Ratings
from support import ragged_ratings, random_factors


@pytest.mark.parametrize("make", [als.native_update, als.numba_update], ids=["native", "numba"])
def test_an_unknown_that_others_make_up_for_becomes_zero(make):
    """Columns that are equal but for rounding: the second pivot is noise of the size of a float's last digits."""
    run = make(2, False)
    if run is None:
        pytest.skip("C++ does not compile here")
    rng = np.random.default_rng(0)
    fixed = np.repeat(rng.random((200, 1), np.float32) + 1, 2, axis=1)
    fixed[:, 1] *= 3 + np.float32(2.0**-19) * rng.integers(-1, 2, 200).astype(np.float32)
    rows = Ratings(np.zeros(200, int), np.arange(200), rng.random(200) + 3, 1, 200).by_user
    solved = np.empty((1, 2), np.float32)
    run(rows.indptr, rows.indices, rows.values, fixed, solved, np.float32(0), False)
    assert solved[0, 1] == 0 and 1 < solved[0, 0] < 4


def test_without_a_compiler_numba_solves_the_same_systems(monkeypatch):
    monkeypatch.setattr(als, "native_update", lambda factors, parallel: None)
    ratings, fixed = ragged_ratings(20, 15, 9, seed=1), random_factors(15, 3, 0)
    rows, solved = ratings.by_user, np.full((20, 3), np.nan, np.float32)
    run = als.side_update(3, parallel=False)
    run(rows.indptr, rows.indices, rows.values, fixed, solved, np.float32(0.1), True)
    for row, (begin, end) in enumerate(pairwise(rows.indptr)):
        v, r = fixed[rows.indices[begin:end]].astype(np.float64), rows.values[begin:end]
        wanted = np.linalg.solve(v.T @ v + 0.1 * len(v) * np.eye(3), v.T @ r) if len(v) else np.zeros(3)
        np.testing.assert_allclose(solved[row], wanted, rtol=1e-3, atol=1e-4)


def test_weights_that_leave_nothing_of_the_ridge_have_a_solution():
    fixed = np.repeat(random_factors(6, 1, 0), 3, axis=1)  # of rank one
    gram, solved = fixed.T @ fixed, np.full((1, 3), np.nan, np.float32)
    indptr, indices = np.array([0, 6]), np.arange(6, dtype=np.int32)
    values, alpha = np.full(6, 1e9, np.float32), np.float32(1e9)
    als.implicit_update._function(indptr, indices, values, fixed, gram, solved, np.full(1, 1e-3, np.float32), alpha)
    # All three are alike: every chosen column is predicted to be 1, as nearly as one unknown can.
    best = np.linalg.lstsq(fixed.astype(np.float64), np.ones(6), rcond=None)[0]
    np.testing.assert_allclose(fixed @ solved[0], fixed @ best, rtol=1e-3)
