"""One setting of threads, which everything that runs on the CPU obeys."""

import math
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from gpumf import threads
from gpumf.backends import compile
from gpumf.backends.cpu import metrics


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    for name in ("GPUMF_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(threads, "cores", lambda: 16)


def test_the_innermost_setting_counts_and_bounds_hold(monkeypatch):
    assert threads.count() == 16
    monkeypatch.setenv("GPUMF_NUM_THREADS", "8")
    assert threads.count() == 8
    with threads.limited_to(4):
        assert threads.count() == 4
        with threads.limited_to(None):
            assert threads.count() == 4
        with threads.limited_to(20):
            assert threads.count() == 20
            monkeypatch.setenv("OMP_NUM_THREADS", "6,2")
            assert threads.count() == 6
            monkeypatch.setenv("NUMBA_NUM_THREADS", "3")
            assert threads.count() == 3
    monkeypatch.setenv("OMP_NUM_THREADS", "many")  # not ours to judge
    assert threads.count() == 3


@pytest.mark.parametrize("wrong", ["0", "-1", "two", "1.5"])
def test_a_setting_that_is_no_number_is_named(wrong, monkeypatch):
    monkeypatch.setenv("GPUMF_NUM_THREADS", wrong)
    with pytest.raises(ValueError, match=rf"GPUMF_NUM_THREADS must be an integer from 1, not '{wrong}'"):
        threads.count()
    with pytest.raises(ValueError, match="threads must be an integer from 1"), threads.limited_to(0):
        pass


def test_threads_have_settings_of_their_own():
    found = []
    with threads.limited_to(2):
        other = threading.Thread(target=lambda: found.append(threads.count()))
        other.start()
        other.join()
        assert threads.count() == 2 and found == [16]


V1, V2 = {"cpu.cfs_quota_us": "150000", "cpu.cfs_period_us": "100000"}, {"cpu.max": "150000 100000\n"}
NO_V1, NO_V2 = {"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000"}, {"cpu.max": "max 100000\n"}


@pytest.mark.parametrize(
    ("lines", "files", "expected"),
    [
        ("0::/\n", {".": V2}, 1.5),
        ("0::/jobs/mine\n", {"jobs/mine": NO_V2, "jobs": V2}, 1.5),
        ("0::/of/the/host\n", {".": V2}, 1.5),
        ("0::/\n", {".": NO_V2}, math.inf),
        ("0::/\n", {}, math.inf),
        ("3:cpu,cpuacct:/jobs\n2:memory:/\n", {"cpu,cpuacct/jobs": V1}, 1.5),
        ("3:cpu,cpuacct:/\n0::/\n", {"cpu": V1, ".": {}}, 1.5),
        ("3:cpu:/\n", {"cpu": NO_V1}, math.inf),
        ("0::/\n", {".": {"cpu.max": "nonsense"}}, math.inf),
    ],
)
def test_quotas_of_cgroups(lines, files, expected, monkeypatch, tmp_path):
    for folder, contents in files.items():
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        for name, text in contents.items():
            (tmp_path / folder / name).write_text(text)
    (tmp_path / "of process").write_text(lines)
    monkeypatch.setattr(threads, "_PROC", tmp_path / "of process")
    monkeypatch.setattr(threads, "_CGROUPS", tmp_path)
    assert threads._quota.__wrapped__() == expected


def test_numba_and_cpp_run_on_so_many(monkeypatch):
    import numba

    numbers = np.zeros(5, np.float32)
    metrics.copy_finite(numbers, numbers.copy())
    seen, before = [], numba.get_num_threads()
    monkeypatch.setattr(numba, "set_num_threads", seen.append)
    with threads.limited_to(1):
        metrics.copy_finite(numbers, numbers.copy())
    assert seen == [1, before]


class Library:
    """In place of compiled C++: notes the last argument of each call, the number of threads."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        def function(*arguments):
            self.calls.append(arguments[-1])

        setattr(self, name, function)
        return function


def test_every_call_of_cpp_takes_the_number_of_threads(monkeypatch):
    from gpumf.backends.cpu import als, cg, order, sgd

    library = Library()
    monkeypatch.setattr(compile, "library", lambda *_, **__: library)
    monkeypatch.setattr(order, "_compress", lambda: library.compress)
    row, none = np.zeros(2, np.int64), np.zeros(1, np.int32)
    values, factors = np.zeros(1, np.float32), np.zeros((1, 2), np.float32)
    rows = type("Rows", (), {"indptr": row, "indices": none, "values": values, "n_rows": 1})()
    with threads.limited_to(3):
        als.native_half_sweep.__wrapped__(2, True)(row, none, values, factors, factors, 0.1, True)
        als.native_sums.__wrapped__(2)(row, none, values, None, factors, np.zeros((1, 5), np.float32))
        cg.native_half_sweep.__wrapped__(2, True, False)(rows, none, factors, factors)
        sgd.native_ordered.__wrapped__(2, 0, True)(none, none, values, factors, factors, values, row, row)
        order.compressed(np.zeros(9, np.int32), np.zeros(9, np.int32), np.zeros(9, np.float32), row)
        assert library.calls == [3] * 5
        als.native_half_sweep.__wrapped__(2, False)(row, none, values, factors, factors, 0.1, True)
    assert library.calls[-1] == 1


OTHER_SYSTEM = """
import os, sys
import multiprocessing.reduction, asyncio  # these and others look at the system themselves
import numba, numpy, pandas, platformdirs, scipy.sparse
for name in {missing}:
    delattr(os, name)
for name in {modules}:
    sys.modules[name] = None
sys.platform = {platform!r}
import numpy as np
from gpumf import ALS, SGD, ImplicitALS; from gpumf.ratings import Ratings
n = 1 << 20
k = np.arange(n)
ratings = Ratings(k // 256, k % 256, (k * 7 + k // 256) % 5 + 1, 4096, 256)
for model in (ALS(4, device="cpu"), ImplicitALS(4, device="cpu"), SGD(4, device="cpu")):
    model.fit(ratings, 1)
    model.recommend(3, k=2, seen=())
    print(type(model).__name__, len(model.history))
"""


@pytest.mark.parametrize(
    ("platform", "missing", "modules"),
    [
        ("darwin", ["sched_getaffinity", "sched_setaffinity"], []),
        (
            "win32",
            ["sched_getaffinity", "sched_setaffinity", "register_at_fork", "fork", "geteuid", "getuid"],
            ["fcntl", "resource", "pwd", "grp"],
        ),
    ],
)
def test_models_train_on_systems_that_lack_what_linux_has(platform, missing, modules, tmp_path):
    """More than 2^20 ratings, from which threads share the ordering out."""
    code = OTHER_SYSTEM.format(platform=platform, missing=missing, modules=modules)
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path), "NUMBA_THREADING_LAYER": "workqueue"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["ALS", "2", "ImplicitALS", "2", "SGD", "2"]
