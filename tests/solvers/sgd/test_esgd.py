"""ESGD: its columns and its blocks."""

from dataclasses import replace

import numpy as np
import pytest

from gpumf import SGD
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
