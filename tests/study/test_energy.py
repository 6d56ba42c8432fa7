"""The energy counter of a GPU: what is asked of NVML, what is said where it cannot be read, and that it counts."""

import ctypes
import time
from types import SimpleNamespace

import pytest

from gpumf_study import energy


class Nvml:
    """NVML, with one GPU and its counter; keeps the names of the functions called.

    fails : dict of function -> status that it returns
    """

    def __init__(self, **fails):
        self.calls, self.fails, self.millijoules = [], fails, 2**32 + 1500
        self.nvmlErrorString = lambda status: {3: b"Not Supported", 6: b"Not Found"}[status]

    def __getattr__(self, name):
        def function(*arguments):
            self.calls.append(name)
            if name == "nvmlDeviceGetHandleByPciBusId_v2":
                assert arguments[0] == b"0000:1B:00.0"
                arguments[1]._obj.value = 7
            if name == "nvmlDeviceGetTotalEnergyConsumption" and name not in self.fails:
                assert arguments[0].value == 7
                arguments[1]._obj.value = self.millijoules
            return self.fails.get(name, 0)

        return function


def test_the_counter_is_in_joules_and_nvml_is_ended():
    nvml = Nvml()
    with energy.EnergyCounter("0000:1B:00.0", nvml) as counter:
        before = counter.joules()
        assert before == pytest.approx((2**32 + 1500) / 1e3, abs=1e-9)  # more than 32 bits
        nvml.millijoules += 250
        assert counter.joules() - before == pytest.approx(0.25)
        assert "nvmlShutdown" not in nvml.calls
    assert nvml.calls[0] == "nvmlInit_v2" and nvml.calls[-1] == "nvmlShutdown"


@pytest.mark.parametrize(
    ("function", "status", "reason"),
    [("nvmlInit_v2", 3, "Not Supported"), ("nvmlDeviceGetHandleByPciBusId_v2", 6, "Not Found"),
     ("nvmlDeviceGetTotalEnergyConsumption", 3, "Not Supported")],
)  # fmt: skip
def test_a_counter_that_cannot_be_read_says_why_and_nvml_is_ended(function, status, reason):
    nvml = Nvml(**{function: status})
    with pytest.raises(energy.EnergyError, match=f"cannot be read: {function} says '{reason}'"):
        energy.EnergyCounter("0000:1B:00.0", nvml)
    assert nvml.calls.count("nvmlShutdown") == (function != "nvmlInit_v2")


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setattr(energy, "_LIBRARY", "libabsent-nvml.so.1")
    with pytest.raises(energy.EnergyError, match=r"libabsent-nvml\.so\.1 does not load"):
        energy.EnergyCounter("0000:1B:00.0")


def test_the_gpu_is_that_of_cuda(monkeypatch):
    nvml, runtime = Nvml(), SimpleNamespace(deviceGetPCIBusId={2: "0000:1B:00.0"}.get)
    monkeypatch.setattr(ctypes, "CDLL", {"libnvidia-ml.so.1": nvml}.get)
    device = SimpleNamespace(xp=SimpleNamespace(cuda=SimpleNamespace(runtime=runtime, Device=Current)))
    with energy.counter(device) as counter:
        assert counter.joules() > 0


class Current:
    """The current device of CuPy, the third."""

    id = 2


def test_the_counter_grows_while_the_gpu_works(cuda):
    try:
        counter = energy.counter(cuda)
    except energy.EnergyError as error:
        pytest.skip(str(error))
    matrix = cuda.xp.ones((4096, 4096), "float32")
    with counter:
        before, started = counter.joules(), time.perf_counter()
        while (elapsed := time.perf_counter() - started) < 1:
            matrix @ matrix
            cuda.synchronize()
        assert 10 < (counter.joules() - before) / elapsed < 3000  # watts
