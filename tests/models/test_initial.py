"""The factors before the first epoch."""

import numpy as np
import pytest

from gpumf import ALS, SGD
from gpumf._util.counter_rng import splitmix64
from gpumf.models.initial import normal_factors, uniform_factors, with_bias_columns
from gpumf.ratings import DeviceRatings, Ratings
from support import ragged_ratings


def test_initial_factors_start_near_the_mean(sets):
    train, _ = sets
    p, q = ALS(16, biases=False).initial_factors(train)
    assert p.dtype == q.dtype == np.float32
    assert (p @ q.T).mean() == pytest.approx(train.mean, rel=0.05)
    centred = Ratings(train.users, train.items, train.values - 5, train.n_users, train.n_items)
    p, q = ALS(16, biases=False).initial_factors(centred)
    assert abs((p @ q.T).mean()) < 0.1


@pytest.mark.parametrize("model", [ALS, SGD])
def test_initial_factors_of_the_unit_interval_are_the_same_for_every_mean(model, sets):
    train, _ = sets
    users, _ = model(5, biases=False, init="unit", device="cpu").initial_factors(train)
    centred = Ratings(train.users, train.items, train.values - 9, train.n_users, train.n_items)
    again, _ = model(5, biases=False, init="unit", device="cpu").initial_factors(centred)
    assert 0 <= users.min() < 0.01 and 0.99 < users.max() < 1
    np.testing.assert_array_equal(users, again)


@pytest.mark.parametrize(("mean", "low", "high"), [(4.0, 0, 4 / 3), (0.0, -0.5, 0.5), (-1.0, -1 / 3, 1 / 3)])
def test_initial_factors_fill_their_interval(mean, low, high):
    made, margin = uniform_factors(200, 9, mean, key=7), (high - low) / 100
    assert low <= made.min() < low + margin and high - margin < made.max() < high


def test_factors_made_on_a_device_are_hashes_of_their_positions(launcher):
    made = launcher.to_numpy(uniform_factors(70, 9, 4.0, 1 << 60, launcher))
    hashes = splitmix64(np.arange(630, dtype=np.uint64) + np.uint64(1 << 60)) >> np.uint64(40)
    width = np.float32(2 * np.sqrt(4 / 9))
    assert made.dtype == np.float32
    assert np.array_equal(made, (hashes.astype(np.float32) * np.float32(2**-24) * width).reshape(70, 9))
    for mean in (4.0, 0.0, -2.5):
        there = launcher.to_numpy(uniform_factors(70, 9, mean, 5, launcher))
        assert there.tobytes() == uniform_factors(70, 9, mean, 5).tobytes()
        assert mean > 0 or abs(there.mean()) < 0.1 < there.max() < 1 > -there.min()
    # Inner products start near the mean.
    assert (made[:35] @ made[35:].T).mean() == pytest.approx(4, rel=0.1)


def test_normal_factors_are_the_same_wherever_they_are_made(launcher):
    made = normal_factors(300, 40, 0.1, 1 << 63)
    assert launcher.to_numpy(normal_factors(300, 40, 0.1, 1 << 63, launcher)).tobytes() == made.tobytes()
    assert made.dtype == np.float32 and abs(made.mean()) < 0.004
    assert made.std() == pytest.approx(0.1, rel=0.02)
    assert np.quantile(made, 0.975) == pytest.approx(0.196, rel=0.05), "as of a normal distribution"


@pytest.mark.parametrize("biases", [True, "baseline"])
def test_sgd_with_biases_begins_where_the_ratings_are_as_on_the_host(sets, launcher, biases):
    train, _ = sets
    here = SGD(6, seed=3, biases=biases, device="cpu").initial_factors(train)
    there = SGD(6, seed=3, biases=biases, solver="fast", device=launcher.name).initial_factors(
        DeviceRatings.of(train, launcher)
    )
    for ours, others in zip(here, map(launcher.to_numpy, there), strict=True):
        assert ours.tobytes() == others.tobytes()
        assert ours[:, :6].std() == pytest.approx(0.1, rel=0.1)


def test_columns_of_biases_are_the_same_wherever_they_are_made(launcher):
    ratings = Ratings([0, 2, 2], [3, 0, 3], [4, 3, 5], n_users=3, n_items=5)
    users, items = (normal_factors(n, 4, 0.1, n) for n in (3, 5))
    here = with_bias_columns(ratings, (users, 0.5), (items, 0))
    there = with_bias_columns(ratings, (launcher.array(users), 0.5), (launcher.array(items), 0), launcher)
    for ours, others in zip(here, map(launcher.to_numpy, there), strict=True):
        assert ours.tobytes() == others.tobytes()
    assert here[0][:, -2:].tolist() == [[0.5, 1], [0, 1], [0.5, 1]] and not here[1][1, :4].any()


@pytest.mark.parametrize(("biases", "usual"), [("damped", 0.4 / 8**0.5), (True, 0.1)])
def test_initial_factors_of_a_model_with_biases_have_its_standard_deviation(biases, usual):
    train, made = ragged_ratings(n_users=200, n_items=100, longest=20, seed=3), []
    for std in (None, 0.01):
        users, _ = SGD(8, init_std=std, biases=biases, device="cpu").initial_factors(train)
        made.append(users[train.user_counts > 0, :-2])
    unit = train.damped.unit**0.5 if biases == "damped" else 1
    assert made[0].std() == pytest.approx(usual * unit, rel=0.05)
    assert np.allclose(made[0], usual / 0.01 * made[1], rtol=1e-4)
