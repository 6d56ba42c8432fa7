"""Rows in several segments, in launch after launch, and ratings below zero: kernels against one core."""

import numpy as np
import pytest

from gpumf import ALS
from gpumf.ratings import Ratings
from support import ragged_ratings


def solved(model, train, epochs, **parts):
    trainer = model.make_solver(train, **parts)
    for epoch in range(epochs):
        trainer.epoch(epoch)
    return [model._to_host([factors])[0] for factors in trainer.factors()]


@pytest.mark.parametrize("kernel", ["tensor_core", "cumf_cholesky"])
def test_parts_of_a_row_are_all_added_in_each_launch(host, kernel):
    train = ragged_ratings(n_users=20, n_items=70, longest=65, seed=4)
    model = ALS(6, 0.1, solver=kernel, device="emulator", cg_steps=30, cg_tolerance=1e-7, biases=False)
    whole = solved(ALS(6, 0.1, solver="sequential", device="cpu", biases=False), train, 2)
    for longest in (16, 32):
        for parts, one in zip(solved(model, train, 2, longest=longest), whole, strict=True):
            np.testing.assert_allclose(parts, one, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("kernel", ["tensor_core", "cumf_cholesky", "thesis_shared"])
def test_ratings_far_below_zero_have_the_digits_of_those_above(host, kernel):
    above = ragged_ratings(n_users=20, n_items=30, longest=25, seed=5)
    below = Ratings(above.users, above.items, 2 - 2000 * above.values, above.n_users, above.n_items)
    start = [np.random.default_rng(k).random((n, 6), np.float32) for k, n in enumerate((20, 30))]
    found = []
    for of, device in ((kernel, "emulator"), ("sequential", "cpu")):
        steps = {"cg_steps": 30, "cg_tolerance": 1e-7}
        trainer = ALS(6, 0.1, solver=of, device=device, biases=False, **steps).make_solver(below, *start)
        trainer.solve_users()
        found.append(ALS(6, solver=of, device=device, biases=False)._to_host([trainer.factors()[0]])[0])
    np.testing.assert_allclose(*found, rtol=0.02, atol=0.02 * np.abs(found[1]).max())
    assert np.abs(found[1]).max() > 100
