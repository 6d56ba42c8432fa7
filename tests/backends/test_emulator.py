"""Kernels on the processor: CUDA's names mean what they mean on a GPU, and faults that a GPU lets pass are errors."""

import os
import re
import shlex
import subprocess
import sys
import time

import numpy as np
import pytest

from gpumf import backends
from gpumf.backends import compile, sources
from gpumf.backends import emulator as host_module
from support import FAULTS, KERNELS, NAMES


@pytest.mark.parametrize("width", [32, 16, 4])
@pytest.mark.parametrize("lanes", [0, 1, 3])
def test_shuffles(launcher, width, lanes):
    t = np.arange(64)
    values, first, inside = np.random.default_rng(0).random(64, np.float32), t // width * width, t % width
    result = launcher.empty((4, 64), np.float32)
    shuffles = launcher.kernel(NAMES, "shuffles")
    shuffles(1, 64, launcher.array(values), np.int32(lanes), np.int32(width), result)
    shfl, up, down, xor = launcher.to_numpy(result)
    assert np.array_equal(shfl, values[first + lanes])
    assert np.array_equal(up, values[np.where(inside >= lanes, t - lanes, t)])
    assert np.array_equal(down, values[np.where(inside + lanes < width, t + lanes, t)])
    assert np.array_equal(xor, values[t ^ lanes])


@pytest.mark.parametrize("valid", [16, 5])
def test_tensor_core_products(launcher, valid):
    rows = np.random.default_rng(3).standard_normal((16, 16)).astype(np.float16)
    result = launcher.empty((16, 16), np.float32)
    launcher.kernel(KERNELS / "tensor.cu", "square")(
        1, 32, launcher.array(rows.view(np.uint16)), np.int32(valid), result
    )
    used = rows[:valid].astype(np.float64)
    np.testing.assert_allclose(launcher.to_numpy(result), used.T @ used, rtol=1e-5, atol=1e-5)


def test_tensor_core_products_of_bytes_are_exact(launcher):
    rows = np.random.default_rng(3).integers(-128, 128, (32, 16), np.int8)
    result = launcher.empty((16, 16), np.int32)
    launcher.kernel(KERNELS / "tensor.cu", "square_of_bytes")(1, 32, launcher.array(rows.view(np.uint16)), result)
    used = rows.astype(np.int32)
    assert np.array_equal(launcher.to_numpy(result), used.T @ used + 5)


def test_products_of_halves_round_as_numpy(launcher):
    a, b = np.random.default_rng(5).standard_normal((2, 64)).astype(np.float16) * np.float16(30)
    result, errors = launcher.empty(32, np.uint32), launcher.empty(32, np.uint32)
    arguments = launcher.array(a.view(np.uint32)), launcher.array(b.view(np.uint32)), result, errors
    launcher.kernel(KERNELS / "tensor.cu", "products")(1, 32, *arguments)
    product, rest = (launcher.to_numpy(of).view(np.float16) for of in (result, errors))
    assert np.array_equal(product, a * b)
    exact = a.astype(np.float64) * b
    assert np.array_equal(rest, (exact - product).astype(np.float16)) and rest.any()


def test_pairs_of_halves_round_as_numpy(launcher):
    values = np.random.default_rng(4).standard_normal((64, 2)).astype(np.float32) * np.float32(1e-3)
    result, (low, high) = launcher.empty(64, np.uint32), map(launcher.array, np.ascontiguousarray(values.T))
    launcher.kernel(KERNELS / "tensor.cu", "pairs")(1, 64, low, high, result)
    assert np.array_equal(launcher.to_numpy(result).view(np.float16).reshape(64, 2), values.astype(np.float16))


def test_half_precision_rounds_as_numpy(launcher):
    values = np.random.default_rng(4).standard_normal(256).astype(np.float32) * 10.0 ** np.arange(-8, 8).repeat(16)
    values = values.astype(np.float32)
    halves, back = launcher.empty(256, np.uint16), launcher.empty(256, np.float32)
    launcher.kernel(KERNELS / "tensor.cu", "round_trip")(2, 128, launcher.array(values), halves, back)
    with np.errstate(over="ignore"):
        expected = values.astype(np.float16)
    assert np.array_equal(launcher.to_numpy(halves), expected.view(np.uint16))
    assert np.array_equal(launcher.to_numpy(back), expected.astype(np.float32))


def test_votes(launcher):
    predicates = np.zeros(64, np.int32)
    predicates[[0, 5, 15, 20, *range(32, 48)]] = 1
    result = launcher.empty((4, 64), np.uint32)
    launcher.kernel(NAMES, "votes")(1, 64, launcher.array(predicates), result)
    ballots = [1 | 1 << 5 | 1 << 15, 1 << 20, 0xFFFF, 0]
    expected = np.repeat([ballots, [1, 1, 1, 0], [0, 0, 1, 0], [0xFFFF, 0xFFFF0000] * 2], 16, axis=1)
    # Lanes of the same predicate match.
    expected[3] = np.where(predicates, expected[0], expected[3] & ~expected[0])
    assert np.array_equal(launcher.to_numpy(result), expected)


def test_atomics(launcher):
    values = np.random.default_rng(1).integers(-1000, 1000, 512).astype(np.int32)
    integers = launcher.array(np.zeros(5, np.int32))
    sums = launcher.array(np.zeros(1, np.float32)), launcher.array(np.zeros(1))
    launcher.kernel(NAMES, "atomics")(4, 128, launcher.array(values), integers, *sums)
    total, most, least, last, count = launcher.to_numpy(integers)
    assert (total, most, least, count) == (values.sum(), values.max(), values.min(), 512)
    assert last in values
    assert [launcher.to_numpy(s)[0] for s in sums] == [values.sum() / 2] * 2


def test_arithmetic(launcher):
    a, b = np.random.default_rng(2).integers(0, 2**64, (2, 64), np.uint64)
    high, small = launcher.empty(64, np.uint64), launcher.empty((5, 64), np.int32)
    real = launcher.empty((4, 64), np.float32)
    arithmetic = launcher.kernel(NAMES, "arithmetic")
    arithmetic(1, 64, launcher.array(a), launcher.array(b), np.float32("nan"), high, small, real)
    assert launcher.to_numpy(high).tolist() == [int(x) * int(y) >> 64 for x, y in zip(a, b, strict=True)]
    x, y = a.astype(np.uint32).view(np.int32), b.astype(np.uint32).view(np.int32)
    lowest_bit = [(int(v) & -int(v)).bit_length() for v in x]
    chosen = np.stack([x, y], axis=1).view(np.uint8)[:, [2, 5, 0, 7]].copy().view(np.int32)[:, 0]
    expected = [np.minimum(x, y), np.maximum(x, y), np.bitwise_count(x.view(np.uint32)), lowest_bit, chosen]
    assert np.array_equal(launcher.to_numpy(small), expected)
    expected = [x, y, 1 / np.sqrt((x & 0xFFFF) + 1.0), -x.astype(np.float32)]
    assert np.allclose(launcher.to_numpy(real), np.array(expected, np.float32), rtol=1e-6)


def test_conversions_of_every_half_and_around_it(launcher):
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16).astype(np.float32)
    halves = halves[np.isfinite(halves)]
    middles = (halves[:-1] + np.diff(halves) / 2)[np.isfinite(np.diff(halves))]  # ties go to the even neighbour
    values = np.concatenate([halves, middles, np.nextafter(middles, 1), [65519.9, 65520, 1e9, -np.inf, np.nan]])
    values = values.astype(np.float32)
    n = len(values)
    half, bfloat = launcher.empty(n, np.float16), launcher.empty(n, np.uint16)
    from_half, from_bfloat = launcher.empty(n, np.float32), launcher.empty(n, np.float32)
    conversions = launcher.kernel(NAMES, "conversions")
    conversions(16, 64, launcher.array(values), np.int32(n), half, from_half, bfloat, from_bfloat)
    with np.errstate(over="ignore"):
        expected = values.astype(np.float16)
    assert np.array_equal(launcher.to_numpy(half), expected, equal_nan=True)
    assert np.array_equal(launcher.to_numpy(from_half), expected.astype(np.float32), equal_nan=True)

    nearest = launcher.to_numpy(from_bfloat)
    finite = np.isfinite(values)
    bits = values[finite].view(np.uint32)
    lower, upper = ((bits >> 16 << 16) + k * 0x10000 for k in (np.uint32(0), np.uint32(1)))
    lower, upper = lower.view(np.float32).astype(float), upper.view(np.float32).astype(float)
    to_lower, to_upper = np.abs(values[finite] - lower), np.abs(upper - values[finite])
    up = (to_upper < to_lower) | (to_upper == to_lower) & (bits >> 16 & 1 == 1)
    assert np.array_equal(nearest[finite], np.where(up, upper, lower))
    assert np.array_equal(nearest[~finite], values[~finite], equal_nan=True)
    assert np.array_equal(launcher.to_numpy(bfloat).astype(np.uint32) << 16, nearest.view(np.uint32))


def test_places(launcher):
    grid, block = (2, 3, 2), (4, 2, 3)
    result = launcher.empty((12, 24, 12), np.uint32)
    launcher.kernel(NAMES, "places")(grid, block, result)
    place = launcher.to_numpy(result)
    for columns, shape in ((place[0, :, :3], block), (place[:, 0, 3:6], grid)):
        z, y, x = np.unravel_index(np.arange(np.prod(shape)), shape[::-1])
        assert np.array_equal(columns, np.stack([x, y, z], axis=1))
    assert (place[..., 6:] == [*block, *grid]).all()


# What each kernel of faults.cu has to be told, launched with two blocks of 64 threads and arrays of 128 words.
COMPLAINTS = {
    "ended_before_barrier": r"waits for ever at __syncthreads \(faults.cu:\d+\): thread \(32, 0, 0\) has ended",
    "two_barriers": r"waits for ever at __syncthreads .*: thread \(32, 0, 0\) waits at __syncthreads \(",
    "ended_before_syncwarp": r"waits for ever at __syncwarp .*: thread \(7, 0, 0\) has ended",
    "shuffle_against_barrier": r"thread \(0, 0, 0\) waits at __syncthreads|thread \(2, 0, 0\) waits at __shfl_sync",
    "shuffle_from_ended": r"waits for ever at __shfl_sync .*: thread \(3, 0, 0\) has ended",
    "shuffle_from_outside_the_mask": r"reads lane 20 in __shfl_sync .*, which is not in the mask 0x0000ffff",
    "outside_its_own_mask": r"calls __shfl_sync .* with the mask 0x0000ffff, which leaves out its own lane 16",
    "reads_past_the_end": r"thread \(63, 0, 0\) .* reads 4 bytes out of bounds, at 256 of the 256 bytes of in \(",
    "writes_before_the_begin": r"thread \(0, 0, 0\) .* writes 4 bytes out of bounds, at -4 of the 256 bytes of out",
    "past_dynamic_shared_memory": r"thread \(32, .* out of bounds, at 256 of the 256 bytes of dynamic shared memory",
    "past_static_shared_memory": r"thread \(63, .* index 64 of an array of type 'float \[64\]' \(faults",
    "past_a_member": r"thread \(16, .* uses index 16 of an array of type 'float \[16\]' \(faults.cu:\d+\)",
    "unwritten_static_shared_memory": r"thread \(\d*[13579], .* static shared memory .*, which no thread .* written",
    "unwritten_dynamic_shared_memory": r"of block \(1, 0, 0\) reads 4 bytes of dynamic shared memory .*, which no",
    "atomic_past_the_end": r"thread \(64, .* writes 4 bytes out of bounds, at 256 of the 256 bytes of out",
}


@pytest.mark.parametrize("fault", COMPLAINTS)
def test_faults_are_errors_that_name_kernel_block_and_thread(host, fault):
    kernel = host.kernel(FAULTS, fault)
    arrays = [np.zeros(64, p.element) for p in kernel.signature.parameters]
    threads = 128 if fault == "atomic_past_the_end" else 64
    with pytest.raises(backends.DeviceError) as error:
        kernel(2, threads, *arrays, shared=256 if "dynamic" in fault else 0)
    assert re.match(rf"{fault}: thread \(\d+, 0, 0\) of block \([01], 0, 0\) ", str(error.value))
    assert re.search(COMPLAINTS[fault], str(error.value))


def test_every_fault_has_its_complaint():
    assert {*sources.kernels(FAULTS)} == {*COMPLAINTS, "missing_barrier", "overflows"}


def test_after_an_error_the_next_launch_works(host):
    out = host.empty(64, np.float32)
    with pytest.raises(backends.DeviceError):
        host.kernel(FAULTS, "shuffle_from_ended")(2, 64, out)
    host.kernel(FAULTS, "missing_barrier")(1, 64, out)
    assert np.isfinite(out).all()


def test_a_missing_barrier_shows_in_shuffled_orders(host):
    kernel, results = host.kernel(FAULTS, "missing_barrier"), set()
    for seed in range(20):
        out = host.empty(64, np.float32)
        with host.shuffled(seed):
            kernel(1, 64, out)
        results.add(out.tobytes())
    assert len(results) > 10


def test_after_shuffled_orders_come_those_of_before(host):
    kernel, outer, inner = host.kernel(NAMES, "shuffles"), [], []

    def launch():
        kernel(1, 64, np.arange(64, dtype=np.float32), np.int32(1), np.int32(32), host.empty((4, 64), np.float32))

    with host.shuffled(0, outer):
        with pytest.raises(KeyError), host.shuffled(0, inner):
            launch()
            raise KeyError
        assert (len(outer), len(inner)) == (0, 1)
        launch()
    launch()
    assert (len(outer), len(inner)) == (1, 1)


def test_the_same_seed_is_the_same_order(host):
    def results(seed):
        out = [host.empty(64, np.float32) for _ in range(2)]
        with host.shuffled(seed):
            for array in out:
                host.kernel(FAULTS, "missing_barrier")(1, 64, array)
        return [array.tobytes() for array in out]

    assert results(5) == results(5)
    assert results(5)[0] != results(5)[1] and results(5) != results(6)


def test_a_trace_has_every_access_in_order(host):
    trace, values, out = [], np.arange(64, dtype=np.float32), host.empty((4, 64), np.float32)
    with host.shuffled(0, trace):
        host.kernel(NAMES, "shuffles")(1, 64, values, np.int32(1), np.int32(32), out)
    (steps,) = trace
    reads, writes = (steps[steps.access == access] for access in ("read", "write"))
    assert (reads.array == "values").all() and sorted(reads.thread) == sorted(reads.element) == list(range(64))
    assert (reads.thread == reads.element).all() and not reads.thread.is_monotonic_increasing
    assert (writes.array == "result").all() and sorted(writes.element) == list(range(256))


@pytest.mark.parametrize(("block", "shared"), [((32, 33), 0), (64, 232_449)])
def test_no_block_is_larger_than_on_a_gpu(host, block, shared):
    with pytest.raises(backends.DeviceError, match="no GPU runs"):
        host.kernel(NAMES, "places")(1, block, host.empty(12 * 2048, np.uint32), shared=shared)


def test_a_kernel_that_does_not_compile_says_why(host, tmp_path):
    path = tmp_path / "broken.cu"
    path.write_text('extern "C" __global__ void broken(float* out) { out[0] = undeclared; }\n')
    with pytest.raises(backends.DeviceError, match=r"broken\.cu.*undeclared"):
        host.kernel(path, "broken")


def test_without_a_compiler_it_says_so(monkeypatch):
    monkeypatch.setattr(compile, "compiler", lambda: None)
    assert "g++" in compile.why_unavailable.__wrapped__()


def test_only_what_is_declared_can_be_launched(host):
    for wrong in ({}, {"FACTORS": 33}, {"FACTORS": 16, "LANES": 8}):
        with pytest.raises(ValueError, match=r"als/thesis.cu is declared with .*FACTORS"):
            host.kernel("als/thesis.cu", "thesis_shared", **wrong)


@pytest.mark.parametrize(
    ("fault", "finding"),
    [
        ("reads_past_the_end", "AddressSanitizer: heap-buffer-overflow"),
        ("past_dynamic_shared_memory", "AddressSanitizer: use-after-poison"),
        ("overflows", "signed integer overflow"),
    ],
)
def test_the_sanitizers_of_make_test_sanitize_find(host, fault, finding):
    call = (
        "import numpy as np; from gpumf import backends; "
        f"kernel = backends.device('emulator').kernel('{FAULTS}', '{fault}');"
        "kernel(1, 64, *[np.zeros(64, parameter.element) for parameter in kernel.signature.parameters])"
    )
    if "clang" in host.facts["compiler"]:
        pytest.skip("make test-sanitize needs g++")
    where = [*shlex.split(os.environ.get("CXX", "g++")), "-print-file-name=libasan.so"]
    libasan = subprocess.run(where, capture_output=True, text=True, check=True).stdout.strip()
    settings = {"GPUMF_EMULATOR_SANITIZE": "1", "ASAN_OPTIONS": "detect_leaks=0", "LD_PRELOAD": libasan}
    done = subprocess.run([sys.executable, "-c", call], env=os.environ | settings, capture_output=True, text=True)
    assert done.returncode != 0 and finding in done.stderr


def test_arrays_are_row_by_row_as_kernels_read_them_and_copies(host):
    given = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    there = host.array(given)
    assert there.flags.c_contiguous and there.flags.owndata and np.array_equal(there, given)


def test_the_host_has_the_facts_of_a_device_and_has_compiled_nothing_at_first(host):
    device = host_module.EmulatorDevice()
    assert device.compile_seconds == 0 and device.launched == set()
    started = time.perf_counter()
    device.kernel("ratings/ratings.cu", "sum_values")
    assert 0 < device.compile_seconds <= time.perf_counter() - started
    facts = device.facts
    # As on GPUs: a block may have all that a multiprocessor has but a kilobyte.
    assert facts["shared_bytes_per_multiprocessor"] == facts["shared_bytes_per_block"] + 1024


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32, np.int64])
def test_an_array_that_no_kernel_wrote_holds_nothing_to_be_taken_for_a_result(host, dtype):
    written = host.array(np.arange(4096, dtype=dtype))
    del written  # whose memory may be the next one's
    empty = host.empty((2, 2048), dtype)
    assert empty.shape == (2, 2048) and (np.isnan(empty) if empty.dtype.kind == "f" else empty == -1).all()
