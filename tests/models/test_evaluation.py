"""MAE and RMSE on every device against float64."""

import numpy as np
import pytest

from gpumf import backends
from gpumf.backends.cpu import reference
from gpumf.models import evaluation
from gpumf.models.evaluation import Errors
from gpumf.ratings import Ratings
from support import fewer, ragged_ratings, random_factors


def errors_of(device, ratings, p, q, known=None, mean=0.0):
    known = known or [np.ones(n, bool) for n in (ratings.n_users, ratings.n_items)]
    if device != "cpu":
        p, q = map(backends.device(device).array, (p, q))
    return Errors(ratings, known, mean, p.shape[1], device)(p, q)


@pytest.mark.parametrize("factors", [1, 16, 17, 100, 256])
@pytest.mark.parametrize("nnz", [1, 1000, 300_000])
def test_errors_match_the_reference(device, factors, nnz):
    nnz = fewer(device, nnz) if nnz > 1000 else nnz
    rng = np.random.default_rng(nnz + factors)
    ratings = Ratings(rng.integers(0, 500, nnz), rng.integers(0, 300, nnz), rng.random(nnz) * 5, 500, 300)
    p, q = random_factors(500, factors, 1), random_factors(300, factors, 2)
    absolute, squared = reference.sum_errors(ratings, p, q)
    rmse, mae = errors_of(device, ratings, p, q)
    assert mae == pytest.approx(absolute / nnz, rel=1e-5)
    assert rmse == pytest.approx(np.sqrt(squared / nnz), rel=1e-5)


def test_unknown_users_and_items_count_with_the_mean(device):
    ratings = ragged_ratings(seed=1)
    p, q = random_factors(ratings.n_users, 8, 1), random_factors(ratings.n_items, 8, 2)
    rng = np.random.default_rng(3)
    known = [rng.random(n) < 0.6 for n in (ratings.n_users, ratings.n_items)]
    both = known[0][ratings.users] & known[1][ratings.items]
    assert both.any() and not both.all()
    error = np.where(both, np.einsum("tk,tk->t", p[ratings.users], q[ratings.items]), 3.25) - ratings.values
    rmse, mae = errors_of(device, ratings, p, q, known, mean=3.25)
    assert mae == pytest.approx(np.abs(error).mean(), rel=1e-5)
    assert rmse == pytest.approx(np.sqrt((error**2).mean()), rel=1e-5)


@pytest.mark.parametrize("factors", [1, 310])  # more than the kernel takes
def test_products_are_clipped_and_what_is_not_finite_is_not(device, factors):
    ratings = Ratings([0, 0, 0, 1], [0, 1, 2, 0], [1, 2, 3, 4], 2, 3)

    def on_device(*columns):
        wide = (np.pad(np.float32(column), ((0, 0), (0, factors - 1))) for column in columns)
        return tuple(wide) if device == "cpu" else map(backends.device(device).array, wide)

    p, q = on_device([[1], [np.nan]], [[-7], [3], [9]])
    known, every = (np.arange(2) == 0, np.ones(3, bool)), (np.ones(2, bool), np.ones(3, bool))
    rmse, mae = Errors(ratings, known, 4.0, factors, device, bounds=(1.5, 5.0))(p, q)
    assert (rmse, mae) == (pytest.approx(np.sqrt((0.25 + 1 + 4) / 4)), pytest.approx(3.5 / 4))
    assert np.isnan(Errors(ratings, every, 4.0, factors, device, bounds=(1.5, 5.0))(p, q)[0])
    for sign in (-1, 1):
        p, q = on_device([[1], [sign * 1e30]], [[1e30]] * 3)
        assert np.isinf(Errors(ratings, (~known[0], known[1]), 4.0, factors, device, bounds=(1.5, 5.0))(p, q)[0])


def test_nothing_known_at_all(device):
    ratings = Ratings([0, 1], [0, 1], [1, 4], 2, 2)
    p = random_factors(2, 16)
    assert errors_of(device, ratings, p, p, 2 * [np.zeros(2, bool)], mean=2.0) == pytest.approx((np.sqrt(2.5), 1.5))


def test_same_bits_every_time(device):
    rng, nnz = np.random.default_rng(0), fewer(device, 10**5)
    ratings = Ratings(rng.integers(0, 999, nnz), rng.integers(0, 99, nnz), rng.random(nnz), 999, 99)
    p, q = random_factors(999, 16, 1), random_factors(99, 16, 2)
    assert len({errors_of(device, ratings, p, q) for _ in range(5)}) == 1


def test_the_sums_of_a_block_are_two(host):
    blocks, threads, partial, total = evaluation.totals(host)
    assert partial.shape == (blocks, 2) and partial.dtype == np.float64
    assert blocks * threads <= host.facts["multiprocessors"] * host.facts["threads_per_multiprocessor"]
    partial[:] = np.arange(1, 2 * blocks + 1).reshape(-1, 2)
    assert total().tolist() == [blocks**2, blocks * (blocks + 1)]
