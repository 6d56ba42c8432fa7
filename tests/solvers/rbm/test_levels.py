"""Ratings are levels of a scale, and return from them."""

import numpy as np
import pytest

from gpumf import RBM
from gpumf.models import NotFittedError
from gpumf.models.rbm import level_logarithms
from gpumf.ratings import Ratings
from gpumf.solvers.rbm_levels import MAX_LEVELS, level_values, n_levels_of, to_levels


@pytest.mark.parametrize(
    ("values", "scale", "levels", "back"),
    [
        ([1, 2, 5], (1, 5), None, [1, 2, 5]),
        ([0.5, 3.5, 5], (0.5, 5), None, [0.5, 3.5, 5]),
        ([-1, 1], None, None, [-1, 1]),
        ([-10, -4.9, 2.6, 9.8], (-10, 10), 5, [-10, -5, 5, 10]),
        ([0, 50, 74], (0, 100), 3, [0, 50, 50]),
    ],
)
def test_ratings_become_levels_and_return(values, scale, levels, back):
    n = len(values)
    train = Ratings(np.arange(n), np.zeros(n), values, n, 1, scale=scale)
    model = RBM(2, biases=False, levels=levels, solver="sequential").fit(train, 1)
    chosen = to_levels(train.values, model.scale, model.n_levels)
    assert np.allclose(model.level_values[chosen], back)
    assert model.item_weights.shape[1] == len(model.level_values)
    assert (model.level_values.min() <= model.predict(np.arange(n), 0)).all()
    assert (model.level_values.max() >= model.predict(np.arange(n), 0)).all()


def test_jester_is_rounded_as_when_it_is_loaded():
    raw = np.linspace(-10, 10, 1001).astype(np.float32)
    loaded = np.rint((raw + 10) / 20 * 4 + 1)  # gpumf.ratings.load_dataset, rescale
    assert np.array_equal(to_levels(raw, (-10, 10), 5) + 1, loaded)
    assert np.array_equal(level_values((-10, 10), 5), [-10, -5, 0, 5, 10])


def test_initial_biases_are_the_shares_of_the_levels():
    items, levels = np.array([0, 0, 0, 0, 1]), np.array([0, 2, 2, 2, 1])
    shares = np.exp(level_logarithms(items, levels, (3, 3)).astype(np.float64))
    overall = np.array([2, 2, 4]) / 8
    assert np.allclose(shares.sum(axis=1), 1)
    assert np.allclose(shares[0], (np.array([1, 0, 3]) + overall) / 5, rtol=1e-5)
    assert np.allclose(shares[2], overall, rtol=1e-5)


def test_scales_of_64_bits_have_the_ratings_of_32():
    values = np.array([0.1, 0.7, 0.9], np.float32)
    assert list(to_levels(values, (np.float64(0.1), np.float64(0.9)), 5)) == [0, 3, 4]


def test_ratings_that_are_no_levels_get_one_clear_error():
    def fitted(values, scale=None, **options):
        n = len(values)
        return RBM(2, biases=False, solver="sequential", **options).fit(
            Ratings(range(n), [0] * n, values, n, 1, scale=scale), 1
        )

    with pytest.raises(ValueError, match="levels="):
        fitted([1, 2.3, 5], (1, 5))
    with pytest.raises(ValueError, match="levels="):
        fitted([0, 50, 100], (0, 100))
    with pytest.raises(ValueError, match="rating 1 is 6"):
        fitted([1, 6], (1, 5), levels=5)
    with pytest.raises(ValueError, match="two different"):
        fitted([3, 3])
    model = fitted([1, 5], (1, 5))
    for scale, described in (((1, 2), "2 levels from 1 to 2"), ((0, 4), "5 levels from 0 to 4")):
        before = model.predict([0, 1], 0), model.scale
        with pytest.raises(ValueError, match=f"5 levels from 1 to 5 of before, not {described}"):
            model.fit(Ratings([0, 1], [0, 0], [1, 2], 2, 1, scale=scale), 1, warm_start=True)
        assert np.array_equal(model.predict([0, 1], 0), before[0]) and model.scale == before[1]
    with pytest.raises(NotFittedError):
        RBM(2).predict(0, 0)


@pytest.mark.parametrize("step", [1.0, 0.5])
def test_there_are_as_many_levels_as_kernels_have_room_for_and_no_more(step):
    last = MAX_LEVELS - 1
    steps = np.array([0, 1, last])
    ratings = Ratings([0, 1, 2], [0, 0, 0], steps * step, 3, 1, name="many")
    assert n_levels_of(ratings, (0, last * step)) == MAX_LEVELS
    with pytest.raises(ValueError, match="the ratings of many are not at most 32 whole or half steps of 0 to"):
        n_levels_of(ratings, (0, (last + 1) * (step if step == 0.5 else 1)))
