"""The kernels on the CPU: slow, and strict. It needs a C++ compiler and no GPU.

The same CUDA sources, compiled behind kernels/emulator/cuda.h. A launch checks what a GPU leaves to luck: an index
out of bounds, a read of shared memory that nobody has written, a barrier or a shuffle to which not all threads come.
Each is a DeviceError that names kernel, block and thread, and the line of the source.
"""

import ctypes
import math
import os
import random
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd

from gpumf._util import threads
from gpumf._util.forks import cached_property
from gpumf.backends import DeviceError, blas, compile, sources
from gpumf.backends.cpu.timing import seconds_of
from gpumf.backends.recording import Recorder
from gpumf.backends.signature import Signature

# Enough groups to get into each other's way, few enough to be quick.
_MULTIPROCESSORS, _THREADS_PER_MULTIPROCESSOR = 4, 256

_FREE_BYTES = 1 << 30

_OPTIONS = ["-std=c++17", "-gdwarf-4", "-fPIC", "-fno-exceptions", "-Wno-unknown-pragmas", "-U_FORTIFY_SOURCE"]
# Clang's scattered vector stores would go past the sanitizer.
_KERNEL = ["-O1", "-fno-tree-vectorize", "-fno-tree-slp-vectorize", "-fvisibility=hidden"]
_SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"]

_MAX_THREADS, _MAX_SHARED = 1024, 227 << 10  # of a block; kernels/emulator/cuda.h has the second too

_MAX_STEPS = 1_000_000
_STEP = np.dtype([(name, np.uint32) for name in ("thread", "array", "offset", "access", "barriers")])


class _Array(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("begin", ctypes.c_void_p), ("bytes", ctypes.c_size_t))


class _Launch(ctypes.Structure):
    """As kernels/emulator/runtime.cpp has it."""

    _fields_ = (
        ("run_thread", ctypes.c_void_p),
        ("dynamic_shared", ctypes.c_void_p),
        ("arguments", ctypes.POINTER(ctypes.c_void_p)),
        ("arrays", ctypes.POINTER(_Array)),
        ("n_arrays", ctypes.c_size_t),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_size_t),
        ("cores", ctypes.c_uint),
        ("shuffled", ctypes.c_uint),
        ("seed", ctypes.c_uint64),
        ("steps", ctypes.c_void_p),
        ("max_steps", ctypes.c_size_t),
        ("n_steps", ctypes.c_size_t),
        ("error_at", ctypes.c_size_t),
        ("error", ctypes.c_char * 512),
    )


@cache
def why_unavailable():
    """One sentence on what is missing to run kernels on the CPU, or None where nothing is."""
    if sys.platform != "linux":
        return "the emulator needs Linux"
    return compile.why_unavailable()


@dataclass(frozen=True)
class Kernel:
    """A compiled kernel. Calling it runs it: kernel(grid, block, users=.., items=.., shared=bytes).

    See `gpumf.backends.signature.Signature.bind` on the arguments, which may be given in the kernel's order too.
    """

    source: str
    name: str
    defined: tuple  # (name, value) of each definition that it is compiled with
    signature: Signature
    library: Path
    device: "EmulatorDevice"

    def __call__(self, grid, block, /, *arguments, shared=0, **named):
        arguments = self.signature.bind(arguments, named, np.ndarray)
        grid = (*(grid if isinstance(grid, tuple | list) else (grid,)), 1, 1)[:3]
        block = (*(block if isinstance(block, tuple | list) else (block,)), 1, 1)[:3]
        if math.prod(block) > _MAX_THREADS or shared > _MAX_SHARED:
            raise DeviceError(
                f"{self.name}: no GPU runs a block of {block} threads with {shared} bytes shared memory"
            )
        if self.device._launches is None:
            self._run(grid, block, arguments, shared)
        else:
            self.device._launches.append(partial(self._run, grid, block, arguments, shared))

    def _run(self, grid, block, arguments, shared):
        self.device.launched.add((self.source, self.name, self.defined))
        arrays, passed, values, behind = {}, [], [], []
        # An array is passed by its address, a scalar by value, each behind a pointer.
        for name, value in zip(self.signature.names, arguments, strict=True):
            if isinstance(value, np.ndarray):
                arrays[name], place = value, value.__array_interface__["data"][0]
                passed.append((name.encode(), place, value.nbytes))
                value = place
            values.append(np.array([value]))
            behind.append(values[-1].__array_interface__["data"][0])
        if self.device.shuffle is None:
            order, trace = {"cores": threads.count() if math.prod(grid) > 1 else 1}, None
        else:
            draws, trace = self.device.shuffle
            order = {"cores": 1, "shuffled": 1, "seed": draws.getrandbits(32)}
        steps = np.empty(0 if trace is None else _MAX_STEPS, _STEP)
        launch = _Launch(
            **_functions(self.library, self.name),
            arguments=(ctypes.c_void_p * len(values))(*behind),
            arrays=(_Array * len(arrays))(*passed),
            n_arrays=len(arrays),
            grid=grid,
            block=block,
            shared=shared,
            steps=steps.ctypes.data,
            max_steps=len(steps),
            **order,
        )
        _launcher()(ctypes.byref(launch))
        if launch.error:
            raise DeviceError(f"{self.name}: {launch.error.decode()}{_line(self.library, launch.error_at)}")
        if trace is not None:
            trace.append(_readable(steps[: launch.n_steps], arrays, math.prod(block)))
            trace[-1].attrs |= {"kernel": (self.source, self.name), "defined": self.defined}


@cache
def _functions(library, name):
    """What a launch of this kernel of a library has of it."""
    found = {"run_thread": f"run_thread_of_{name}", "dynamic_shared": "dynamic_shared"}
    there = ctypes.CDLL(library)
    return {field: ctypes.cast(there[symbol], ctypes.c_void_p) for field, symbol in found.items()}


@cache
def _launcher():
    return ctypes.CDLL(_runtime()).launch


def _run_all(launches):
    for run in launches:
        run()


def _readable(steps, arrays, threads):
    """The steps of a launch with `threads` a block as a DataFrame, its columns as `EmulatorDevice.shuffled` says."""
    names, widths = list(arrays), np.array([a.itemsize for a in arrays.values()])
    return pd.DataFrame(
        {
            "thread": steps["thread"],
            "block": steps["thread"] // threads,
            "barriers": steps["barriers"],
            "array": np.array(names)[steps["array"]],
            "element": steps["offset"] // widths[steps["array"]],
            "access": np.array(["read", "write", "atomic"])[steps["access"]],
        }
    )


class EmulatorDevice(Recorder):
    """Arrays, kernels and time on the CPU, in the words of `gpumf.backends.cuda.CudaDevice`.

    launched : set of (source, name, definitions) of the kernels that ran so far
    compile_seconds : spent on finding and compiling them
    shuffle : (random draws, trace or None) while launches are `shuffled`, else None
    """

    name, xp, blas = "emulator", np, blas

    def __init__(self):
        self.launched, self.compile_seconds = set(), 0.0
        self.shuffle, self._kernels = None, {}

    def array(self, values):
        return np.array(values, order="C")

    def arrays(self, values):
        return list(map(self.array, values))

    @contextmanager
    def sending(self, values):
        """(arrays, there): the first n arrays are whole from there(n) on, and all at the end."""
        values = list(map(np.asarray, values))
        results = [self.empty(one.shape, one.dtype) for one in values]

        def there(n):
            for result, one in zip(results[:n], values, strict=False):
                result[:] = one

        yield results, there
        there(len(values))

    def room(self, arrays):
        """Function that returns NumPy arrays of the shapes and types of these."""
        return lambda: [np.empty(one.shape, one.dtype) for one in arrays]

    def array_in_parts(self, values, bounds):
        """(array, steps): rows of the array are there from the step on that yields their end."""
        there = self.empty(values.shape, values.dtype)

        def steps():
            for begin, end in pairwise(bounds):
                there[begin:end] = values[begin:end]
                yield end

        return there, steps()

    def empty(self, shape, dtype):
        """An array of NaN or -1, all bits set, which no kernel can take for a result of its own."""
        result = np.empty(shape, dtype)
        result.view(np.uint8).fill(0xFF)
        return result

    def zeros(self, shape, dtype):
        return np.zeros(shape, dtype)

    def mark(self):
        """Nothing to wait for: what is launched has run."""

    def to_numpy(self, array, dtype=None, out=None, after=None):
        result = np.empty(array.shape, array.dtype if dtype is None else dtype) if out is None else out
        result[...] = array
        return result

    @staticmethod
    def empty_pinned(shape, dtype):
        return np.empty(shape, dtype)

    def upload(self, values, there):
        np.copyto(there, values)

    def download(self, there, values):
        np.copyto(values, there)

    @staticmethod
    def free_bytes():
        """Memory that new arrays can have: a part of what a small GPU has."""
        return _FREE_BYTES

    def synchronize(self):
        """Nothing to wait for: a launch returns when it is done."""

    def stream(self, arrays, bounds):
        """Yield the parts bounds[k]:bounds[k + 1] of NumPy arrays, copied, each valid until the next is asked for."""
        for begin, end in pairwise(bounds):
            part = [np.array(array[begin:end]) for array in arrays]
            yield part
            for array in part:  # a GPU overwrites it
                array.view(np.uint8).fill(0xFF)

    def compile_ahead(self, variants):
        """Check that they are declared; each is compiled when it is first asked for: tests wait for no other."""
        for source, defines in variants:
            sources.path(source, defines)

    def kernel(self, source, name, **defines):
        """Compile (once) the kernel `name` of `kernels/<source>` with preprocessor definitions.

        Raises DeviceError: with the compiler's message, where it does not compile
        """
        key = source, name, *defines.items()
        if key in self._kernels and "GPUMF_DEV" not in os.environ:
            return self._kernels[key]
        path = sources.path(source, defines)
        kernels = sources.kernels(path, **defines)
        started = time.perf_counter()
        defined = tuple(sorted(defines.items()))
        library = _library(path.stem, _unit(path, kernels), defined)
        self.compile_seconds += time.perf_counter() - started
        self._kernels[key] = Kernel(source, name, defined, Signature(name, kernels[name]), library, self)
        return self._kernels[key]

    def _captured(self, work):
        work()
        return partial(_run_all, self._launches)

    @contextmanager
    def shuffled(self, seed, trace=None):
        """Within it, launches run on one thread, in an order of their blocks and threads that is drawn from `seed`.

        Threads of a block are switched at reads and writes too, between any two of which another thread of a GPU
        might come first. Blocks run one after another; what happens between two of them is not covered.

        seed : int
        trace : list, to which each launch adds a DataFrame of how threads touched arrays, the first million times:
            thread and block (counted through the grid), barriers (that the block had passed), array, element, access
            ('read', 'write' or 'atomic'); attrs["kernel"] is its (source, name), attrs["defined"] its
            definitions as (name, value)
        """
        before, self.shuffle = self.shuffle, (random.Random(seed), trace)
        try:
            yield
        finally:
            self.shuffle = before

    def time(self, work, repeats=10, warmup=2):
        return seconds_of(work, repeats, warmup)

    @cached_property
    def facts(self):
        return {
            "multiprocessors": _MULTIPROCESSORS,
            "threads_per_multiprocessor": _THREADS_PER_MULTIPROCESSOR,
            "shared_bytes_per_block": _MAX_SHARED,
            "shared_bytes_per_multiprocessor": _MAX_SHARED + 1024,
            "compiler": compile.compiler_version(),
        }


# Compilation


def _sanitize():
    """Whether `make test-sanitize` runs: AddressSanitizer and UBSan instead of the checks of runtime.cpp."""
    return "GPUMF_EMULATOR_SANITIZE" in os.environ


@cache
def _runtime():
    """The compiled kernels/emulator/runtime.cpp."""
    code = sources.text(sources.kernels_folder() / "emulator/runtime.cpp")
    return _compiled("runtime", code, ["-O2", *(_SANITIZERS if _sanitize() else [])], ["-pthread"])


def _unit(path, kernels):
    """What is compiled of a source: with the functions of HOST_SOURCE and, of each of its kernels, HOST_KERNEL."""
    exported = [f"HOST_KERNEL({', '.join([name, *parameters.values()])})" for name, parameters in kernels.items()]
    folder = sources.kernels_folder()
    # In the second are cuda_fp16.h and the like.
    code = sources.text(path, [folder, folder / "emulator"], first=["emulator/cuda.h"])
    return "\n".join([code, "HOST_SOURCE", *exported, ""])


def _compiled(name, code, options, link):
    """The library that the code compiles to."""
    # The library of the sanitizers for `make test-sanitize`, but none where runtime.cpp takes its place.
    kept = [option for option in options if option == _SANITIZERS[0]]
    try:
        return compile.compiled(f"emulator/{name}", code, [*_OPTIONS, *options], [*kept, *link])
    except compile.CompileError as error:
        raise DeviceError(f"{name} does not compile for device='emulator': {error}") from error
    except OSError as error:
        raise DeviceError(
            f"device='emulator' needs a folder for what it compiles, and found none: {error}"
        ) from error


@cache
def _library(name, code, defines):
    """The library of a unit."""
    options = [*_KERNEL, *(f"-D{key}={value}" for key, value in defines)]
    runtime = _runtime()
    link = [f"-L{runtime.parent}", f"-l:{runtime.name}", "-Wl,-rpath,$ORIGIN"]
    if _sanitize():
        return _compiled(name, code, [*options, *_SANITIZERS], link)
    return _compiled(name, code, [*options, "-fsanitize=thread,bounds"], link)


def _line(library, offset):
    """' (file.cu:77)', where that is known."""
    if not offset or not shutil.which("addr2line"):
        return ""
    command = ["addr2line", "-e", library, hex(offset)]
    place = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[0]
    return f" ({Path(place).name})"
