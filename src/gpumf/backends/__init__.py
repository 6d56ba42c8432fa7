"""Compile, cache and launch `kernels/`; time them; say what the device is. The only place that imports CuPy.

A device is an object with `array`, `arrays`, `empty`, `zeros`, `to_numpy`, `free_bytes`, `stream`, `compile_ahead`,
`kernel`, `recorded`, `synchronize`, `time` and `facts`, and has the module `xp` that works on its arrays, CuPy or
NumPy; the rest of the package sees nothing else of it. 'cuda' is the GPU, 'emulator' the CPU in its
place.
"""

import sys
from functools import cache

from gpumf._util.forks import in_children


class DeviceError(RuntimeError):
    """The requested device or kernel cannot be used here. The message says why and what to do."""


def out_of_memory(what, asked, free):
    """The DeviceError that says that `what` asked for more bytes than are free."""
    return DeviceError(
        f"{what} takes {asked / 2**30:.3g} GiB, and {free / 2**30:.3g} GiB of the device's memory are free: a "
        "smaller `batch` or `chunk`, fewer factors or fewer ratings take less"
    )


@cache
def available():
    """Whether a CUDA device and CuPy are here."""
    return why_unavailable() is None


@cache
def why_unavailable(name="cuda"):
    """One sentence on what is missing for this device, or None where nothing is."""
    if name == "emulator":
        from gpumf.backends import emulator

        return emulator.why_unavailable()
    if _FORKED:
        return _FORKED[0]
    try:
        import cupy
    except ImportError as error:
        return f"CuPy does not import ({error}); install the extra cuda12 or cuda13 that fits the driver"
    try:
        if cupy.cuda.runtime.getDeviceCount() > 0:
            return None
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"no CUDA device answers ({error})"
    return "no CUDA device was found"


def gpus():
    """How many CUDA devices this process may use; 0 without any."""
    if not available():
        return 0
    import cupy

    return cupy.cuda.runtime.getDeviceCount()


_FORKED: list[str] = []
"""Why CUDA is not available in a process that was forked from one that had asked for it."""


@in_children
def _after_fork():
    """A child process has no part in its parent's CUDA context, and can make none of its own."""
    if "cupy" in sys.modules and why_unavailable.cache_info().currsize and available():
        _FORKED[:] = [
            "this process was forked from one that had used CUDA: start it with multiprocessing.get_context('spawn')"
        ]
        for known in (available, why_unavailable, device):
            known.cache_clear()


@cache
def device(name="cuda"):
    """The current CUDA device, or the CPU in its place ('emulator').

    Raises DeviceError: where it is not available
    """
    if why := why_unavailable(name):
        raise DeviceError(f"device={name!r} is not available: {why}")
    if name == "emulator":
        from gpumf.backends.emulator import EmulatorDevice

        return EmulatorDevice()
    from gpumf.backends.cuda import CudaDevice

    return CudaDevice()
