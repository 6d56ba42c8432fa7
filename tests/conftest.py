"""Devices to test on, results to test with, and which tests a run has."""

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, settings

import every_lane
from gpumf import backends
from gpumf.backends import sources
from gpumf_study import results
from launched import Launched
from support import GpuRecord, number_of, own_cores, own_gpu_first

# The same few examples in every run, however long one takes, as the first ones compile; `--hypothesis-profile=search`
# draws more, and others each time.
COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]}
settings.register_profile("search", max_examples=100, **COMMON)
settings.register_profile("few", max_examples=25, derandomize=True, database=None, **COMMON)
settings.load_profile("few")


def pytest_addoption(parser):
    parser.addoption("--record", action="store_true", help="write gpu_tests.json for this GPU")
    parser.addoption("--unpooled", action="store_true", help="give each array on the GPU an allocation of its own")
    parser.addoption("--multiprocessors", type=int, help="launch kernels as on a GPU that has so many")
    parser.addoption("--every-lane", action="store_true", help="run the kernels of every_lane.py, for racecheck")
    parser.addoption("--part", default="1/1", help="2/8 runs every eighth of the chosen tests, from the second on")


KERNEL_DEVICES = [pytest.param("emulator", marks=pytest.mark.emulator), pytest.param("cuda", marks=pytest.mark.gpu)]


def _skip_unless_available(name):
    if why := backends.why_unavailable(name):
        pytest.skip(why)


@pytest.fixture(params=["cpu", *KERNEL_DEVICES])
def device(request):
    """Every device in turn, by name; a test that takes it runs once on each."""
    if request.param != "cpu":
        _skip_unless_available(request.param)
    return request.param


@pytest.fixture(params=KERNEL_DEVICES)
def launcher(request):
    """The devices that run kernels, in turn."""
    _skip_unless_available(request.param)
    return backends.device(request.param)


@pytest.fixture
def cuda():
    """The CUDA device, for tests of what only it does."""
    _skip_unless_available("cuda")
    return backends.device()


@pytest.fixture
def host():
    """The processor as a device for kernels, for tests of what only it does."""
    _skip_unless_available("emulator")
    return backends.device("emulator")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    """With pytest-xdist, tell each worker which GPU its tests are to use."""
    node.workerinput["gpus"] = own_gpu_first(number_of(node.gateway.id), backends.gpus())


def pytest_configure(config):
    given = getattr(config, "workerinput", {})
    if gpus := given.get("gpus"):
        os.environ["CUDA_VISIBLE_DEVICES"] = gpus  # CuPy has not asked for any yet
    if given and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(
            0, own_cores(number_of(given["workerid"]), given["workercount"], os.sched_getaffinity(0))
        )
    config.pluginmanager.register(Launched(config), "launched")
    if config.getoption("--unpooled"):
        import cupy

        cupy.cuda.set_allocator(None)
    if multiprocessors := config.getoption("--multiprocessors"):
        from gpumf.backends.cuda import CudaDevice

        facts_of = CudaDevice._facts_of
        CudaDevice._facts_of = staticmethod(lambda number: facts_of(number) | {"multiprocessors": multiprocessors})
    if config.getoption("--every-lane"):
        folder = TemporaryDirectory()
        config.add_cleanup(folder.cleanup)
        kernels = Path(folder.name) / "kernels"
        every_lane.write(kernels)
        sources.kernels_folder = lambda: kernels
    if config.getoption("--record"):
        if not backends.available():
            raise pytest.UsageError(f"--record needs a GPU: {backends.why_unavailable()}")
        if not hasattr(config, "workerinput"):  # with pytest-xdist, the one process that hears of all outcomes
            config.pluginmanager.register(GpuRecord(), "gpu-record")


@pytest.hookimpl(trylast=True)  # of what -k and -m leave
def pytest_collection_modifyitems(config, items):
    part, parts = map(int, config.getoption("--part").split("/"))
    config.hook.pytest_deselected(items=[item for k, item in enumerate(items) if k % parts != part - 1])
    items[:] = items[part - 1 :: parts]


def pytest_itemcollected(item):
    """Mark what asks for the CUDA device as a GPU test, and what needs the rendered book as slow."""
    if "cuda" in getattr(item, "fixturenames", ()):
        item.add_marker("gpu")
    if item.get_closest_marker("book") or item.get_closest_marker("browser"):
        item.add_marker("slow")


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """Results are read from and written to here."""
    monkeypatch.setattr(results, "repository", lambda: tmp_path)
    return tmp_path


@pytest.fixture
def store(repository):
    """Stores a frame as a result of the thesis's: recorded in full on the first of REFERENCES, or live here."""

    def stored(name, frame, live=False, profile=None, device=None, **facts):
        device = device or (results.device_name() if live else results.REFERENCES[0])
        to = results.folder(live, device) / "thesis"
        to.mkdir(parents=True, exist_ok=True)
        frame.to_csv(to / f"{name}.csv", index=False)
        known = {"commit": "c0ffee", "clean": True, "started": "2020-01-01", "gpu": "a GPU"}
        known |= {"parameters": {"profile": profile or ("quick" if live else "full")}}
        (to / f"{name}.json").write_text(json.dumps(known | facts))
        return results.load(name, device, live)

    return stored
