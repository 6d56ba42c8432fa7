"""What Numba compiles of SGD, update by update against float64."""

import numpy as np
import pytest

from gpumf.backends.cpu import reference, sgd
from support import ragged_ratings, random_factors


@pytest.mark.parametrize("biases", [0, 1])
def test_one_core_makes_the_updates_of_the_reference(biases):
    ratings, columns = ragged_ratings(n_users=12, n_items=9, longest=6, seed=4), 3 + 2 * biases
    p, q = random_factors(12, columns, 1), random_factors(9, columns, 2)
    if biases:
        p[:, -1] = q[:, -2] = 1
    expected = reference.hogwild(ratings, p, q, (0.03, 0.2, 0.1, 0.4, 0.3), 7, 5, 60, biases)
    run = sgd.hogwild(columns, biases, parallel=False)
    steps = tuple(map(np.float32, (0.03, 0.2, 0.1, 0.4, 0.3)))
    run(ratings.users, ratings.items, ratings.values, p, q, steps, np.uint64(7), 5, 60, 3)
    for found, right in zip((p, q), expected, strict=True):
        np.testing.assert_allclose(found, right, rtol=2e-5, atol=2e-6)
