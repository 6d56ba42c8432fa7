"""ALS: every kernel against the float64 reference, and the estimator on top of it."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nvrtc
from cases import HALF, als_case, als_tolerance
from gpumf import ALS, backends
from gpumf.backends.cpu import reference
from gpumf.ratings import Ratings
from gpumf.solvers import als_base, als_thesis
from gpumf_study.experiments._limits import KEPLER, active_blocks
from support import fewer, kernels_on, ragged_ratings, random_factors, slow, to_numpy

THESIS = ["thesis_global", "thesis_hybrid", "thesis_shared"]


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("factors", [3, 32, *slow(1, 2, 10, 15, 16, 17, 31)])
def test_half_sweep_matches_the_reference(device, factors, weighted):
    ratings = ragged_ratings(seed=factors)
    assert (ratings.by_user.counts == 0).any()
    for kernel in kernels_on(ALS, device):
        case = als_case(device, kernel, ratings, factors, weighted=weighted)
        if weighted or kernel != "cumf_cg_fp16":
            case.assert_close(als_tolerance(kernel), HALF)
        else:
            empty = ratings.by_user.counts == 0
            assert not case.run(HALF)[0][empty].any()


@pytest.mark.parametrize("factors", [33, 70, 128, *slow(10, 64, 100, 111, 160, 200, 209, 256)])
def test_tensor_core_half_sweep_with_many_factors(launcher, factors):
    longest = 70 if launcher.name == "emulator" else 400
    ratings = ragged_ratings(n_users=5, n_items=500, longest=longest, seed=factors)
    # With more factors the systems are worse conditioned, and FP32 leaves conjugate gradient further off.
    tolerance = als_tolerance("tensor_core") * max(1, factors / 100)
    als_case(launcher.name, "tensor_core", ratings, factors).assert_close(tolerance, HALF)


@pytest.mark.parametrize("factors", [100, 256, *slow(65, 128, 200, 209)])
def test_products_of_hopper_give_the_same(launcher, factors):
    if launcher.facts.get("compute_capability", "9.0") != "9.0":
        pytest.skip("only compute capability 9.0 has them")
    ratings = ragged_ratings(n_users=5, n_items=500, longest=150, seed=factors)
    case = als_case(launcher.name, "tensor_core", ratings, factors)
    case.parts = {"WGMMA": 1, "THROUGH_L1": 0, "longest": 64}  # rows of several segments
    first, again = case.run(HALF), case.run(HALF)
    assert all(map(np.array_equal, first, again))
    case.assert_close(1e-2, HALF, first, floor=1e-3)


def test_segments_are_the_rows():
    indptr = np.array([0, 0, 5, 25, 26, 126])
    segments, slots = als_base.segments_of(indptr, longest=10)
    assert segments["length"].max() <= 10
    assert slots == 2 + 10
    for row, (begin, end) in enumerate(pairwise(indptr)):
        of_row = np.sort(segments[segments["row"] == row], order="part")
        assert list(of_row["part"]) == list(range(of_row["parts"][0])) and (of_row["count"] == end - begin).all()
        covered = [np.arange(s["begin"], s["begin"] + s["length"]) for s in of_row]
        assert np.array_equal(np.concatenate(covered), np.arange(begin, end))
        assert len(set(of_row["slot"])) == 1


@pytest.mark.parametrize("factors", [64, *slow(100, 128, 200, 256)])
def test_cpu_half_sweep_with_many_factors(factors):
    ratings = ragged_ratings(n_users=12, n_items=500, longest=400, seed=factors)
    for kernel in kernels_on(ALS, "cpu"):
        als_case("cpu", kernel, ratings, factors).assert_close(1e-4, HALF)


@pytest.mark.slow
def test_a_row_of_100_000_ratings(device):
    rng = np.random.default_rng(5)
    n = 100_000
    users = np.concatenate([np.zeros(n, int), [1, 2]])
    items = np.concatenate([np.arange(n), [7, n - 1]])
    ratings = Ratings(users, items, rng.integers(1, 6, n + 2), 4, n)
    for kernel in kernels_on(ALS, device):
        als_case(device, kernel, ratings, 16).assert_close(als_tolerance(kernel), HALF)


@given(seed=st.integers(0, 2**31), longest=st.integers(1, 38), n_users=st.integers(3, 90))
def test_any_ragged_shape(device, seed, longest, n_users):
    ratings = ragged_ratings(n_users=n_users, longest=longest, seed=seed)
    for kernel in kernels_on(ALS, device):
        als_case(device, kernel, ratings, 16).assert_close(als_tolerance(kernel), HALF)


@pytest.mark.parametrize("kernel", THESIS)
@pytest.mark.parametrize("threads", [1, 128, 384, 100_000])
def test_any_grid_solves_every_row_to_the_same_bits(launcher, kernel, threads):
    ratings = ragged_ratings(n_users=fewer(launcher.name, 3000), seed=3)
    whole, strided = (als_case(launcher.name, kernel, ratings, 16, threads=n).run(HALF)[0] for n in (None, threads))
    assert np.array_equal(whole, strided)


@pytest.mark.parametrize("factors", [5, 16, 32])
def test_the_thesis_versions_give_the_same_bits(launcher, factors):
    ratings = ragged_ratings(seed=9)
    solved = {als_case(launcher.name, kernel, ratings, factors).run(HALF)[0].tobytes() for kernel in THESIS}
    assert len(solved) == 1


@pytest.mark.slow
def test_bit_identical_from_run_to_run(device):
    n_users, epochs = (100, 1) if device == "emulator" else (500, 5)
    ratings = ragged_ratings(n_users, n_items=300, longest=250, seed=8)
    for kernel in kernels_on(ALS, device):
        first, second = (ALS(16, solver=kernel, device=device, biases=False).fit(ratings, epochs) for _ in range(2))
        assert np.array_equal(first.user_factors, second.user_factors), kernel
        assert np.array_equal(first.item_factors, second.item_factors), kernel


def test_second_epochs_and_second_fits_go_on_from_the_first(device):
    ratings = ragged_ratings(seed=2, n_items=30, longest=28)
    for kernel in kernels_on(ALS, device):
        case, tolerance = als_case(device, kernel, ratings, 6), 10 * als_tolerance(kernel)
        case.assert_close(tolerance, 2)
        case.assert_fits_close(tolerance)


def test_shared_memory_is_what_the_thesis_computed(host):
    model = ALS(16, solver="thesis_shared", device="emulator", biases=False)
    # Section 6.4: 10.594 kB a block for 16 factors, of which the two symmetric matrices take 2 x 4.35 kB.
    assert als_thesis.ThesisShared.shared_bytes(model.hyperparameters) == pytest.approx(10_594, rel=0.15)
    assert als_thesis.ThesisShared.shared_bytes(model.hyperparameters) > 2 * 4_350
    # Its global version is left with 2.09 kB; the hybrid keeps one matrix.
    without = als_thesis.ThesisGlobal.shared_bytes(model.hyperparameters)
    assert without < 2_090
    assert als_thesis.ThesisHybrid.shared_bytes(model.hyperparameters) - without == pytest.approx(4_350, rel=0.01)


def test_active_blocks_are_those_of_the_thesis_and_of_a_hopper():
    # Equation 6.2, and section 6.4: 16 blocks once the matrices are in global memory.
    assert active_blocks(KEPLER, 128, shared_bytes=10_594) == 4
    assert active_blocks(KEPLER, 128, shared_bytes=2_090) == 16
    hopper = {
        "threads_per_multiprocessor": 2048,
        "blocks_per_multiprocessor": 32,
        "registers_per_multiprocessor": 65536,
        "shared_bytes_per_multiprocessor": 228 << 10,
        "reserved_shared_bytes": 1024,
    }
    assert active_blocks(hopper, 32) == 32
    assert active_blocks(hopper, 128) == 16
    assert active_blocks(hopper, 128, registers=41) == 10  # 48 once rounded up
    assert active_blocks(hopper, 1024, registers=64) == 1
    assert active_blocks(hopper, 128, shared_bytes=227 << 10) == 1
    assert active_blocks(hopper, 128, shared_bytes=(114 << 10) - 1024) == 2


@pytest.mark.skipif(nvrtc.why_unavailable() is not None, reason=str(nvrtc.why_unavailable()))
def test_registers_leave_room_for_the_blocks_that_the_thesis_has():
    facts = {"threads_per_multiprocessor": 2048, "registers_per_multiprocessor": 65536}
    held = {
        k["kernel"]: active_blocks(facts, 128, k["registers"])
        for k in nvrtc.resources("als/thesis.cu", 90, FACTORS=16)
    }
    assert held["thesis_global"] >= 12 and held["thesis_hybrid"] == 16


def test_active_blocks_are_what_the_driver_says(cuda):
    for factors in (1, 8, 16, 32):
        for version in (als_thesis.ThesisGlobal, als_thesis.ThesisHybrid, als_thesis.ThesisShared):
            model = ALS(factors, solver=version.entry, biases=False)
            kernel = version.compile(model.hyperparameters)
            for block in (32, 96, 128):
                for scale in (1, 2, 4.75):
                    shared = int(version.shared_bytes(model.hyperparameters, block) * scale)
                    computed = active_blocks(cuda.facts, block, kernel.attributes["num_regs"], shared)
                    assert computed == kernel.active_blocks(block, shared), (version.entry, factors, block, scale)


@pytest.mark.skipif(backends.available(), reason="is about machines without a GPU")
def test_cuda_without_a_gpu_says_why():
    with pytest.raises(backends.DeviceError, match="not available"):
        ALS(16, device="cuda", biases=False)
    with pytest.raises(backends.DeviceError, match="not available"):
        ALS(16, solver="thesis_shared", biases=False)
    assert ALS(16, biases=False).device == "cpu"


def test_the_default_kernel_fits_the_factors(cuda):
    assert ALS(128, biases=False).solver == "tensor_core"
    with pytest.raises(ValueError, match="up to 32"):
        ALS(33, solver="thesis_shared", biases=False)


@pytest.mark.parametrize("kernel", ["thesis_global", "thesis_shared"])
def test_sums_of_several_chunks_are_added_up(launcher, kernel):
    rng = np.random.default_rng(0)
    n = 2500  # the sums of 1024 ratings are moved twice
    ratings = Ratings(np.zeros(n, int), np.arange(n), rng.integers(1, 6, n), 1, n)
    start = [random_factors(1, 3, 1), random_factors(n, 3, 2)]
    trainer = ALS(3, 0.01, solver=kernel, device=launcher.name, biases=False).make_solver(ratings, *start)
    trainer.solve_users()
    (solved, _) = to_numpy(launcher.name, *trainer.factors())
    right = reference.als_update(ratings.by_user, start[1], 0.01, True)
    np.testing.assert_allclose(solved, right, rtol=1e-3)


@pytest.mark.parametrize("kernel", THESIS)
def test_a_row_is_solved_to_the_same_bits_wherever_it_stands(launcher, kernel):
    rng = np.random.default_rng(0)
    n, before = 1500, 7  # more ratings than are summed up at a time, behind a row of some
    items, values = rng.permutation(n), rng.integers(1, 6, n)
    alone = Ratings(np.zeros(n), items, values, 1, n)
    users = np.repeat([0, 1], [before, n])
    behind = Ratings(users, np.r_[items[:before], items], np.r_[values[:before], values], 2, n)
    model, q, solved = ALS(3, 0.01, solver=kernel, device=launcher.name, biases=False), random_factors(n, 3, 2), []
    for ratings in (alone, behind):
        trainer = model.make_solver(ratings, np.ones((ratings.n_users, 3), np.float32), q)
        trainer.solve_users()
        solved.append(to_numpy(launcher.name, *trainer.factors())[0][-1])
    assert np.array_equal(*solved)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kernel", THESIS)
def test_an_unknown_that_others_make_up_for_becomes_zero(launcher, kernel, seed):
    """Columns that are equal but for rounding: the second pivot is noise of the size of a float's last digits."""
    rng, n = np.random.default_rng(seed), 200
    ratings = Ratings(np.zeros(n, int), np.arange(n), rng.random(n) + 3, 1, n)
    fixed = np.repeat(rng.random((n, 1), np.float32) + 1, 2, axis=1)
    fixed[:, 1] *= 3 + np.float32(2.0**-19) * rng.integers(-1, 2, n).astype(np.float32)
    model = ALS(2, 1e-30, solver=kernel, device=launcher.name, biases=False)
    trainer = model.make_solver(ratings, random_factors(1, 2, 1), fixed)
    trainer.solve_users()
    (solved, _) = to_numpy(launcher.name, *trainer.factors())
    assert solved[0, 1] == 0 and 1 < solved[0, 0] < 4
