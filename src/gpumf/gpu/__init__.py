"""Compile, cache and launch `kernels/`; time them; say what the device is. The only place that imports CuPy.

A device is an object with `array`, `empty`, `to_numpy`, `kernel`, `synchronize` and `time`; models and
experiments see nothing else of it.
"""

from functools import cache


class DeviceError(RuntimeError):
    """The requested device or kernel cannot be used here. The message says why and what to do."""


@cache
def available():
    """Whether a CUDA device and CuPy are here."""
    return why_unavailable() is None


@cache
def why_unavailable():
    """One sentence on what is missing for CUDA, or None where nothing is."""
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


@cache
def device():
    """The current CUDA device.

    Raises
    ------
    DeviceError : where CUDA is not available
    """
    if not available():
        raise DeviceError(f"device='cuda' is not available: {why_unavailable()}")
    from gpumf.gpu.cuda import CudaDevice

    return CudaDevice()
