"""ALS with more ratings than the device holds: rows are streamed in chunks, to the same bits."""

import numpy as np
import pytest

from gpumf import ALS, ImplicitALS, backends
from gpumf.backends.cpu import reference
from gpumf.ratings import Ratings
from gpumf.solvers.als_tensor_core import longest_segment, of_device
from support import ragged_ratings, random_factors, to_numpy


def factors_of(model):
    return model.user_factors.tobytes(), model.item_factors.tobytes()


@pytest.mark.parametrize("model", [ALS, ImplicitALS])
@pytest.mark.parametrize("chunk", [1, 60, 200, 10**6])
def test_streamed_rows_give_the_same_bits(launcher, model, chunk):
    ratings = ragged_ratings(n_users=40, n_items=30, longest=20, seed=1)
    whole, streamed = (
        model(20, 0.1, solver="tensor_core", device=launcher.name, chunk=most).fit(ratings, 2)
        for most in (None, chunk)
    )
    assert factors_of(whole) == factors_of(streamed)
    assert (streamed._placed(ratings) is ratings) and whole._placed(ratings).device is launcher


def test_long_rows_meet_within_their_chunk(launcher):
    ratings = ragged_ratings(n_users=9, n_items=300, longest=250, seed=2)
    model, starts = ALS(20, device=launcher.name, solver="tensor_core", biases=False), []
    rng = np.random.default_rng(3)
    factors = [rng.random((n, 20), np.float32) for n in (ratings.n_users, ratings.n_items)]
    for chunk in (None, 300):
        model.chunk = chunk
        trainer = model.make_solver(ratings, *factors, longest=32)
        assert all((len(rows._segments) > 1) == (chunk is not None) for rows, *_ in (trainer._users, trainer._items))
        for epoch in range(2):
            trainer.epoch(epoch)
        starts.append([array.tobytes() for array in to_numpy(launcher.name, *trainer.factors())])
    assert starts[0] == starts[1]


def test_what_does_not_fit_is_streamed_without_asking(host, monkeypatch):
    ratings = ragged_ratings(n_users=40, n_items=30, longest=20, seed=1)
    whole = ALS(20, device="emulator", solver="tensor_core", biases=False).fit(ratings, 1)
    monkeypatch.setattr(type(host), "free_bytes", staticmethod(lambda: 1000))
    model = ALS(20, device="emulator", solver="tensor_core", biases=False)
    starts = model.initial_factors(ratings)
    trainer = model.make_solver(ratings, *starts)
    assert all(rows._chunks.resident is None for rows, *_ in (trainer._users, trainer._items))
    assert factors_of(model.fit(ratings, 1)) == factors_of(whole)


def test_memory_that_one_chunk_takes_is_said(host, monkeypatch):
    monkeypatch.setattr(type(host), "free_bytes", staticmethod(lambda: 1000))
    ratings = ragged_ratings(n_users=40, n_items=600, longest=500, seed=1)
    with pytest.raises(backends.DeviceError, match=r"a chunk of 500 ratings, .*, takes 7\.45e-06 GiB"):
        ALS(20, device="emulator", solver="tensor_core", chunk=10, biases=False).fit(ratings, 1)


def test_other_kernels_take_no_chunk(host):
    for model in (ALS, ImplicitALS):
        with pytest.raises(ValueError, match="'cumf_cg' has all ratings on the device; it takes no chunk"):
            model(8, solver="cumf_cg", device="emulator", chunk=9)
    for chunk in (0, -5, 2.5, True):
        with pytest.raises(ValueError, match="chunk"):
            ALS(8, solver="tensor_core", device="emulator", chunk=chunk, biases=False)


@pytest.mark.parametrize("implicit", [False, True])
def test_stages_are_small_where_that_is_faster(implicit):
    facts = {"compute_capability": "9.0", "shared_bytes_per_block": 227 << 10}
    rows = [of_device(facts, factors, implicit)["STAGE_ROWS"] for factors in (48, 49, 64, 65)]
    assert rows == [64, 32, 32, 64]


def test_segments_are_longer_where_their_sums_would_take_much_memory():
    for nnz, expected in ((99_072_112, 8_192), (1 << 30, 8_192), ((1 << 30) + 1, 16_384), (2_791_029_882, 32_768)):
        assert longest_segment(nnz) == expected


@pytest.mark.parametrize("solver", ["tensor_core", "warpgroups"])
def test_ratings_keep_the_digits_that_a_half_does_not_hold(launcher, solver):
    rng = np.random.default_rng(0)
    ratings = Ratings(np.arange(40), np.arange(40) % 7, 3 + rng.random(40, np.float32), 40, 7)
    start = [random_factors(n, 3, n) for n in (40, 7)]
    trainer = ALS(3, 0.01, solver=solver, device=launcher.name, biases=False).make_solver(ratings, *start)
    trainer.solve_users()
    solved = to_numpy(launcher.name, *trainer.factors())[0]
    expected = reference.als_update(ratings.by_user, start[1], 0.01, True)
    np.testing.assert_allclose(solved, expected, rtol=1e-4, atol=3e-5)  # halves alone are off by 1e-3


def test_a_stage_that_the_threads_copies_do_not_divide(launcher):
    """65 to 96 factors: three warps copy 11 rows a thread, 64 a stage."""
    ratings, start = ragged_ratings(8, 90, 80, seed=1), [random_factors(n, 80, n) for n in (8, 90)]
    trainer = ALS(80, 0.5, solver="tensor_core", device=launcher.name, biases=False).make_solver(ratings, *start)
    trainer._steps = np.int32(40), np.float32(0)
    trainer.solve_users()
    solved = to_numpy(launcher.name, *trainer.factors())[0]
    np.testing.assert_allclose(solved, reference.als_update(ratings.by_user, start[1], 0.5, True), atol=1e-2)


def test_a_row_that_is_near_enough_takes_no_step(launcher):
    ratings, solved = ragged_ratings(n_users=8, n_items=30, longest=20, seed=1), []
    start = [random_factors(n, 20, n) for n in (8, 30)]
    for tolerance in (1e3, 0.0):
        model = ALS(20, 0.05, solver="tensor_core", device=launcher.name, biases=False)
        trainer = model.make_solver(ratings, *start)
        trainer._steps = np.int32(4), np.float32(tolerance)  # above 1 no model asks for
        trainer.solve_users()
        solved.append(to_numpy(launcher.name, *trainer.factors())[0])
    # It stays where it started, or where it starts from zero, which is nearer, there.
    stayed, improved = (np.isclose(of, start[0]).all(axis=1) | (of == 0).all(axis=1) for of in solved)
    assert stayed.all() and not improved[ratings.by_user.counts > 0].any()
