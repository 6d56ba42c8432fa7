"""BSGD: a batch adds up its gradients."""

import numpy as np
import pytest

from gpumf import SGD
from gpumf.ratings import Ratings
from support import random_factors, to_numpy


@pytest.mark.parametrize("batch", [7, 64])
def test_a_batch_adds_all_its_gradients(launcher, batch):
    # A rating of each user, all of one item, with gradients so small that their order is no matter.
    ratings = Ratings(np.arange(64), np.zeros(64), np.random.default_rng(0).integers(1, 6, 64), 64, 1)
    p, q = random_factors(64, 16, 1), random_factors(1, 16, 2)
    model = SGD(16, 0, learning_rate=1e-5, solver="bsgd", device=launcher.name, batch=batch, biases=False)
    trainer = model.make_solver(ratings, p, q)
    trainer.epoch(0)
    _, new_q = to_numpy(launcher.name, *trainer.factors())
    gradient = ((p @ q.T).ravel() - ratings.values) @ p
    assert np.allclose((q - new_q) / 1e-5, gradient, rtol=0.01)
