"""What CudaDevice does around CuPy, with a stand-in for CuPy, so that it is seen without a GPU."""

import importlib.util
import os
import sys
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from threading import Barrier
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from gpumf import backends
from gpumf._util import paths
from gpumf.backends import sources


class OutOfMemoryError(MemoryError):
    pass


class CUDADriverError(RuntimeError):
    status = 2


class Function:
    """A kernel, which notes its launches."""

    def __init__(self, fake, name):
        self.fake, self.name = fake, name
        self.attributes = {"local_size_bytes": 4096}

    def __call__(self, grid, block, arguments, shared_mem):
        if self.fake.full:
            raise CUDADriverError
        self.fake.launches.append((self.name, grid, block, arguments, shared_mem))


@pytest.fixture
def fake(monkeypatch):
    """The stand-in: its current device, whether its memory is full, and what was compiled and launched."""
    fake = SimpleNamespace(number=0, full=False, compiled=[], in_memory=[], launches=[])

    def allocate(make):
        def made(*arguments):
            if fake.full:
                raise OutOfMemoryError
            return make(*arguments)

        return made

    def module(code, options):
        fake.compiled.append((fake.number, code, options))
        fake.in_memory.append(os.environ.get("CUPY_CACHE_IN_MEMORY"))
        return SimpleNamespace(get_function=lambda name: Function(fake, name))

    def properties(number):
        return defaultdict(lambda: number + 1, name=f"GPU {number}".encode())

    cupy = ModuleType("cupy")
    cupy.ndarray, cupy.__version__ = np.ndarray, "0"
    cupy.asarray, cupy.empty, cupy.zeros = map(allocate, (np.asarray, np.empty, np.zeros))
    cupy.ascontiguousarray = np.ascontiguousarray
    fake.module, cupy.RawModule = module, lambda **given: fake.module(**given)
    cupy.get_default_memory_pool = lambda: SimpleNamespace(free_bytes=lambda: 1 << 29)
    runtime = SimpleNamespace(
        getDevice=lambda: fake.number,
        getDeviceProperties=properties,
        driverGetVersion=lambda: 13000,
        runtimeGetVersion=lambda: 13020,
        memGetInfo=lambda: (1 << 29, 1 << 40),
    )
    cupy.cuda = SimpleNamespace(
        Device=lambda number: nullcontext(),
        Event=lambda: SimpleNamespace(record=lambda: None, synchronize=lambda: None),
        get_elapsed_time=lambda begin, end: 1.0,
        runtime=runtime,
        memory=SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
        driver=SimpleNamespace(CUDADriverError=CUDADriverError),
        compiler=SimpleNamespace(CompileException=RuntimeError),
    )
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setitem(sys.modules, "cupyx", ModuleType("cupyx"))
    return fake


@pytest.fixture
def device(fake):
    """A CudaDevice on the stand-in; the module itself stays as it is."""
    where = importlib.util.find_spec("gpumf.backends.cuda").origin
    spec = importlib.util.spec_from_file_location("gpumf_gpu_cuda_on_a_stand_in", where)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module.CudaDevice()
    del sys.modules[spec.name]


@pytest.fixture
def source(tmp_path, monkeypatch):
    """A folder of kernels with one kernel and a header."""
    (tmp_path / "common").mkdir()
    (tmp_path / "common/value.cuh").write_text("#pragma once\nconstexpr int VALUE = 3;\n")
    (tmp_path / "answer.cu").write_text(
        '#include "common/value.cuh"\nextern "C" __global__ void answer(int* out, long long n) { out[0] = VALUE; }\n'
    )
    monkeypatch.setattr(sources, "kernels_folder", lambda: tmp_path)
    return tmp_path


def test_what_cupy_compiles_and_keeps_has_the_headers_in_it(device, fake, source, monkeypatch):
    monkeypatch.setenv("GPUMF_DEV", "1")  # sources are read again
    first = device.kernel("answer.cu", "answer")
    assert device.kernel("answer.cu", "answer") is first and len(fake.compiled) == 1
    header = source / "common/value.cuh"
    header.write_text(header.read_text().replace("3", "4"))
    assert device.kernel("answer.cu", "answer") is not first
    (_, old, _), (_, new, options) = fake.compiled
    assert "VALUE = 3" in old and "VALUE = 4" in new and "#include" not in new
    assert not any(option.startswith("-I") for option in options)


def test_sources_are_compiled_side_by_side_and_only_waiting_counts(device, fake, source, monkeypatch):
    (source / "other.cu").write_text('extern "C" __global__ void other(int* out) { out[0] = 1; }\n')
    both, module = Barrier(2), fake.module

    def together(code, options):
        both.wait(120)  # of a compilation that waits for another one, this is the end
        return module(code, options)

    fake.module = together
    sorts = []
    monkeypatch.setattr(sys.modules[type(device).__module__], "_sort_once", sorts.append)
    with ThreadPoolExecutor(2) as pool:
        monkeypatch.setattr(sys.modules[type(device).__module__], "_compilers", lambda process: pool)
        device.compile_ahead([("answer.cu", {}), ("other.cu", {}), ("answer.cu", {})])
        assert device.compile_seconds == 0
        device.kernel("other.cu", "other")
        waited = device.compile_seconds
        device.kernel("other.cu", "other")
        assert waited > 0 and device.compile_seconds == waited
        device.kernel("answer.cu", "answer")
        device.compile_ahead([])
    assert len(fake.compiled) == 2 and sorts == [0]


def test_times_are_taken_when_nothing_is_compiled_any_more(device, fake, source):
    module, order = fake.module, []

    def slow(code, options):
        time.sleep(0.1)
        order.append("compiled")
        return module(code, options)

    fake.module = slow
    device.compile_ahead([("answer.cu", {})])
    assert len(device.time(lambda: order.append("timed"), repeats=2, warmup=0)) == 2
    assert order == ["compiled", "timed", "timed"]


def test_what_did_not_compile_is_tried_again(device, fake, source):
    module = fake.module

    def fails(code, options):
        raise RuntimeError("line 3")

    fake.module = fails
    with pytest.raises(backends.DeviceError, match=r"answer\.cu does not compile .*: line 3"):
        device.kernel("answer.cu", "answer")
    fake.module = module
    assert device.kernel("answer.cu", "answer")


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="Windows keeps users apart by other means")
def test_cupys_cache_is_left_alone_where_others_could_write_there(device, fake, source, tmp_path, monkeypatch):
    cache = tmp_path / "cupy/cache"
    monkeypatch.setenv("CUPY_CACHE_DIR", str(cache))
    monkeypatch.delenv("CUPY_CACHE_IN_MEMORY", raising=False)

    def compiled_anew():
        fake.number += 1  # of which each compiles its own
        device.kernel("answer.cu", "answer")
        assert "CUPY_CACHE_IN_MEMORY" not in os.environ
        return fake.in_memory[-1]

    assert compiled_anew() is None and not cache.exists()
    cache.mkdir(parents=True)
    for place in (cache, cache.parent):
        place.chmod(0o755)
    kept = cache / "0.cubin"
    kept.write_bytes(b"")
    kept.chmod(0o644)
    assert compiled_anew() is None and cache.stat().st_mode & 0o777 == 0o755
    for place, right in ((cache, 0o755), (kept, 0o644), (cache.parent, 0o755)):
        place.chmod(0o777)
        with pytest.warns(RuntimeWarning, match="can be written by others: compiled code in .* is not loaded"):
            paths._warn.cache_clear()
            assert compiled_anew() == "1"
        place.chmod(right)
        assert compiled_anew() is None
    monkeypatch.setattr(os, "geteuid", lambda: cache.stat().st_uid + 1)
    with pytest.warns(RuntimeWarning, match="belongs to another user"):
        assert compiled_anew() == "1"


def test_each_device_has_its_kernels_and_facts(device, fake, source):
    kernels, facts = [], []
    for fake.number in (0, 1, 0, 1):
        kernels.append(device.kernel("answer.cu", "answer"))
        facts.append(device.facts)
    assert [number for number, *_ in fake.compiled] == [0, 1]
    assert kernels[0] is kernels[2] is not kernels[1] is kernels[3]
    assert [f["gpu"] for f in facts] == ["GPU 0", "GPU 1"] * 2
    assert [f["multiprocessors"] for f in facts] == [1, 2, 1, 2]


def test_launches_are_bound_to_the_signature(device, fake, source):
    out = np.zeros(1, np.int32)
    device.kernel("answer.cu", "answer")(2, (4, 8), n=5, out=out)
    ((name, grid, block, arguments, shared),) = fake.launches
    assert (name, grid, block, shared) == ("answer", (2,), (4, 8), 0)
    assert arguments[0] is out and type(arguments[1]) is np.int64 and arguments[1] == 5
    with pytest.raises(TypeError, match=r"answer: \['n'\] are missing"):
        device.kernel("answer.cu", "answer")(2, 4, out=out)
    assert len(fake.launches) == 1


def test_out_of_memory_is_one_sentence(device, fake, source):
    kernel, out, values = device.kernel("answer.cu", "answer"), np.zeros(1, np.int32), np.zeros(1 << 18, np.float32)
    fake.full = True
    for work, asked in (
        (lambda: device.empty((1 << 20, 512), np.float32), "an array takes 2 GiB"),
        (lambda: device.zeros(1 << 28, np.float64), "an array takes 2 GiB"),
        (lambda: device.array(values), "an array takes 0.000977 GiB"),
        (lambda: kernel(1, 1, out, 1), "the local memory of answer takes"),
    ):
        with pytest.raises(
            backends.DeviceError, match=rf"{asked}.*, and 1 GiB of the device's memory are free: a smaller"
        ):
            work()


class There(np.ndarray):
    """An array of the stand-in's device."""

    def set(self, values, stream):
        assert isinstance(stream, SimpleNamespace) and values.dtype == self.dtype
        np.copyto(np.asarray(self), values)

    def get(self, stream, out, blocking=True):
        assert out.dtype == self.dtype and out.flags.c_contiguous
        np.copyto(out, np.asarray(self))
        return out


@pytest.fixture
def copying(device, fake, monkeypatch):
    """The device, whose arrays are of another type than NumPy's, and long from 1,000 bytes on."""
    cupy, cuda = sys.modules["cupy"], sys.modules["cupy"].cuda
    module = sys.modules[type(device).__module__]
    cupy.ndarray = There
    cupy.empty = lambda shape, dtype: np.full(shape, 1, dtype).view(There)
    cupy.asarray = lambda values: np.array(values).view(There)
    cupy.ascontiguousarray = lambda values: np.ascontiguousarray(values).view(There)
    cupy.asnumpy = lambda array, stream=None: np.array(array)

    def stream(**_):
        return SimpleNamespace(wait_event=lambda event: None, synchronize=lambda: None)

    cuda.Stream, cuda.get_current_stream = stream, stream
    cuda.Event = lambda **_: SimpleNamespace(record=lambda stream=None: None, synchronize=lambda: None)
    monkeypatch.setattr(module.cupyx, "empty_pinned", np.empty, raising=False)
    monkeypatch.setattr(module, "_STAGED", 1000)
    monkeypatch.setattr("gpumf.backends.streaming.PIECE", 80)
    return device


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint8, bool])
def test_long_arrays_are_copied_in_pieces(copying, dtype):
    values = np.random.default_rng(0).integers(0, 200, (500, 7)).astype(dtype)
    given = values, values[:3], values.T, copying.array(values[::2])
    for copy, one in zip(copying.arrays(given), given, strict=True):
        assert isinstance(copy, There) and copy.dtype == one.dtype and copy.shape == one.shape
        assert np.array_equal(copying.to_numpy(copy), one)
    there, out = copying.array(values), np.empty(values.shape, np.float64)
    assert copying.to_numpy(there, out=out) is out and np.array_equal(out, values)
    assert copying.to_numpy(there, np.float64).dtype == np.float64
    assert np.array_equal(copying.to_numpy(there, after=copying.mark()), values)
    with copying.sending([values, values[:1], values[1:]]) as (arrays, whole):
        for n in range(4):
            whole(n)
            assert all(map(np.array_equal, arrays[:n], [values, values[:1], values[1:]]))
    (room, short) = copying.room([there, there[:1]])()
    assert room.shape == values.shape and room.dtype == dtype and short.shape == (1, 7)


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(5,), (1000, 7), (64, 3, 5)])
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint8])
def test_long_arrays_go_through_pinned_memory_unchanged(cuda, monkeypatch, shape, dtype):
    monkeypatch.setattr("gpumf.backends.cuda._STAGED", 1)
    monkeypatch.setattr("gpumf.backends.streaming.PIECE", 72)
    values = np.random.default_rng(0).integers(0, 200, shape).astype(dtype)
    there = cuda.array(values)
    assert there.shape == shape and there.dtype == dtype
    assert np.array_equal(cuda.to_numpy(there), values)
    assert np.array_equal(cuda.to_numpy(cuda.array(values.T)), values.T)
    assert np.array_equal(cuda.to_numpy(there[::2]), values[::2])
    wider = cuda.to_numpy(there, np.float64)
    assert wider.dtype == np.float64 and np.array_equal(wider, values)
    given = values, values[:1].astype(np.int16), there, values.reshape(-1)[:2]
    for copy, one in zip(cuda.arrays(given), given, strict=True):
        assert copy.dtype == one.dtype and np.array_equal(cuda.to_numpy(copy), cuda.to_numpy(one))
