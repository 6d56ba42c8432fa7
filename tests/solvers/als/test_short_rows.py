"""Rows with few ratings, which kernels/als/short_rows.cu solves without forming their matrices."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from cases import HALF, als_case, als_tolerance
from gpumf import ALS
from gpumf.solvers import als_tensor_core
from support import ragged_ratings, random_factors, slow


@pytest.fixture
def short(monkeypatch):
    """All rows with up to 128 ratings are short, however few there are."""
    monkeypatch.setattr(als_tensor_core, "_max_short", lambda factors: 128)
    monkeypatch.setattr(als_tensor_core, "FEWEST_SHORT", 0)


def solved(ratings, factors, **options):
    """The users after half an epoch, and how many ratings the longest rows of each launch have."""
    model = ALS(factors, solver="tensor_core", device="emulator", biases=False)
    # Not all of one sign, so that few steps get near the solution and rounding does not tell in them.
    start = [random_factors(n, factors, n) - np.float32(0.5) for n in (ratings.n_users, ratings.n_items)]
    trainer = model.make_solver(ratings, *start, **options)
    trainer.solve_users()
    launches = {limit for lists in trainer._users[0]._segments for limit in lists}
    return trainer.factors()[0], launches - {"all"}


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("factors", [16, 100, *slow(1, 33, 64, 130, 200, 256)])
def test_half_sweep_matches_the_reference(launcher, short, factors, weighted):
    users, longest = (9, 90) if launcher.name == "emulator" else (300, 300)
    ratings = ragged_ratings(n_users=users, n_items=400, longest=longest, seed=factors)
    tolerance = als_tolerance("tensor_core") * max(1, factors / 100)
    als_case(launcher.name, "tensor_core", ratings, factors, weighted=weighted).assert_close(tolerance, HALF)


def test_an_epoch_and_one_more(launcher, short):
    case = als_case(launcher.name, "tensor_core", ragged_ratings(seed=2), 16)
    case.assert_close(10 * als_tolerance("tensor_core"), 2)


@pytest.mark.parametrize("factors", [20, 100])
def test_few_steps_go_as_far_as_those_with_the_matrix(host, factors):
    ratings = ragged_ratings(n_users=12, n_items=220, longest=200, seed=3)
    (users, launches), (with_matrix, whole) = (solved(ratings, factors, short=most) for most in (128, 0))
    assert launches == {32, 64, 96, 128, None} and whole == {None}
    np.testing.assert_allclose(users, with_matrix, rtol=1e-3, atol=1e-3 * np.abs(with_matrix).max())


@pytest.mark.parametrize("longest", [30, 100])
def test_the_same_bits_in_every_order(host, longest):
    ratings, found = ragged_ratings(n_users=24, n_items=120, longest=longest, seed=6), set()
    for seed in range(4):
        with host.shuffled(seed):
            found.add(solved(ratings, 10, short=128)[0].tobytes())
    assert len(found) == 1


def test_streamed_rows_give_the_same_bits(host, short):
    ratings, found = ragged_ratings(n_users=20, n_items=90, longest=80, seed=1), set()
    for chunk in (None, 1, 200):
        model = ALS(20, 0.1, solver="tensor_core", device="emulator", chunk=chunk).fit(ratings, 1)
        found.add(model.user_factors.tobytes() + model.item_factors.tobytes())
    assert len(found) == 1


def test_parts_of_a_long_row_are_not_short(host):
    ratings = ragged_ratings(n_users=6, n_items=160, longest=150, seed=2)
    (users, launches), (whole, _) = (solved(ratings, 20, longest=n, short=128) for n in (66, 8192))
    assert launches == {32, 64, None}
    np.testing.assert_allclose(users, whole, rtol=1e-3, atol=1e-3)


def test_only_sides_with_many_short_rows_have_any(host, monkeypatch):
    few = np.full(100, 20)
    short = als_tensor_core._Short(host, 100)
    assert short.limits(np.repeat(few, 1000), 8192) == [32, 64, 96, 128] and short.limits(few, 8192) == []
    assert als_tensor_core._Short(host, 20).limits(np.repeat(few, 1000), 8192) == []
    monkeypatch.setitem(host.facts, "shared_bytes_per_block", 21 << 10)
    assert short.limits(np.repeat(few, 1000), 8192) == [32, 64]


@pytest.mark.parametrize(("bytes_of_a_block", "limits"), [(99, [32]), (100, [32, 64]), (101, [32, 64, 128])])
def test_rows_are_short_up_to_what_fits_a_block(bytes_of_a_block, limits):
    short = object.__new__(als_tensor_core._Short)
    facts = {"shared_bytes_per_block": bytes_of_a_block}
    vars(short).update(_limits=[32, 64, 128], _shared={32: 50, 64: 100, 128: 101}, _fewest=3)
    short._device = SimpleNamespace(facts=facts)
    assert short.limits(np.full(3, limits[-1]), 1000) == limits
    assert short.limits(np.full(2, 5), 1000) == [], "too few to be launched apart"


@pytest.mark.parametrize("factors", [20, *slow(100, 200)])
def test_blocks_of_more_warps_have_the_same_bits(host, short, monkeypatch, factors):
    ratings = ragged_ratings(n_users=12, n_items=220, longest=200, seed=3)
    apart, launches = solved(ratings, factors, short=128)
    monkeypatch.setattr(als_tensor_core, "_SHORT_LIMITS", (128,))
    together, fewer = solved(replace(ratings), factors, short=128)
    assert len(launches) > len(fewer) and np.array_equal(apart, together)


@pytest.mark.parametrize("factors", [10, *slow(100, 200)])
def test_blocks_that_solve_several_rows_have_the_same_bits(host, short, monkeypatch, factors):
    ratings = ragged_ratings(n_users=24, n_items=90, longest=60, seed=3)
    monkeypatch.setattr(als_tensor_core, "_SHORT_LIMITS", (64,))  # blocks of several warps, of which some wait
    each, _ = solved(ratings, factors, short=64)
    monkeypatch.setattr(als_tensor_core._Short, "_resident", lambda self, most: 1)
    monkeypatch.setitem(host.facts, "multiprocessors", 1)
    for seed in range(8 if factors == 10 else 4):  # few let a warp get far ahead
        with host.shuffled(seed):
            several, _ = solved(replace(ratings), factors, short=64)
        assert np.array_equal(each, several)


@pytest.mark.parametrize(("kilobytes", "blocks"), [(228, 4), (64, 1), (100, 2), (10, 1)])
def test_as_many_blocks_as_have_registers_and_shared_memory(host, monkeypatch, kilobytes, blocks):
    monkeypatch.setitem(host.facts, "shared_bytes_per_multiprocessor", kilobytes << 10)
    short = als_tensor_core._Short(host, 100, 128)
    assert short._shapes[128].warps == 4 and short._shapes[128].resident == 16
    assert short._resident(128) == blocks
