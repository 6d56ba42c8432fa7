"""C++ for the processor: the results of the reference, on one core and on all, and Numba where it is missing."""

import ctypes
import os
import subprocess
import sys
from contextlib import nullcontext

import numpy as np
import pytest

from cases import order_of, rates_of
from gpumf import ALS, SGD, DivergedError
from gpumf._util import threads
from gpumf._util.jit import SPENT
from gpumf.backends import compile
from gpumf.backends.cpu import als, reference, sgd
from gpumf.solvers.sgd_partition import shuffled_blocks
from support import ragged_ratings, random_factors


@pytest.fixture(autouse=True)
def _compiler():
    if compile.library("als.cpp", FACTORS=16) is None:
        pytest.skip("C++ does not compile here")


def side_update(make, factors, ratings, fixed, regularization=0.05, weighted=True, parallel=False):
    rows = ratings.by_user
    solved = np.full((rows.n_rows, factors), np.nan, np.float32)
    arrays = rows.indptr, rows.indices, rows.values
    make(factors, parallel)(*arrays, fixed, solved, np.float32(regularization), weighted)
    return solved


@pytest.mark.parametrize("make", [als.native_update, als.numba_update])
@pytest.mark.parametrize("factors", [1, 2, 15, 16, 17, 31, 33, 48, 63, 64])
def test_als_matches_the_reference(make, factors):
    if make is als.numba_update and factors not in (2, 33):
        pytest.skip("Numba compiles for some seconds; these two are enough")
    # The longest row has several chunks of 256 ratings, and a rest.
    ratings = ragged_ratings(n_users=30, n_items=700, longest=650, seed=factors)
    fixed = random_factors(ratings.n_items, factors, 1)
    assert ratings.by_user.counts.max() > 512 and ratings.by_user.counts.min() == 0
    for weighted in (True, False):
        solved = side_update(make, factors, ratings, fixed, weighted=weighted)
        expected = reference.als_update(ratings.by_user, fixed, 0.05, weighted)
        assert np.linalg.norm(solved - expected) < 1e-4 * np.linalg.norm(expected)


@pytest.mark.parametrize("n_users", [3, 20, 200, 2_000])  # of a few rows a thread takes one at a time, else 16
def test_als_on_all_cores_is_the_same_bit_for_bit(monkeypatch, n_users):
    ratings = ragged_ratings(n_users=n_users, seed=1)
    fixed = random_factors(ratings.n_items, 33, 1)
    monkeypatch.setattr(threads, "count", lambda: 5)
    make = als.native_update.__wrapped__  # for so many cores
    one, all_ = (side_update(make, 33, ratings, fixed, parallel=parallel) for parallel in (0, 1))
    assert np.array_equal(one, all_) and not np.isnan(one).any()


def test_als_on_a_long_row_keeps_its_digits():
    """One running sum in FP32 over 300,000 ratings is off by more than a thousandth."""
    n = 300_000
    rng = np.random.default_rng(0)
    ratings = ragged_ratings(seed=0)
    ratings = type(ratings)(np.zeros(n), np.arange(n), rng.integers(1, 6, n), 1, n)
    fixed = rng.random((n, 16), np.float32)
    solved = side_update(als.native_update, 16, ratings, fixed)
    expected = reference.als_update(ratings.by_user, fixed, 0.05)
    assert np.abs(solved - expected).max() < 2e-5 * np.abs(expected).max()


@pytest.mark.parametrize("factors", [16, 40])
def test_als_without_a_ridge_worth_the_name_stays_finite(factors):
    """Fewer ratings than factors, and columns that are equal: pivots are rounding alone."""
    ratings = ragged_ratings(n_users=30, longest=10, seed=2)
    fixed = np.repeat(random_factors(ratings.n_items, 1, 1) * 100, factors, axis=1)
    solved = side_update(als.native_update, factors, ratings, fixed, 1e-12)
    assert np.isfinite(solved).all()
    rows = ratings.by_user
    rated = rows.counts > 0
    assert np.abs(solved).max() < 1 and solved[rated].any(axis=1).all()


def test_what_is_not_a_number_stays_in_its_rows():
    ratings = ragged_ratings(n_users=30, seed=3)
    fixed = random_factors(ratings.n_items, 17, 1)
    fixed[4, 3] = np.nan
    solved = side_update(als.native_update, 17, ratings, fixed)
    touched = np.isin(np.arange(ratings.n_users), ratings.users[ratings.items == 4])
    assert touched.any() and not touched.all()
    assert np.isnan(solved).any(axis=1)[touched].all() and np.isfinite(solved[~touched]).all()


@pytest.mark.parametrize("shape", [(1, 1), (7, 16), (300, 5)])
def test_aligned_copies_begin_at_a_cache_line(shape):
    values = random_factors(*shape, 1)
    copy = compile.aligned(values)
    assert copy.ctypes.data % 64 == 0 and copy.flags.c_contiguous and copy.flags.writeable
    assert np.array_equal(copy, values) and copy.dtype == values.dtype and not np.shares_memory(copy, values)


def test_who_finds_a_function_leaves_its_other_callers_types_alone():
    """To replace types while another thread converts arguments frees what it reads."""
    first = compile.function("ranking.cpp", "top_items", "int32 float32*")
    types = first.argtypes
    assert len(compile.function("ranking.cpp", "top_items", "int64").argtypes) == 1 and first.argtypes is types


def test_other_types_are_refused():
    ratings, fixed = ragged_ratings(seed=1), random_factors(50, 16, 1)
    with pytest.raises(ctypes.ArgumentError):
        side_update(als.native_update, 16, ratings, fixed.astype(np.float64))
    run = compile.function("als.cpp", "side_update", "int64*", FACTORS=16)
    with pytest.raises(ctypes.ArgumentError, match="C_CONTIGUOUS"):
        run(np.arange(20)[::2])


@pytest.mark.parametrize("missing", ["compiler", "folder", "option"])
def test_without_it_numba_takes_its_place(missing, monkeypatch, tmp_path):
    if missing == "compiler":
        monkeypatch.setattr(compile, "why_unavailable", lambda: "none")
    elif missing == "folder":
        (tmp_path / "file").touch()  # which stops even root from making a folder there
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
        monkeypatch.setattr(compile, "_temporary", lambda: tmp_path / "file")
    else:
        monkeypatch.setattr(compile, "_OPTIONS", ["-no-such-option"])
    before = SPENT.seconds
    told = pytest.warns(RuntimeWarning, match="each process compiles again") if missing == "folder" else nullcontext()
    with told:
        assert compile.library.__wrapped__("als.cpp", FACTORS=5) is None
    assert (SPENT.seconds > before) == (missing != "compiler")
    monkeypatch.setattr(compile, "library", lambda *_, **__: None)
    als.native_update.cache_clear()
    ratings = ragged_ratings(seed=1)
    assert len(ALS(2, solver="sequential", device="cpu", biases=False).fit(ratings, 1).history) == 2
    als.native_update.cache_clear()


def test_without_a_cache_it_is_compiled_to_a_folder_that_goes_again(tmp_path):
    (tmp_path / "file").touch()
    code = (
        "from gpumf.backends import compile; compile.library('als.cpp', FACTORS=5)._name; print(compile._temporary())"
    )
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "file"), "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(str(tmp_path)) and os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize(("factors", "biases"), [(1, False), (16, False), (17, False), (33, True), (40, "baseline")])
@pytest.mark.parametrize("row_rates", [False, True])
@pytest.mark.parametrize("make", [sgd.native_ordered, sgd.numba_ordered])
def test_ordered_sgd_follows_its_order(make, factors, biases, row_rates, monkeypatch):
    if make is sgd.numba_ordered and factors not in (16, 33):
        pytest.skip("Numba compiles for some seconds; these two are enough")
    monkeypatch.setattr(sgd, "ordered", make)
    ratings = ragged_ratings(n_users=60, seed=factors)
    learned = {}
    for kernel in ("ordered", "ordered_parallel"):
        model = SGD(
            factors, 0.1, learning_rate=0.05, biases=biases, solver=kernel, device="cpu", side=5, row_rates=row_rates
        )
        p, q = random_factors(60, model.columns, 1), random_factors(ratings.n_items, model.columns, 2)
        if biases:
            p[:, -1] = q[:, -2] = 1
        trainer = model.make_solver(ratings, p, q)
        for epoch in range(2):
            trainer.epoch(epoch)
        learned[kernel] = trainer.factors()
    orders = [[rating for rating, _ in order_of(model, ratings, epoch)] for epoch in range(2)]
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(ratings.nnz)) and orders[0] != orders[1]
    for epoch, order in enumerate(orders):
        of = model.bias_kind, "both", None, rates_of(model, ratings, epoch)
        p, q = reference.sgd_replay(ratings, np.array(order), p, q, (0.05, *[0.1] * 4), *of)
    for one, all_, right in zip(*learned.values(), (p, q), strict=True):
        assert np.array_equal(one, all_)
        assert np.abs(one - right).max() < 1e-5 * max(1, np.abs(right).max())


def test_threads_round_alike():
    # 40 columns: some in whole registers, some behind them, which two copies of the code rounded in two ways.
    ratings = ragged_ratings(n_users=60, seed=40)
    *sides, offsets = shuffled_blocks(ratings, 5, seed=0)
    p, q = random_factors(60, 40, 1), random_factors(ratings.n_items, 40, 2)
    steps = np.float32([0.05, *[0.995] * 4])

    def learned(parallel):
        mine = p.copy(), q.copy()
        sgd.native_ordered(40, 0, parallel)(*sides, *mine, steps, offsets, np.arange(5))
        return b"".join(factors.tobytes() for factors in mine)

    assert {learned(parallel=True) for _ in range(300)} == {learned(parallel=False)}


def test_blocks_of_a_diagonal_share_no_row():
    ratings = ragged_ratings(n_users=60, seed=1)
    *_, order, offsets = shuffled_blocks(ratings, 5, 0, values=np.arange(ratings.nnz))
    for diagonal in range(5):
        parts = [order[offsets[b] : offsets[b + 1]] for b in range(5 * diagonal, 5 * diagonal + 5)]
        for positions in (ratings.users, ratings.items):
            found = [set(positions[part]) for part in parts]
            assert sum(map(len, found)) == len(set().union(*found)) > 0


def test_more_blocks_than_rows_and_ratings_that_diverge():
    ratings = ragged_ratings(n_users=30, seed=1)
    model = SGD(16, solver="ordered_parallel", device="cpu", side=300, biases=False)
    assert model.fit(ratings, 3, ratings).history.rmse.iloc[-1] < model.history.rmse[0]
    with pytest.raises(DivergedError):
        SGD(16, learning_rate=10, solver="ordered", device="cpu", biases=False).fit(ratings, 20)


def test_a_cxx_that_is_no_command_is_one_clear_error(monkeypatch):
    monkeypatch.setenv("CXX", 'g++ "-O2')
    with pytest.raises(ValueError, match=r"the environment variable CXX, .* is no command: No closing quotation"):
        compile.compiler.__wrapped__()


def test_a_library_that_others_can_write_is_compiled_again(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def compiled():
        library = compile.compiled("cpu/one", 'extern "C" int one() { return 1; }', ["-fPIC"], [])
        return library, library.stat().st_ino

    library, first = compiled()
    assert compiled() == (library, first)
    assert [path.stat().st_mode & 0o777 for path in (library, library.parent)] == [0o700, 0o700]
    library.chmod(0o722)
    assert compiled()[1] != first and library.stat().st_mode & 0o777 == 0o700
    library.parent.chmod(0o777)
    with pytest.warns(RuntimeWarning, match="can be written by others"), pytest.raises(PermissionError):
        compiled()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
def test_a_library_of_another_user_is_compiled_again(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    source = 'extern "C" int one() { return 1; }', ["-fPIC"], []
    library = compile.compiled("cpu/one", *source)
    os.chown(library, 65534, 65534)
    first = library.stat().st_ino
    assert compile.compiled("cpu/one", *source) == library and library.stat().st_ino != first
    assert library.stat().st_uid == os.geteuid()
    os.chown(library.parent, 65534, 65534)
    with pytest.warns(RuntimeWarning, match="belongs to another user"), pytest.raises(PermissionError):
        compile.compiled("cpu/one", *source)
