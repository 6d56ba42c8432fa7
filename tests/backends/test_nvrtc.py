"""NVRTC compiles every kernel for every architecture, without a warning, on a machine that may have no GPU."""

import ctypes

import pandas as pd
import pytest

import nvrtc
from gpumf import backends
from gpumf.backends import sources
from gpumf.models import als, bayesian, rbm, sgd  # noqa: F401 - declare their sources
from gpumf.ratings import synthetic_device  # noqa: F401 - declares its source
from support import KERNELS, slow

ARCHITECTURES = [75, 80, 86, 89, 90, 100, 120]
VERSIONS = {"LOAD": [0], "A_HALF": [0], "IMPLICIT": [0], "BIASES": [0], "HIDDEN": [128], "LEVELS": [5]}
VERSIONS |= {"STAGE_ROWS": [64], "WGMMA": [0], "THROUGH_L1": [1]}
SOURCES = [source for source in sources.every() if not sources.needs_hopper(source)]
OF_WARPGROUPS = [{"IMPLICIT": 0, "BYTES": 0}, {"IMPLICIT": 1, "BYTES": 0}, {"IMPLICIT": 0, "BYTES": 1}]
HOPPER = {"FACTORS": 256, "IMPLICIT": 0, "STAGE_ROWS": 64, "BATCHED": 0, "WGMMA": 1, "THROUGH_L1": 0}

pytestmark = pytest.mark.skipif(nvrtc.why_unavailable() is not None, reason=str(nvrtc.why_unavailable()))


@pytest.fixture(scope="module")
def frame():
    found = sources.variants(FACTORS=[16, 100], **VERSIONS)
    variants = [(source, sm, defines) for source, defines in found for sm in ARCHITECTURES]
    rows = [
        {"source": source, "architecture": sm, "row_rates": defines.get("ROW_RATES"), **kernel}
        for (source, sm, defines), kernels in zip(variants, nvrtc.resources_of(variants), strict=True)
        for kernel in kernels
    ]
    return pd.DataFrame(rows)


def spilling(frame):
    """The kernels that promise speed by their name and spill registers all the same."""
    spilled = frame.spill_store_bytes + frame.spill_load_bytes > 0
    return frame[spilled & frame.kernel.str.contains("fast|tensor_core|warpgroups")]


def test_every_source_compiles_for_the_oldest_and_the_newest_architecture():
    first = {source: defines for source, defines in sources.variants(FACTORS=[16], **VERSIONS)}
    assert set(first) == set(SOURCES)
    variants = [(source, sm, defines) for source, defines in first.items() for sm in (75, 120)]
    assert all(nvrtc.resources_of(variants))


@pytest.mark.slow
def test_every_kernel_compiles_for_every_architecture(frame):
    for source in SOURCES:
        of_source = frame[frame.source == source]
        for name in sources.kernels(sources.kernels_folder() / source):
            assert set(of_source[of_source.kernel == name].architecture) == {75, 80, 86, 89, 90, 100, 120}
    assert frame.registers.between(1, 255).all()


@pytest.mark.slow
def test_every_version_compiles():
    chosen = [
        *sources.variants(FACTORS=[100], HIDDEN=[100], LEVELS=[5], WGMMA=[0], THROUGH_L1=[1]),
        ("als/tensor_core.cu", HOPPER),
        *[("als/warpgroups.cu", {"FACTORS": 100, "WGMMA": 1} | rest) for rest in OF_WARPGROUPS],
    ]
    variants = [(source, 90, defines) for source, defines in chosen]
    for (source, _, defines), kernels in zip(variants, nvrtc.resources_of(variants), strict=True):
        names = {kernel["kernel"] for kernel in kernels}
        assert names == set(sources.kernels(sources.kernels_folder() / source)), defines


def test_only_sources_that_there_are_are_declared():
    assert set(sources.DECLARED) <= set(sources.every())


@pytest.mark.slow
def test_static_shared_memory_is_what_the_source_asks_for(frame):
    assert (frame[frame.kernel == "errors"].static_shared_bytes == 2 * 1024 * 8).all()
    assert (frame[frame.kernel == "hogwild"].static_shared_bytes == 0).all()


@pytest.mark.slow
@pytest.mark.parametrize(("columns", "biases"), [(18, 1), (18, 2), (302, 1)])
def test_models_with_biases_compile_and_spill_nothing(columns, biases):
    variants = sources.variants(FACTORS=[columns], BIASES=[biases])
    of_sgd = [(source, 90, defines) for source, defines in variants if "BIASES" in defines]
    of_sgd = [one for one in of_sgd if not (one[2].get("BATCHED") and one[2].get("ROW_RATES"))]  # as the header says
    for kernels in nvrtc.resources_of(of_sgd):
        assert spilling(pd.DataFrame(kernels)).empty


@pytest.mark.slow
@pytest.mark.parametrize("levels", [2, 10, 32])
@pytest.mark.parametrize("hidden", [20, 512])
def test_boltzmann_machines_of_every_size_spill_nothing(hidden, levels):
    for kernels in nvrtc.resources_of([("rbm/fast.cu", sm, {"HIDDEN": hidden, "LEVELS": levels}) for sm in (75, 90)]):
        assert spilling(pd.DataFrame(kernels)).empty


@pytest.mark.slow
def test_no_fast_kernel_spills(frame):
    spilled = spilling(frame)
    assert spilled[spilled.row_rates != 1].empty
    assert (spilled.spill_store_bytes <= 80).all()  # a few words, as its header says


def test_products_of_hopper_spill_nothing():
    assert spilling(pd.DataFrame(nvrtc.resources("als/tensor_core.cu", 90, **HOPPER))).empty


@pytest.mark.parametrize("factors", [64, *slow(49, 56)])
def test_ten_blocks_of_64_factors_share_a_multiprocessor_of_hopper(factors):
    defines = HOPPER | {"FACTORS": factors, "IMPLICIT": 1, "STAGE_ROWS": 32, "WGMMA": 0}
    kernels = pd.DataFrame(nvrtc.resources("als/tensor_core.cu", 90, **defines)).set_index("kernel")
    assert kernels.registers.tensor_core <= 65536 // (10 * 64) // 8 * 8
    assert kernels.spill_store_bytes.tensor_core <= 8  # two words, as gather.cuh says


@pytest.mark.parametrize("factors", [64, *slow(1, 7, 16, 32, 48, 80, 100, 128)])
def test_draws_on_tensor_cores_spill_nothing(factors):
    for kernels in nvrtc.resources_of([("als/tensor_core_draw.cu", sm, {"FACTORS": factors}) for sm in (75, 80, 90)]):
        assert spilling(pd.DataFrame(kernels)).empty


@pytest.mark.parametrize("implicit", [0, 1])
@pytest.mark.parametrize(
    "factors",
    [100, 128, 200, 256, *slow(1, 65, 72, 80, 88, 96, 104, 105, 112, 113, 120, 121, 129, 192, 193, 248, 249, 255)],
)
def test_warpgroups_spill_nothing(factors, implicit):
    defines = {"FACTORS": factors, "IMPLICIT": implicit, "WGMMA": 1, "BYTES": 0}
    kernels = pd.DataFrame(nvrtc.resources("als/warpgroups.cu", 90, **defines))
    assert spilling(kernels).empty
    threads = 384 if not 64 < factors <= 128 else 512 if implicit or factors > 104 else 640
    assert kernels.registers.max() == 65536 // threads // 8 * 8, "of all threads, before they share otherwise"


@pytest.mark.parametrize("factors", [100, *slow(81, 88, 96, 97, 104)])
def test_warpgroups_of_bytes_spill_nothing(factors):
    kernels = pd.DataFrame(nvrtc.resources("als/warpgroups.cu", 90, FACTORS=factors, IMPLICIT=0, WGMMA=1, BYTES=1))
    assert spilling(kernels).empty


def test_a_spill_in_a_fast_kernel_is_seen():
    frame = pd.DataFrame(nvrtc.resources(KERNELS / "spills.cu", 90))
    assert list(spilling(frame).kernel) == ["fast_but_spills"]


def test_a_warning_is_an_error(tmp_path):
    path = tmp_path / "unused.cu"
    path.write_text('extern "C" __global__ void unused(float* out) { int never_used; out[0] = 1.0f; }\n')
    with pytest.raises(backends.DeviceError, match=r"unused\.cu.*never_used"):
        nvrtc.resources(path, 90)


def test_a_kernel_that_the_report_lacks_is_an_error(tmp_path):
    path = tmp_path / "mangled.cu"  # without extern "C" it is called _Z7mangledPf there
    path.write_text("__global__ void mangled(float* out) { out[0] = 1.0f; }\n")
    with pytest.raises(backends.DeviceError, match=r"says nothing that can be read of \['mangled'\]"):
        nvrtc.resources(path, 90)


def test_what_compiled_once_is_kept_until_source_definitions_or_architecture_change(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUMF_DEV", "1")  # sources are read again
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    plain, compiled = nvrtc._compile, []
    monkeypatch.setattr(
        nvrtc, "_compile", lambda name, code, options: compiled.append(options) or plain(name, code, options)
    )
    path = tmp_path / "one.cu"
    path.write_text('extern "C" __global__ void one(float* out) { out[0] = 1.0f; }\n')
    first = nvrtc.resources(path, 90)
    assert nvrtc.resources(path, 90) == first and len(compiled) == 1
    nvrtc.resources(path, 80)
    nvrtc.resources(path, 90, A=1)
    path.write_text('extern "C" __global__ void one(float* out) { out[0] = 2.0f; }\n')
    nvrtc.resources(path, 90)
    assert len(compiled) == 4
    for kept in (tmp_path / "cache/gpumf/nvrtc").iterdir():
        kept.write_bytes(kept.read_bytes()[:40])  # cut off
    assert nvrtc.resources(path, 90) == first and len(compiled) == 5
    for kept in (tmp_path / "cache/gpumf/nvrtc").iterdir():
        kept.write_bytes(kept.read_bytes().replace(b"registers", b"registerz"))
    assert nvrtc.resources(path, 90) == first and len(compiled) == 6


def test_a_failure_of_nvrtc_itself_is_an_error():
    with pytest.raises(backends.DeviceError, match="NVRTC failed: NVRTC_ERROR_INVALID_PROGRAM"):
        nvrtc._checked(nvrtc._library().nvrtcDestroyProgram(ctypes.byref(ctypes.c_void_p())))
