"""Compiling ahead asks for what models ask for, each once."""

from types import MappingProxyType

from gpumf import ALS, SGD, backends
from gpumf.backends import sources
from gpumf.command_line import main


class Recorded:
    """Stands in for a device and notes what is to be compiled."""

    facts = MappingProxyType({"shared_bytes_per_block": 232_448})

    def __init__(self):
        self.asked, self.ahead = [], []

    def compile_ahead(self, variants):
        self.ahead.extend((source, tuple(sorted(defines.items()))) for source, defines in variants)

    def kernel(self, source, name, **defines):
        assert name in sources.kernels(sources.path(source, defines))
        self.asked.append((source, tuple(sorted(defines.items()))))


def test_all_that_models_launch_is_compiled_once(monkeypatch):
    device = Recorded()
    monkeypatch.setattr(backends, "device", lambda: device)
    assert main(["compile", "5", "7", "5"]) == 0
    assert len(device.asked) == len(set(device.asked)) and device.ahead == device.asked
    for factors in (5, 7):
        defines = {"FACTORS": factors, "IMPLICIT": 0, "STAGE_ROWS": 64, "BATCHED": 0, "WGMMA": 0, "THROUGH_L1": 0}
        assert ("als/tensor_core.cu", tuple(sorted(defines.items()))) in device.asked
        for biases, columns in ((0, factors), (1, factors + 2), (2, factors + 2)):
            for stored in ("half_bits", "float"):
                defines = {
                    "BIASES": biases,
                    "FACTORS": columns,
                    "LOCKED": 1,
                    "ROW_RATES": 1,
                    "STORED": stored,
                    "BATCHED": 0,
                }
                assert ("sgd/fast.cu", tuple(sorted(defines.items()))) in device.asked
    kernels = {of.source for model in (ALS, SGD) for of in model.solver_classes().values() if hasattr(of, "source")}
    assert {source for source in kernels if not sources.needs_hopper(source)} <= {
        source for source, _ in device.asked
    }
    assert not any(sources.needs_hopper(source) for source, _ in device.asked)


def test_a_hopper_gpu_has_what_others_cannot_run(monkeypatch):
    device = Recorded()
    monkeypatch.setattr(backends, "device", lambda: device)
    device.facts = device.facts | {"compute_capability": "9.0"}
    assert main(["compile", "7"]) == 0
    assert [dict(defines)["FACTORS"] for source, defines in device.asked if sources.needs_hopper(source)] == [7]


def test_without_a_gpu_it_says_why(monkeypatch, capsys):
    def device():
        raise backends.DeviceError("no device")

    monkeypatch.setattr(backends, "device", device)
    assert main(["compile"]) == 1 and capsys.readouterr().err == "gpumf: no device\n"
