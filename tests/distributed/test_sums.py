"""Normal equations that workers add up: in C++ as in NumPy, which takes its place without a compiler."""

import numpy as np
import pytest

from gpumf.backends.cpu import als
from gpumf.distributed.als import added_up, system_size
from support import ragged_ratings, random_factors


@pytest.mark.parametrize("factors", [1, 16, 17, 40])
@pytest.mark.parametrize("alpha", [None, 2.0])
def test_sums_of_equations_are_numpys(factors, alpha, monkeypatch):
    ratings = ragged_ratings(n_users=60, n_items=700, longest=650, seed=factors)
    ratings.by_user.values[::3] *= -1  # to which implicit feedback gives no weight
    fixed = random_factors(ratings.n_items, factors, 1)
    if als.native_sums(factors) is None:
        pytest.skip("C++ does not compile here")
    found = added_up(ratings.by_user, 7, 50, fixed, alpha)
    monkeypatch.setattr(als, "native_sums", lambda factors: None)
    expected = added_up(ratings.by_user, 7, 50, fixed, alpha)
    assert found.shape == (43, system_size(factors)) and np.abs(expected).max() > 1
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())
