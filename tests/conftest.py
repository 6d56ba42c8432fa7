"""Devices to test on, random ratings to test with, and the record of a test run on a GPU."""

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from gpumf import SGD, gpu, results
from gpumf.datasets import Ratings

# The same few examples in every run, however long one takes, as the first ones compile; `--hypothesis-profile=search`
# draws more, and others each time.
COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]}
settings.register_profile("search", max_examples=100, **COMMON)
settings.register_profile("few", max_examples=25, derandomize=True, database=None, **COMMON)
settings.load_profile("few")


def pytest_addoption(parser):
    parser.addoption("--record", action="store_true", help="write gpu_tests.json for this GPU")
    parser.addoption("--unpooled", action="store_true", help="give each array on the GPU an allocation of its own")


KERNEL_DEVICES = [pytest.param("host", marks=pytest.mark.host), pytest.param("cuda", marks=pytest.mark.gpu)]


def _skip_unless_available(name):
    if why := gpu.why_unavailable(name):
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
    return gpu.device(request.param)


@pytest.fixture
def cuda():
    """The CUDA device, for tests of what only it does."""
    _skip_unless_available("cuda")
    return gpu.device()


@pytest.fixture
def host():
    """The processor as a device for kernels, for tests of what only it does."""
    _skip_unless_available("host")
    return gpu.device("host")


def fewer(device, n):
    """n, or a thirtieth of it where every memory access is a function call."""
    return n // 30 if device == "host" else n


def kernels_on(model, device):
    """The names of a model's kernels that run on a device."""
    kind = "cuda" if device == "host" else device
    return [name for name, where in model.kernels().items() if where == kind]


# Every scheme of kernels/sgd, as (kernel, options) of SGD, with sizes for small sets.
SCHEMES = [(name, case) for name, of in SGD.schemes().items() if of.device == "cuda" for case in of.cases]


def to_numpy(device, *arrays):
    """Copies of a device's arrays."""
    return arrays if device == "cpu" else tuple(map(gpu.device(device).to_numpy, arrays))


def ragged_ratings(n_users=60, n_items=40, longest=35, seed=None, name="ragged"):
    """Random ratings 1..5 with rows of every length from 0 to `longest`, in random order, some columns empty."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, longest + 1, n_users)
    counts[:3] = 0, 1, longest
    rng.shuffle(counts)
    users = np.repeat(np.arange(n_users), counts)
    # The last two items stay without a rating.
    items = np.concatenate([rng.choice(n_items - 2, count, replace=False) for count in counts])
    order = rng.permutation(len(users))
    values = rng.integers(1, 6, len(users)).astype(np.float32)
    return Ratings(users[order], items[order], values[order], n_users, n_items, scale=(1, 5), name=name)


def random_factors(rows, factors, seed=None):
    """Uniform on [0, 1), of as many digits as half precision holds: every kernel sees the same numbers."""
    return np.random.default_rng(seed).random((rows, factors), np.float32).astype(np.float16).astype(np.float32)


class _GpuRecord:
    """Counts the outcomes of the tests marked gpu and stores them with the provenance of this machine."""

    def __init__(self):
        self.counts = dict.fromkeys(("passed", "failed", "skipped"), 0)
        self.failed = []
        self.before = results.provenance()

    def pytest_runtest_logreport(self, report):
        if "gpu" not in report.keywords or not (report.when == "call" or report.outcome != "passed"):
            return
        self.counts[report.outcome] += 1
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_sessionfinish(self):
        results.store_tests("gpu_tests", self.counts | {"failures": self.failed}, self.before)


def pytest_configure(config):
    if config.getoption("--unpooled"):
        import cupy

        cupy.cuda.set_allocator(None)
    if config.getoption("--record"):
        if not gpu.available():
            raise pytest.UsageError(f"--record needs a GPU: {gpu.why_unavailable()}")
        if not hasattr(config, "workerinput"):  # with pytest-xdist, the one process that hears of all outcomes
            config.pluginmanager.register(_GpuRecord(), "gpu-record")


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: "last" in item.keywords)


@pytest.fixture
def whole_run(request):
    """For what can only be judged after all tests."""
    if request.config.args != request.config.getini("testpaths") or any(
        request.config.getoption(option) for option in ("keyword", "markexpr", "lf")
    ):
        pytest.skip("only part of the tests are run")


def pytest_itemcollected(item):
    """Whatever asks for the CUDA device is a GPU test."""
    if "cuda" in getattr(item, "fixturenames", ()):
        item.add_marker("gpu")
