"""What tests share: places, random ratings to test with, and the record of a test run on a GPU."""

import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from gpumf import ALS, SGD, backends
from gpumf.ratings import Ratings
from gpumf_study import results

ROOT = Path(__file__).resolve().parent.parent
KERNELS = ROOT / "tests/kernels"
NAMES, FAULTS = KERNELS / "names.cu", KERNELS / "faults.cu"

MODELS = pytest.mark.parametrize("model", [ALS, SGD])


def slow(*cases):
    """Mark cases of `pytest.mark.parametrize`, each a value or a tuple of values, as slow."""
    return [pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow) for case in cases]


def needs_gpus(workers):
    """Skip on a machine with GPUs, but fewer than a local cluster of so many workers takes."""
    if 0 < backends.gpus() < workers:
        pytest.skip(f"{workers} workers take a GPU each, and this machine has {backends.gpus()}")


def outside_make():
    """The environment of a process that is started by hand: without what a `make` above the tests hands on."""
    of_make = "MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "ARGS", "PYTHON"
    return {name: value for name, value in os.environ.items() if name not in of_make}


def least_peak(call, values):
    """The most bytes that a call allocates, the least of a call a value: threads of other tests allocate, too."""
    peaks = []
    for value in values:
        tracemalloc.start()
        call(value)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    return min(peaks)


def fewer(device, n):
    """n, or a thirtieth of it where every memory access is a function call."""
    return n // 30 if device == "emulator" else n


def kernels_on(model, device):
    """The names of a model's kernels that run on a device."""
    kind, found = "cuda" if device == "emulator" else device, model.solver_classes().items()
    return [
        name for name, one in found if one.device == kind and (kind == "cpu" or one.runs_on(backends.device(device)))
    ]


def some_kernels(model, device):
    """All kernels of a GPU; of the others, where compiling takes longer than the test, one."""
    kernels = kernels_on(model, device)
    return {"cpu": kernels[:1], "emulator": kernels[-1:]}.get(device, kernels)


# Every scheme of kernels/sgd, as (kernel, options) of SGD, with sizes for small sets.
SCHEMES = [(name, case) for name, of in SGD.solver_classes().items() if of.device == "cuda" for case in of.cases]

schemes = pytest.mark.parametrize(("kernel", "options"), SCHEMES, ids=lambda x: str(x) if x else "")


def to_numpy(device, *arrays):
    """Copies of a device's arrays."""
    return arrays if device == "cpu" else tuple(map(backends.device(device).to_numpy, arrays))


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


def integer_factors(rows, factors, seed):
    """Small integers, so that scores are exact in any order of summation and often equal."""
    return np.random.default_rng(seed).integers(-2, 3, (rows, factors)).astype(np.float32)


def seen_ratings(n_users, n_items, seed):
    """Rows of every length: the first users have seen all items, all but one, ..., the last ones none."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, n_items // 2 + 1, n_users)
    counts[:4], counts[-2:] = np.maximum(n_items - np.arange(4), 0), 0
    items = np.concatenate([rng.choice(n_items, count, replace=False) for count in counts])
    return Ratings(np.repeat(np.arange(n_users), counts), items, np.ones(len(items)), n_users, n_items)


def mixed(n_users=24, n_items=90, seed=0, few=(0, 1, 1)):
    """Users with `few` ratings, one with all items, and others; ratings from -2 to 5, zeros among them."""
    rng = np.random.default_rng(seed)
    counts = np.concatenate([[*few, n_items], rng.integers(1, n_items, n_users - len(few) - 1)])
    items = np.concatenate([rng.permutation(n_items)[:count] for count in counts])
    values = rng.integers(-2, 6, len(items))
    return Ratings(np.repeat(np.arange(n_users), counts), items, values, n_users, n_items)


def scattered(n_users, n_items, nnz, seed):
    """Ratings 1..5 of so many random pairs, in random order."""
    rng = np.random.default_rng(seed)
    cells = rng.permutation(n_users * n_items)[:nnz]
    return Ratings(cells // n_items, cells % n_items, rng.integers(1, 6, nnz), n_users, n_items)


def rated(n_levels, seed=0, **shape):
    """Ragged ratings 1..n_levels: a user without one, one with one, two items without any."""
    ratings = ragged_ratings(seed=seed, **shape)
    values = np.random.default_rng(seed).integers(1, n_levels + 1, ratings.nnz)
    return Ratings(ratings.users, ratings.items, values, ratings.n_users, ratings.n_items, scale=(1, n_levels))


def one_rating_a_row(n, seed=0):
    """n ratings no two of which share a user or an item: no update can collide with another one's vectors."""
    rng = np.random.default_rng(seed)
    return Ratings(rng.permutation(n), rng.permutation(n), rng.integers(1, 6, n), n, n, scale=(1, 5))


def planted(n_users, n_items, noise, seed=0, rank=3):
    """Every rating of a small matrix, of low rank plus noise: as dense, so as contended, as can be; split."""
    rng = np.random.default_rng(seed)
    p, q = rng.random((n_users, rank)), rng.random((n_items, rank)) * 3
    users, items = (a.ravel() for a in np.indices((n_users, n_items)))
    values = (p @ q.T).ravel() + noise * rng.standard_normal(len(users))
    return Ratings(users, items, values, n_users, n_items).split(0.2)


def random_factors(rows, factors, seed=None):
    """Uniform on [0, 1), of as many digits as half precision holds: every kernel sees the same numbers."""
    return np.random.default_rng(seed).random((rows, factors), np.float32).astype(np.float16).astype(np.float32)


def hashed(x):
    """splitmix64 of an integer modulo 2^64, with Python's integers, as in Steele, Lea and Flood (2014)."""
    mask = 2**64 - 1
    z = x + 0x9E3779B97F4A7C15 & mask
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
    z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
    return z ^ z >> 31


def number_of(worker):
    """The number, from 0, of a worker of pytest-xdist, whose name is 'gw0' and so on."""
    return int(worker.removeprefix("gw"))


def own_gpu_first(worker, gpus):
    """CUDA_VISIBLE_DEVICES of a worker of pytest-xdist: all GPUs, so that tests of several see them, from its own on.

    worker : int from 0; they take GPUs in turn
    gpus : int, of this machine; for 0 the text is empty
    """
    names = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    names = names[:gpus] if names[0] else [*map(str, range(gpus))]
    own = worker % max(gpus, 1)
    return ",".join(names[own:] + names[:own])


def own_cores(worker, workers, cores):
    """The cores of one of so many workers: its share, two at least, so that threads of all workers do not compete.

    worker : int from 0; cores : of this process
    """
    cores = sorted(cores)
    share = min(max(len(cores) // workers, 2), len(cores))
    first = worker * share
    return {cores[(first + k) % len(cores)] for k in range(share)}


class GpuRecord:
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

    def pytest_collectreport(self, report):
        if report.failed:  # tests that nobody ran
            self.counts["failed"] += 1
            self.failed.append(report.nodeid)

    def pytest_sessionfinish(self):
        results.store_tests("gpu_tests", self.counts | {"failures": self.failed}, self.before)
