"""ALS: every kernel against the float64 reference, and the estimator on top of it."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumf import ALS, gpu
from gpumf.cpu import reference
from gpumf.datasets import Ratings
from gpumf.gpu import nvrtc
from gpumf.gpu.occupancy import KEPLER, active_blocks
from gpumf.models.als import tensor_core, thesis, trainer
from support import fewer, kernels_on, ragged_ratings, random_factors, to_numpy

# Relative errors that a kernel may have: conjugate gradient ends at a residual, not at the solution. A in FP16 is off
# by up to 2^-12 of the largest entry on its diagonal; lambda n bounds what comes of that, and plain lambda does not.
TOLERANCE = {"tensor_core": 5e-3, "cumf_cg": 5e-3, "cumf_cg_fp16": 5e-2}

THESIS = ["thesis_global", "thesis_hybrid", "thesis_shared"]


def tolerance(kernel):
    return TOLERANCE.get(kernel, 1e-4)


def trainer_of(device, kernel, ratings, factors, *, regularization=0.05, weighted=True, threads=None, seed=0):
    """A trainer with poisoned user factors, NaN, or far off where the kernel starts from the solution before."""
    cg = {"cg_steps": factors + 50, "cg_tolerance": 1e-7}
    model = ALS(factors, regularization, weighted=weighted, kernel=kernel, device=device, threads=threads, **cg)
    poison = np.full((ratings.n_users, factors), 7.0 if kernel in TOLERANCE else np.nan, np.float32)
    items = random_factors(ratings.n_items, factors, seed)
    return model.trainer(ratings, poison, items), items


def solved_users(device, kernel, ratings, factors, **options):
    trainer, items = trainer_of(device, kernel, ratings, factors, **options)
    trainer.solve_users()
    return to_numpy(device, *trainer.factors())[0], items


def relative_error(actual, expected):
    assert np.isfinite(actual).all()
    return np.linalg.norm(actual - expected) / np.linalg.norm(expected)


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("factors", [1, 2, 3, 10, 15, 16, 17, 31, 32])
def test_half_sweep_matches_the_reference(device, factors, weighted):
    ratings = ragged_ratings(seed=factors)
    for kernel in kernels_on(ALS, device):
        actual, items = solved_users(device, kernel, ratings, factors, weighted=weighted)
        expected = reference.als_half_sweep(ratings.by_user, items, 0.05, weighted)
        if weighted or kernel != "cumf_cg_fp16":
            assert relative_error(actual, expected) < tolerance(kernel), kernel
        empty = ratings.by_user.counts == 0
        assert empty.any() and not actual[empty].any()


@pytest.mark.parametrize("factors", [10, 33, 64, 100, 111, 128, 200, 256])
def test_tensor_core_half_sweep_with_many_factors(launcher, factors):
    longest = 70 if launcher.name == "host" else 400
    ratings = ragged_ratings(n_users=5, n_items=500, longest=longest, seed=factors)
    actual, items = solved_users(launcher.name, "tensor_core", ratings, factors)
    expected = reference.als_half_sweep(ratings.by_user, items, 0.05)
    # With more factors the systems are worse conditioned, and FP32 leaves conjugate gradient further off.
    assert relative_error(actual, expected) < tolerance("tensor_core") * max(1, factors / 100)


def test_segments_are_the_rows():
    indptr = np.array([0, 0, 5, 25, 26, 126])
    segments, slots = trainer.segments_of(indptr, longest=10)
    assert (np.diff(segments["length"]) <= 0).all() and segments["length"].max() <= 10
    assert slots == 2 + 10
    for row, (begin, end) in enumerate(pairwise(indptr)):
        of_row = np.sort(segments[segments["row"] == row], order="part")
        assert list(of_row["part"]) == list(range(of_row["parts"][0])) and (of_row["count"] == end - begin).all()
        covered = [np.arange(s["begin"], s["begin"] + s["length"]) for s in of_row]
        assert np.array_equal(np.concatenate(covered), np.arange(begin, end))
        assert len(set(of_row["slot"])) == 1


@pytest.mark.parametrize(("factors", "longest"), [(8, 20), (40, 8192)])
def test_tensor_core_gives_the_same_bits_in_every_order(host, factors, longest):
    # Short segments of which the parts meet; several warps that go through many stages.
    ratings = ragged_ratings(n_users=4, n_items=420, longest=300, seed=6)
    model = ALS(factors, kernel="tensor_core", device="host", cg_steps=2)
    start, results = (random_factors(4, factors, 1), random_factors(420, factors, 2)), set()
    for seed in range(5):
        trainer = tensor_core.TensorCore(model, ratings, *start, longest=longest)
        with host.shuffled(seed):
            trainer.solve_users()
        results.add(trainer.factors()[0].tobytes())
    assert len(results) == 1


@pytest.mark.parametrize("factors", [64, 100, 128, 200, 256])
def test_cpu_half_sweep_with_many_factors(factors):
    ratings = ragged_ratings(n_users=12, n_items=500, longest=400, seed=factors)
    for kernel in kernels_on(ALS, "cpu"):
        actual, items = solved_users("cpu", kernel, ratings, factors)
        assert relative_error(actual, reference.als_half_sweep(ratings.by_user, items, 0.05)) < 1e-4


def test_a_row_of_100_000_ratings(device):
    rng = np.random.default_rng(5)
    n = 100_000
    users = np.concatenate([np.zeros(n, int), [1, 2]])
    items = np.concatenate([np.arange(n), [7, n - 1]])
    ratings = Ratings(users, items, rng.integers(1, 6, n + 2), 4, n)
    for kernel in kernels_on(ALS, device):
        actual, fixed = solved_users(device, kernel, ratings, 16)
        expected = reference.als_half_sweep(ratings.by_user, fixed, 0.05)
        for row in range(3):
            assert relative_error(actual[row], expected[row]) < tolerance(kernel), (kernel, row)


@given(seed=st.integers(0, 2**31), longest=st.integers(1, 38), n_users=st.integers(3, 90))
def test_any_ragged_shape(device, seed, longest, n_users):
    ratings = ragged_ratings(n_users=n_users, longest=longest, seed=seed)
    for kernel in kernels_on(ALS, device):
        actual, items = solved_users(device, kernel, ratings, 16, seed=seed)
        assert relative_error(actual, reference.als_half_sweep(ratings.by_user, items, 0.05)) < tolerance(kernel)


@pytest.mark.parametrize("kernel", THESIS)
@pytest.mark.parametrize("threads", [1, 128, 384, 100_000])
def test_any_grid_solves_every_row_to_the_same_bits(launcher, kernel, threads):
    ratings = ragged_ratings(n_users=fewer(launcher.name, 3000), seed=3)
    whole, _ = solved_users(launcher.name, kernel, ratings, 16)
    strided, _ = solved_users(launcher.name, kernel, ratings, 16, threads=threads)
    assert np.array_equal(whole, strided)


@pytest.mark.parametrize("factors", [5, 16, 32])
def test_the_thesis_versions_give_the_same_bits(launcher, factors):
    ratings = ragged_ratings(seed=9)
    solved = {solved_users(launcher.name, kernel, ratings, factors)[0].tobytes() for kernel in THESIS}
    assert len(solved) == 1


def test_bit_identical_from_run_to_run(device):
    n_users, epochs = (100, 1) if device == "host" else (500, 5)
    ratings = ragged_ratings(n_users, n_items=300, longest=250, seed=8)
    for kernel in kernels_on(ALS, device):
        first, second = (ALS(16, kernel=kernel, device=device).fit(ratings, epochs) for _ in range(2))
        assert np.array_equal(first.user_factors, second.user_factors), kernel
        assert np.array_equal(first.item_factors, second.item_factors), kernel


def test_an_epoch_is_users_then_items(device):
    ratings = ragged_ratings(seed=2)
    for kernel in kernels_on(ALS, device):
        trainer, items = trainer_of(device, kernel, ratings, 16)
        trainer.epoch(0)
        users, actual = to_numpy(device, *trainer.factors())
        solved = reference.als_half_sweep(ratings.by_user, items, 0.05)
        expected = reference.als_half_sweep(ratings.by_item, solved, 0.05)
        assert relative_error(users, solved) < tolerance(kernel)
        assert relative_error(actual, expected) < 10 * tolerance(kernel)  # the first error goes through the second


def test_shared_memory_is_what_the_thesis_computed(host):
    model = ALS(16, kernel="thesis_shared", device="host")
    # Section 6.4: 10.594 kB a block for 16 factors, of which the two symmetric matrices take 2 x 4.35 kB.
    assert thesis.ThesisShared.shared_bytes(model) == pytest.approx(10_594, rel=0.15)
    assert thesis.ThesisShared.shared_bytes(model) > 2 * 4_350
    # Its global version is left with 2.09 kB; the hybrid keeps one matrix.
    without = thesis.ThesisGlobal.shared_bytes(model)
    assert without < 2_090
    assert thesis.ThesisHybrid.shared_bytes(model) - without == pytest.approx(4_350, rel=0.01)


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
        for version in (thesis.ThesisGlobal, thesis.ThesisHybrid, thesis.ThesisShared):
            model = ALS(factors, kernel=version.entry)
            kernel = version.compile(model)
            for block in (32, 96, 128):
                for scale in (1, 2, 4.75):
                    shared = int(version.shared_bytes(model, block) * scale)
                    computed = active_blocks(cuda.facts, block, kernel.attributes["num_regs"], shared)
                    assert computed == kernel.active_blocks(block, shared), (version.entry, factors, block, scale)


def test_parameters_are_checked():
    for wrong in (0, 301, 1.5):
        with pytest.raises(ValueError, match="factors"):
            ALS(wrong)
    for wrong in (0, -1, float("nan")):
        with pytest.raises(ValueError, match="regularization"):
            ALS(16, wrong)
    with pytest.raises(ValueError, match="no kernel"):
        ALS(16, kernel="fastest")
    with pytest.raises(ValueError, match="device"):
        ALS(16, device="tpu")
    with pytest.raises(ValueError, match="threads"):
        ALS(16, threads=0)


@pytest.mark.skipif(gpu.available(), reason="is about machines without a GPU")
def test_cuda_without_a_gpu_says_why():
    with pytest.raises(gpu.DeviceError, match="not available"):
        ALS(16, device="cuda")
    with pytest.raises(gpu.DeviceError, match="not available"):
        ALS(16, kernel="thesis_shared")
    assert ALS(16).device == "cpu"


def test_the_default_kernel_fits_the_factors(cuda):
    assert ALS(128).kernel == "tensor_core"
    with pytest.raises(ValueError, match="up to 32"):
        ALS(33, kernel="thesis_shared")
