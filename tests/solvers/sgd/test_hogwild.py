"""Hogwild draws with replacement: what its updates make, and how many may be in flight."""

import numpy as np
import pytest

from cases import sgd_case, sgd_steps
from gpumf import SGD
from gpumf.backends.cpu import reference
from gpumf.ratings import Ratings
from gpumf.solvers.sgd_base import draw_key
from gpumf.solvers.sgd_hogwild import safe_updates
from support import kernels_on, one_rating_a_row, planted, random_factors, to_numpy

DRAWING = ["sequential", "hogwild"]  # kernels whose updates draw with replacement


@pytest.mark.parametrize("factors", [1, 33])
def test_updates_that_cannot_collide_match_the_reference(device, factors):
    # Each sample is drawn about once among many, so that a lost update would be a wrong kernel, not a race.
    ratings = one_rating_a_row(50_000)
    for kernel in set(kernels_on(SGD, device)) & {*DRAWING, "parallel"}:
        case = sgd_case(device, kernel, ratings, factors)
        trainer, model = case.make_solver(), case.model
        trainer.updates(0, 300)
        steps = sgd_steps(model, model.learning_rate)
        expected = reference.hogwild(ratings, *case.start, steps, draw_key(model.hyperparameters), 0, 300)
        for a, e in zip(to_numpy(device, *trainer.factors()), expected, strict=True):
            wrong = np.abs(a - e).max(axis=1) > 1e-5
            # Of 300 draws from 50,000 ratings, a pair may be the same by chance and race.
            assert wrong.sum() <= 6, kernel


def test_every_draw_is_a_rating_of_the_set(device):
    # Three ratings among empty rows: vectors of other users and items stay as they were.
    ratings = Ratings([1, 5, 8], [2, 0, 2], [1, 3, 5], 10, 4)
    for kernel in set(kernels_on(SGD, device)) & {*DRAWING, "parallel"}:
        p, q = random_factors(10, 16, 1), random_factors(4, 16, 2)
        model = SGD(16, solver=kernel, device=device, biases=False)
        trainer = model.make_solver(ratings, p, q)
        trainer.updates(0, 500)
        new_p, new_q = to_numpy(device, *trainer.factors())
        assert sorted(np.flatnonzero((new_p != p).any(1))) == [1, 5, 8]
        assert sorted(np.flatnonzero((new_q != q).any(1))) == [0, 2]


def test_the_default_grid_of_hogwild_loses_little(launcher):
    (train, test), epochs = (
        (planted(100, 80, 0.5), 6) if launcher.name == "emulator" else (planted(400, 300, 0.5), 20)
    )
    options = {"factors": 5, "regularization": 0.01, "learning_rate": 0.02}
    expected = SGD(solver="sequential", biases=False, **options).fit(train, epochs, test).history.rmse.min()
    fitted = SGD(solver="hogwild", device=launcher.name, biases=False, **options).fit(train, epochs, test)
    assert fitted.history.rmse.min() < 1.1 * expected


def test_safe_updates_counts_meetings():
    # 50 users and 20 items with equal shares: of n draws at once, n (1/50 + 1/20) meet a given one.
    users, items = (a.ravel() for a in np.meshgrid(np.arange(50), np.arange(20)))
    ratings = Ratings(users, items, np.ones(1000), 50, 20)
    assert safe_updates(ratings, 1) == np.ceil(1 / (1 / 50 + 1 / 20))
    assert safe_updates(ratings, 200) == 5 and safe_updates(ratings, 2000) == 1
    # One item in every rating: whatever else is in flight meets it.
    assert safe_updates(Ratings(np.arange(1000), np.zeros(1000), np.ones(1000), 1000, 9), 1) == 1
