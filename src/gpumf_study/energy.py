"""The energy that a GPU has consumed, by the total energy counter of NVML (NVIDIA Management Library).

Source: NVML API Reference, nvmlDeviceGetTotalEnergyConsumption: millijoules since the driver was loaded, on GPUs from
Volta on. The driver refreshes the counter every 20 to 100 ms, so a difference needs seconds.
"""

import ctypes

_LIBRARY = "libnvidia-ml.so.1"  # it comes with the driver


class EnergyError(RuntimeError):
    """The energy counter cannot be read here. The message says why."""


class EnergyCounter:
    """The total energy counter of a GPU: of all that it does, for all processes; of a MIG instance, the whole GPU's.

    A context manager that ends NVML when the body ends.

    pci_bus_id : str, as CUDA gives it
    library : NVML, as ctypes loads it; None for that of the driver

    Raise EnergyError where there is no NVML, no such GPU, or no counter that may be read.
    """

    def __init__(self, pci_bus_id, library=None):
        if library is None:
            try:
                library = ctypes.CDLL(_LIBRARY)
            except OSError as error:
                raise EnergyError(f"NVML's library {_LIBRARY} does not load ({error})") from error
        self._library, self._gpu = library, ctypes.c_void_p()
        self._call("nvmlInit_v2")
        try:
            self._call("nvmlDeviceGetHandleByPciBusId_v2", pci_bus_id.encode(), ctypes.byref(self._gpu))
            self.joules()
        except EnergyError:
            self._library.nvmlShutdown()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._library.nvmlShutdown()

    def joules(self):
        """Return the energy consumed since the driver was loaded, in joules, as of the last refresh."""
        millijoules = ctypes.c_ulonglong()
        self._call("nvmlDeviceGetTotalEnergyConsumption", self._gpu, ctypes.byref(millijoules))
        return millijoules.value / 1e3

    def _call(self, name, *arguments):
        if status := getattr(self._library, name)(*arguments):
            describe = self._library.nvmlErrorString
            describe.restype = ctypes.c_char_p
            raise EnergyError(f"the energy counter cannot be read: {name} says {describe(status).decode()!r}")


def counter(device):
    """Return the EnergyCounter of the current GPU.

    device : of `gpumf.backends`, whose CUDA runtime knows the GPU also where CUDA_VISIBLE_DEVICES renumbers GPUs
    """
    cuda = device.xp.cuda
    return EnergyCounter(cuda.runtime.deviceGetPCIBusId(cuda.Device().id))
