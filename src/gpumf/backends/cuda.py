"""One CUDA device through CuPy."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import cupy
import cupyx
import numpy as np

from gpumf._util import paths, threads
from gpumf._util.forks import cached_property
from gpumf.backends import DeviceError, out_of_memory, sources, streaming
from gpumf.backends.recording import Recorder
from gpumf.backends.signature import Signature

# A minute or more, after which a block that only occupies a multiprocessor gives it up.
_MAX_POLLS = 100_000_000

_LOCK = threading.RLock()  # the environment is of all threads

_MAX_COMPILERS = 8  # sources that are compiled at a time: a model has about as many


@cache
def _compilers(process):
    """The threads that compile in this process: NVRTC lets go of the GIL, and compiles sources side by side."""
    return ThreadPoolExecutor(min(_MAX_COMPILERS, threads.cores()), "gpumf-compile")


# The second changes no instruction; compute-sanitizer and the profilers name lines by it.
_OPTIONS = "-std=c++17", "-lineinfo"

_OUT_OF_MEMORY = 2  # CUDA_ERROR_OUT_OF_MEMORY

_STAGED = 8 << 20
"""Bytes of an array from which it goes through pinned memory, at the speed of the bus."""
_STAGE = 64 << 20
"""Bytes of pinned memory for rows that get to the device while others are worked on."""

# Of static and dynamic shared memory together; above this a kernel must ask for the latter (CUDA programming guide,
# "Shared Memory").
_SHARED_WITHOUT_ASKING = 48 * 1024


@dataclass(frozen=True)
class Kernel:
    """A compiled kernel. Calling it launches it: kernel(grid, block, users=.., items=.., shared=bytes).

    See `gpumf.backends.signature.Signature.bind` on the arguments, which may be given in the kernel's order too.
    """

    name: str
    signature: Signature
    function: "cupy.RawKernel"
    device: "CudaDevice"

    def __call__(self, grid, block, /, *arguments, shared=0, **named):
        arguments = self.signature.bind(arguments, named, cupy.ndarray)
        self._ask_for(shared)
        self.device.launched(arguments)
        grid = _three(grid)
        if 0 in grid:  # which CUDA refuses, and the emulator does not
            return
        try:
            self.function(grid, _three(block), arguments, shared_mem=shared)
        except cupy.cuda.driver.CUDADriverError as error:
            if error.status != _OUT_OF_MEMORY:
                raise
            # What a thread has of it, the device keeps for as many threads as it runs at a time.
            asked = self.attributes["local_size_bytes"] * self.device.resident_threads
            raise out_of_memory(f"the local memory of {self.name}", asked, self.device.free_bytes()) from error

    @property
    def attributes(self):
        """Registers, local (spilled), shared and constant bytes, as the driver reports them."""
        return dict(self.function.attributes)

    def active_blocks(self, block, shared=0):
        """Blocks of `block` threads and `shared` bytes that a multiprocessor holds at a time, as the driver says."""
        self._ask_for(shared)
        return cupy.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(self.function.kernel.ptr, block, shared)

    @cached_property
    def _static_shared(self):
        return self.function.shared_size_bytes

    def _ask_for(self, shared):
        if shared and self._static_shared + shared > _SHARED_WITHOUT_ASKING:
            self.function.max_dynamic_shared_size_bytes = shared


def _compiled(number, code, options, first):
    """A module of CuPy for a device, by its number, that has compiled when asked for its first kernel."""
    with cupy.cuda.Device(number), _cache_that_is_private():
        module = cupy.RawModule(code=code, options=options)
        module.get_function(first)
        return module


def _sort_once(number):
    """Load CuPy's sort, which takes half a second, on a device."""
    with cupy.cuda.Device(number):
        cupy.zeros(2, np.int64).sort()


@contextmanager
def _cache_that_is_private():
    """Have CuPy load nothing from its cache, nor write to it, while this lasts, where others could write there too.

    CuPy runs whatever machine code it finds there. Its setting is read at every compilation.
    """
    if not paths.others_could_write(_cupy_cache()):
        yield
        return
    with _LOCK:
        name = "CUPY_CACHE_IN_MEMORY"
        before, os.environ[name] = os.environ.get(name), "1"
        try:
            yield
        finally:
            if before is None:
                del os.environ[name]
            else:
                os.environ[name] = before


def _cupy_cache():
    """Where CuPy keeps what it compiles."""
    return Path(os.environ.get("CUPY_CACHE_DIR") or Path("~/.cupy/kernel_cache").expanduser())


def _three(shape):
    return tuple(shape) if np.ndim(shape) else (int(shape),)


def _event():
    return cupy.cuda.Event(disable_timing=True)


class _Slot:
    """Room for a part of arrays, in pinned memory and on the device, and events: when it is copied, when used up."""

    def __init__(self, device, arrays, longest):
        self.pinned = [cupyx.empty_pinned((longest, *a.shape[1:]), a.dtype) for a in arrays]
        self.arrays = [device.empty((longest, *a.shape[1:]), a.dtype) for a in arrays]
        self.copied, self.used = _event(), _event()


def _in_c_order(values):
    return cupy.ascontiguousarray(cupy.asarray(values))


class CudaDevice(Recorder):
    """Arrays, kernels and time on the current CUDA device.

    Attributes
    ----------
    compile_seconds : that callers of `kernel` waited for what was not compiled yet, or not loaded from CuPy's cache
    """

    name, xp = "cuda", cupy

    def __init__(self):
        self._modules, self._kernels, self._found, self._facts, self._sorted = {}, {}, {}, {}, set()
        self.compile_seconds = 0.0

    @cached_property
    def blas(self):
        """Products of matrices, see `gpumf.backends.blas`; what they load takes a while."""
        from gpumf.backends import cublas

        return cublas

    def array(self, values):
        """A copy of a NumPy array on the device; an array that is there already, itself where it is in C's order."""
        (result,) = self.arrays([values])
        return result

    def arrays(self, values):
        """`array` of each of a list: long ones are on their way one right behind another."""
        with self.sending(values) as (results, _):
            return results

    @contextmanager
    def sending(self, values):
        """(arrays, there): as `arrays`, while the body runs; leaving it waits for all.

        there : function; what is launched after there(n) sees the first n whole
        """
        results, pairs, n_pairs = [], [], [0]
        for one in values:
            one = one if isinstance(one, cupy.ndarray) else np.asarray(one)
            if isinstance(one, cupy.ndarray) or one.nbytes < _STAGED:
                results.append(self._allocated(_in_c_order, one, asked=one.nbytes))
            else:
                results.append(self.empty(one.shape, one.dtype))
                pairs.append([flat.reshape(-1).view(np.uint8) for flat in (np.ascontiguousarray(one), results[-1])])
            n_pairs.append(len(pairs))
        if not pairs:
            yield results, lambda n: None
            return
        kernels, copies, copied = cupy.cuda.get_current_stream(), self._after_kernels(), _event()
        with streaming.sent(pairs, self._rooms(), copies) as wait:

            def there(n):
                wait(n_pairs[n])
                copied.record(copies)
                kernels.wait_event(copied)

            yield results, there

    @staticmethod
    def _after_kernels():
        """A new stream, of copies, that waits for what is launched up to now: it may use the memory of new arrays."""
        copies = cupy.cuda.Stream(non_blocking=True)
        launched = _event()
        launched.record(cupy.cuda.get_current_stream())
        copies.wait_event(launched)
        return copies

    @staticmethod
    def _rooms():
        """Those of `streaming.sent`, in one block of memory: CuPy keeps it for the next to ask for as much."""
        whole = cupyx.empty_pinned((streaming.n_rooms(), streaming.PIECE), np.uint8)
        return [SimpleNamespace(pinned=pinned, copied=_event()) for pinned in whole]

    def array_in_parts(self, values, bounds):
        """(array, steps): as `array` of a long NumPy array, whose rows get there while others are worked on.

        steps : iterator that yields how many rows are there for what is launched next: bounds[1], bounds[2], ..
        """
        there = self.empty(values.shape, values.dtype)
        return there, self._arriving(there, np.ascontiguousarray(values), bounds)

    def _arriving(self, there, values, bounds):
        row = values.nbytes // len(values)
        source, target = (flat.reshape(-1).view(np.uint8) for flat in (values, there))
        places = [slice(row * begin, row * end) for begin, end in pairwise(bounds)]
        pieces = [[source[place]] for place in places]
        steps = zip(bounds[1:], places, self._streamed(pieces, _STAGE), strict=True)
        for end, place, (part,) in steps:
            target[place] = part
            yield end

    def empty(self, shape, dtype):
        """An uninitialised array on the device."""
        return self._allocated(cupy.empty, shape, dtype, asked=int(np.prod(shape)) * np.dtype(dtype).itemsize)

    def zeros(self, shape, dtype):
        """An array of zeros on the device."""
        return self._allocated(cupy.zeros, shape, dtype, asked=int(np.prod(shape)) * np.dtype(dtype).itemsize)

    def _allocated(self, allocate, *arguments, asked):
        try:
            return allocate(*arguments)
        except cupy.cuda.memory.OutOfMemoryError as error:
            raise out_of_memory("an array", asked, self.free_bytes()) from error

    def mark(self):
        """What `to_numpy` waits for to copy what is launched up to now, and not for what is launched later."""
        event = _event()
        event.record()
        return event

    @cached_property
    def _copies(self):
        """The stream of copies that do not wait for kernels launched after what they copy."""
        return cupy.cuda.Stream(non_blocking=True)

    def to_numpy(self, array, dtype=None, out=None, after=None):
        """A copy of a device array on the host, of another dtype if one is given; waits for what writes it.

        out : NumPy array of its shape in C's order, which is overwritten and returned
        after : a `mark` after what writes it; by default all that was launched
        """
        result = np.empty(array.shape, array.dtype if dtype is None else dtype) if out is None else out
        there, stream = isinstance(array, cupy.ndarray), None
        if after is not None:
            stream = self._copies
            stream.wait_event(after)
        if there and 0 < array.nbytes < _STAGED and array.dtype == result.dtype:
            return array.get(stream=stream, out=result)
        if not there or array.nbytes < _STAGED:
            result[...] = cupy.asnumpy(array, stream=stream)
            return result
        source = cupy.ascontiguousarray(array).reshape(-1)
        stream = stream or self._after_kernels()
        streaming.receive([(result.reshape(-1), source)], self._rooms(), stream)
        return result

    @staticmethod
    def room(arrays):
        """Function that returns NumPy arrays, to have `to_numpy` copy these into.

        Until then threads have the system find memory for long ones, which takes longer than the copy.
        """
        made = [np.empty(one.shape, one.dtype) for one in arrays]
        wait = streaming.touched([one for one in made if one.nbytes >= _STAGED])

        def ready():
            wait()
            return made

        return ready

    @staticmethod
    def empty_pinned(shape, dtype):
        """An uninitialised NumPy array in page-locked memory, from and to which the device copies by itself."""
        return cupyx.empty_pinned(shape, dtype)

    def upload(self, values, there):
        """Copy a NumPy array into one of the device, both as they are."""
        there.set(values)

    def download(self, there, values):
        """Copy an array of the device into a NumPy array; waits for the kernels that write it."""
        there.get(out=values)

    @staticmethod
    def free_bytes():
        """Memory that new arrays can have now: what the driver has free and what CuPy keeps for reuse."""
        return cupy.cuda.runtime.memGetInfo()[0] + cupy.get_default_memory_pool().free_bytes()

    def synchronize(self):
        """Wait for all launched work; errors of earlier launches are raised here."""
        cupy.cuda.get_current_stream().synchronize()

    def stream(self, arrays, bounds):
        """Yield the parts bounds[k]:bounds[k + 1] of NumPy arrays on the device, copied while others are worked on.

        The next part is on its way, through pinned memory and a stream of its own, while the kernels that were
        launched on this one run. They have to be launched before the next part is asked for.

        Yields
        ------
        list of device arrays, valid until the next is asked for
        """
        yield from self._streamed([[array[begin:end] for array in arrays] for begin, end in pairwise(bounds)])

    def _streamed(self, pieces, least=0):
        """As `stream`, for lists of arrays, of one length each, and of the types of the first.

        least : elements that there is room for: pinned memory of a size that was taken before is found again
        """
        if pieces:
            longest = max(least, *(len(piece[0]) for piece in pieces))
            slots = [_Slot(self, pieces[0], longest) for _ in range(2)]
            kernels, copies = cupy.cuda.get_current_stream(), cupy.cuda.Stream(non_blocking=True)
            yield from streaming.parts(pieces, slots, kernels, copies)

    def compile_ahead(self, variants):
        """Start to compile sources on other threads, in this order; `kernel` waits for what it needs of them.

        The first time, CuPy's sort is loaded meanwhile, too.

        variants : list of (source, dict of its preprocessor definitions)
        """
        number = cupy.cuda.runtime.getDevice()
        if number not in self._sorted:
            self._sorted.add(number)
            _compilers(os.getpid()).submit(_sort_once, number)
        for source, defines in variants:
            self._module(source, defines)

    def kernel(self, source, name, **defines):
        """Compile the kernel `name` of `kernels/<source>` with preprocessor definitions, once for each device.

        Raises
        ------
        DeviceError : with the compiler's message, where it does not compile
        """
        known = cupy.cuda.runtime.getDevice(), source, name, *defines.items()
        if known in self._found and "GPUMF_DEV" not in os.environ:
            return self._found[known]
        started = time.perf_counter()
        key, module = self._module(source, defines)
        if (key, name) not in self._kernels:
            try:
                function = module.result().get_function(name)
            except BaseException as error:
                self._modules.pop(key, None)  # so that another call tries again
                if isinstance(error, cupy.cuda.compiler.CompileException):
                    raise DeviceError(f"{source} does not compile with {defines}: {error}") from error
                raise
            signature = Signature(name, sources.kernels(sources.path(source, defines), **defines)[name])
            self._kernels[key, name] = Kernel(name, signature, function, self)
            self.compile_seconds += time.perf_counter() - started
        self._found[known] = self._kernels[key, name]
        return self._kernels[key, name]

    def _module(self, source, defines):
        """(key, future of the CuPy module) of a source with definitions, for the current device."""
        path = sources.path(source, defines)
        # CuPy keeps what it compiled by code and options, and the code has all that it includes. With the definitions
        # in it the options are always the same, for which CuPy asks the compiler once who it is.
        lines = [f"#define {key} {value}" for key, value in sorted(defines.items())]
        options = (*_OPTIONS, "-arch=sm_90a") if defines.get("WGMMA") else _OPTIONS
        key = cupy.cuda.runtime.getDevice(), "\n".join([*lines, sources.text(path)]), options
        with _LOCK:
            if key not in self._modules:
                first = next(iter(sources.kernels(path, **defines)))
                self._modules[key] = _compilers(os.getpid()).submit(_compiled, *key, first)
            return key, self._modules[key]

    def launched(self, arguments):
        """Note the arguments of a launch where launches are recorded: a graph has no hold on its arrays."""
        if self._launches is not None:
            self._launches.append(arguments)

    def _captured(self, work):
        # The null stream, in which everything else runs, cannot be captured.
        stream = cupy.cuda.Stream(non_blocking=True)
        with stream:
            stream.begin_capture()
            try:
                work()
            except BaseException:
                with suppress(cupy.cuda.runtime.CUDARuntimeError):  # what went wrong in work() says more
                    stream.end_capture()
                raise
            return stream.end_capture().launch

    def time(self, work, repeats=10, warmup=2):
        """Seconds that each of `repeats` calls of work() takes on the device, by events, after warm-up.

        Returns
        -------
        float64 (repeats,)
        """
        wait(self._modules.values())  # what is loaded meanwhile may wait for the device, and the device for it
        for _ in range(warmup):
            work()
        seconds = np.empty(repeats)
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        for k in range(repeats):
            begin.record()
            work()
            end.record()
            end.synchronize()
            seconds[k] = cupy.cuda.get_elapsed_time(begin, end) * 1e-3
        return seconds

    @contextmanager
    def limited_to(self, multiprocessors):
        """While it lasts, kernels run on so many multiprocessors, as if the device had no others.

        On each of the others a block waits that takes all its shared memory (kernels/microbenchmarks/occupy.cu).
        Neither may anything be compiled meanwhile, nor a kernel be launched for the first time, nor memory be
        allocated: each of these may wait for all that runs on the device.

        Raises
        ------
        ValueError : the device has fewer multiprocessors
        DeviceError : on leaving, where some of the others were given back before, after a minute or more
        """
        facts = self.facts
        others = facts["multiprocessors"] - multiprocessors
        if others < 0:
            raise ValueError(f"this device has {facts['multiprocessors']} multiprocessors, not {multiprocessors}")
        shared = facts["shared_bytes_per_multiprocessor"] - facts["reserved_shared_bytes"]
        occupy = self.kernel("microbenchmarks/occupy.cu", "occupy")
        waiting, gave_up, go = (cupy.zeros(1, np.int32) for _ in range(3))
        seen, release = cupyx.zeros_pinned(1, np.int32), cupyx.zeros_pinned(1, np.int32)
        release[:] = 1
        # They do not wait for the stream in which everything else is launched, nor it for them.
        beside, signals = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
        self.synchronize()
        wait(self._modules.values())
        if others:
            with beside:
                occupy(others, 1, waiting=waiting, gave_up=gave_up, go=go, max_polls=_MAX_POLLS, shared=shared)
        try:
            while seen[0] < others:
                waiting.get(stream=signals, out=seen)
                signals.synchronize()
            yield
        finally:
            go.set(release, stream=signals)
            beside.synchronize()
        if int(gave_up[0]):
            raise DeviceError(f"not all was done on {multiprocessors} multiprocessors: the others were given back")

    @property
    def resident_threads(self):
        """The most threads that are on the device at a time."""
        return self.facts["multiprocessors"] * self.facts["threads_per_multiprocessor"]

    @property
    def facts(self):
        """What the current device and its software are: a dict of plain values for provenance."""
        number = cupy.cuda.runtime.getDevice()
        if number not in self._facts:
            self._facts[number] = self._facts_of(number)
        return dict(self._facts[number])

    @staticmethod
    def _facts_of(number):
        properties = cupy.cuda.runtime.getDeviceProperties(number)
        return {
            "gpu": properties["name"].decode(),
            "compute_capability": f"{properties['major']}.{properties['minor']}",
            "multiprocessors": properties["multiProcessorCount"],
            "memory_bytes": properties["totalGlobalMem"],
            "l2_bytes": properties["l2CacheSize"],
            "shared_bytes_per_block": properties["sharedMemPerBlockOptin"],
            "shared_bytes_per_multiprocessor": properties["sharedMemPerMultiprocessor"],
            "reserved_shared_bytes": properties["reservedSharedMemPerBlock"],
            "threads_per_multiprocessor": properties["maxThreadsPerMultiProcessor"],
            "blocks_per_multiprocessor": properties["maxBlocksPerMultiProcessor"],
            "registers_per_multiprocessor": properties["regsPerMultiprocessor"],
            "cuda_driver": _dotted(cupy.cuda.runtime.driverGetVersion()),
            "cuda_runtime": _dotted(cupy.cuda.runtime.runtimeGetVersion()),
            "cupy": cupy.__version__,
        }

    def ceilings(self, n=8192, repeats=10):
        """What this device reaches at best, measured now: the denominators of every `fraction_of_limit`.

        Returns
        -------
        dict: copy_bytes_per_second (device copy, bytes read plus bytes written, arrays far larger than L2),
        fp16_flops (n x n x n matrix product with FP16 operands on random data), fp32_flops (the same in FP32)
        """
        source = cupy.random.random(1 << 28, cupy.float32)
        target = cupy.empty_like(source)
        copy = self.time(partial(cupy.copyto, target, source), repeats)
        result = {"copy_bytes_per_second": 2 * source.nbytes / np.median(copy)}
        del source, target
        for name, dtype in (("fp16_flops", cupy.float16), ("fp32_flops", cupy.float32)):
            a, b = (cupy.random.standard_normal((n, n), cupy.float32).astype(dtype) for _ in range(2))
            product = cupy.empty_like(a)
            seconds = self.time(partial(cupy.matmul, a, b, out=product), repeats)
            result[name] = 2 * n**3 / np.median(seconds)
        return result


def _dotted(version):
    return f"{version // 1000}.{version % 1000 // 10}"
