"""ESGD: its columns, its blocks, and the probability that draws are independent."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from gpumf import SGD
from gpumf.solvers.sgd_esgd import independence_probability, overwriting_probability
from support import ragged_ratings, to_numpy


def test_esgd_factorizes_what_baseline_predictors_leave_in_k_columns(launcher):
    ratings = ragged_ratings(n_users=40, n_items=30, longest=20, seed=5)
    model = SGD(8, biases="baseline", solver="esgd", device=launcher.name)
    p, q = model.initial_factors(ratings)
    for rows in (p, q):  # uniform on +- sqrt(3) / 10
        assert 0.16 < np.abs(rows[:, :8]).max() <= 0.1 * np.sqrt(3) + 1e-7
        assert rows[:, :8].std() == pytest.approx(0.1, rel=0.1)
    centred = replace(ratings, values=ratings.values - np.float32(ratings.mean))
    trainer = model.make_solver(centred, p, q)
    assert (
        trainer._p.shape == (40, 8)
        and trainer._block % 8 == 0
        and trainer.defines(model.hyperparameters)["FACTORS"] == 8
    )
    trainer.epoch(0)
    new_p, new_q = to_numpy(launcher.name, *trainer.factors())
    assert np.array_equal(new_p[:, 8:], p[:, 8:]) and np.array_equal(new_q[:, 8:], q[:, 8:])
    assert np.abs(new_p - p).max() > 1e-3


def independent_share(n_users, n_items, draws):
    """The share of all ways to draw entries in which none share a row or column, counted one by one."""
    from itertools import combinations

    ways = list(combinations(product(range(n_users), range(n_items)), draws))
    apart = sum(len({u for u, _ in way}) == len({i for _, i in way}) == draws for way in ways)
    return apart / len(ways)


@pytest.mark.parametrize(("n_users", "n_items", "draws"), [(4, 4, 1), (4, 4, 3), (3, 5, 2), (3, 5, 3), (2, 6, 2)])
def test_the_probability_of_independence_counts_ways(n_users, n_items, draws):
    share = independent_share(n_users, n_items, draws)
    assert independence_probability(n_users, n_items, draws, square=False) == pytest.approx(share)
    published = independence_probability(n_users, n_items, draws)
    assert (published == pytest.approx(share)) == (n_users == n_items or draws == 1)


def test_few_draws_from_a_large_matrix_hardly_meet():
    # Two draws share a row with probability 1/m and a column with 1/n, nearly.
    meet = 1 - independence_probability(480_189, 17_770, 2, square=False)
    assert meet == pytest.approx(1 / 480_189 + 1 / 17_770, rel=1e-3)


def test_more_draws_than_rows_must_meet():
    assert independence_probability(5, 9, 6) == 0 == independence_probability(5, 9, 6, square=False)
    assert overwriting_probability(0.005, 2) == 0.0025  # section 3


def test_esgd_may_load_what_a_block_has_shared_memory_for(host):
    most = (host.facts["shared_bytes_per_multiprocessor"] - 1024 - 4 * (1024 // 16)) // (12 * 992)
    SGD(16, solver="esgd", device="emulator", st=most, biases=False).fit(ragged_ratings(seed=1), 1)
    with pytest.raises(ValueError, match=f"from 1 to {most}, not {most + 1}"):
        SGD(16, solver="esgd", device="emulator", st=most + 1, biases=False)


def test_static_and_dynamic_shared_memory_count_together(launcher):
    # 512 threads with 8 ratings each have 48 KiB of ratings, what a block gets unasked, and sums of groups besides.
    ratings = ragged_ratings(n_users=90, n_items=70, longest=60, seed=2)
    model = SGD(16, biases=False, solver="esgd", device=launcher.name, th_size=512, st=8).fit(ratings, 1)
    assert np.isfinite(model.user_factors).all()
