"""One setting of threads, which everything that runs on the CPU obeys."""

import math
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from gpumf import ALS, RBM, SGD, BayesianMF, Blend, ImplicitALS
from gpumf._util import threads
from gpumf.backends import compile
from gpumf.backends.cpu import metrics
from gpumf.ratings import Ratings


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    for name in ("GPUMF_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(threads, "_affinity", lambda _: range(16))


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

    def __getitem__(self, name):
        def function(*arguments):
            self.calls.append(arguments[-1])

        return function


def test_every_call_of_cpp_takes_the_number_of_threads(monkeypatch):
    from gpumf.backends.cpu import als, cg, order, ranking, sgd

    library = Library()
    monkeypatch.setattr(compile, "library", lambda *_, **__: library)
    monkeypatch.setattr(order, "_compress", lambda: library["compress"])
    row, none = np.zeros(2, np.int64), np.zeros(1, np.int32)
    values, factors = np.zeros(1, np.float32), np.zeros((1, 2), np.float32)
    rows = type("Rows", (), {"indptr": row, "indices": none, "values": values, "n_rows": 1})()
    with threads.limited_to(3):
        als.native_update.__wrapped__(2, True)(row, none, values, factors, factors, 0.1, True)
        als.native_sums.__wrapped__(2)(row, none, values, None, factors, np.zeros((1, 5), np.float32))
        cg.native_update.__wrapped__(2, True, False)(rows, none, factors, factors, values)
        sgd.native_ordered.__wrapped__(2, 0, True)(none, none, values, factors, factors, values, row, row)
        order.compressed(np.zeros(9, np.int32), np.zeros(9, np.int32), np.zeros(9, np.float32), row)
        best = np.zeros((1, 1), np.int32), np.zeros((1, 1), np.float32)
        ranking.native_top_items.__wrapped__()(none, row, none, factors, factors, np.ones(1, bool), *best)
        assert library.calls == [3] * 6
        als.native_update.__wrapped__(2, False)(row, none, values, factors, factors, 0.1, True)
    assert library.calls[-1] == 1


class Noted:
    """A function of C++ whose calls note their last argument, the number of threads."""

    def __init__(self, function, handed):
        vars(self).update(function=function, handed=handed)

    def __getattr__(self, name):
        return getattr(self.function, name)

    def __setattr__(self, name, value):
        setattr(self.function, name, value)

    def __call__(self, *arguments):
        self.handed.append(arguments[-1])
        return self.function(*arguments)


class Spied:
    """Compiled C++ of `Noted` functions."""

    def __init__(self, library, handed):
        self._library, self._handed = library, handed

    def __getitem__(self, name):
        return Noted(self._library[name], self._handed)


@pytest.fixture
def handed(monkeypatch):
    """The numbers of threads that C++ and Numba are told to run on, of a machine with 16 cores."""
    import numba

    from gpumf.backends.cpu import als, cg, gibbs, order, ranking, sgd

    found, library = [], compile.library
    makers = als.native_update, als.native_sums, cg.native_update, sgd.native_ordered, order._compress
    makers += (ranking.native_top_items, gibbs.row_drawer)
    for maker in makers:
        maker.cache_clear()

    def spied(*arguments, **named):
        made = library(*arguments, **named)
        return made and Spied(made, found)

    before = 1000  # told to restore
    monkeypatch.setattr(compile, "library", spied)
    monkeypatch.setattr(numba, "get_num_threads", lambda: before)
    monkeypatch.setattr(numba, "set_num_threads", lambda n: n == before or found.append(n))
    yield found
    for maker in makers:
        maker.cache_clear()


TRAIN = Ratings(np.arange(400) // 10, np.arange(400) * 7 % 30, np.arange(400) % 5 + 1, 40, 30)
NEW = Ratings([3], [4], [2], 40, 30)
METHODS = {
    "fit": lambda model: model.fit(TRAIN, 1, TRAIN),
    "partial_fit": lambda model: model.partial_fit(NEW),
    "recommend": lambda model: model.recommend(range(40), 3),
    "recommend to a new user": lambda model: model.recommend(ratings={3: 4, 5: 1}, k=3),
    "fold_in": lambda model: model.fold_in(TRAIN),
    "rank": lambda model: model.evaluate_ranking(TRAIN, seen=()),
    "similar_items": lambda model: model.similar_items(range(30), 3),
    "similar_users": lambda model: model.similar_users(range(40), 3),
    "list_diversity": lambda model: model.list_diversity(3),
    "evaluate_sampled": lambda model: model.evaluate_sampled(TRAIN.select(np.arange(3)), 3, 5),
    "score": lambda model: model.score(TRAIN),
    "predict": lambda model: model.predict(range(30), range(30)),
}
KINDS = {
    "ALS": lambda **given: ALS(3, device="cpu", **given),
    "ALS, cg": lambda **given: ALS(3, device="cpu", solver="parallel_cg", **given),
    "ImplicitALS": lambda **given: ImplicitALS(3, device="cpu", **given),
    "ImplicitALS, exact": lambda **given: ImplicitALS(3, device="cpu", solver="parallel", **given),
    "SGD": lambda **given: SGD(3, device="cpu", **given),
    "SGD, ordered": lambda **given: SGD(3, device="cpu", solver="ordered_parallel", **given),
    "RBM": lambda **given: RBM(4, device="cpu", **given),
    "BayesianMF": lambda **given: BayesianMF(3, **given),
}


def numbers_of(handed, work, model):
    handed.clear()
    work(model)
    return set(handed)


@pytest.mark.parametrize(
    "kind", ["ALS", *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS if kind != "ALS")]
)
def test_every_method_of_every_model_runs_on_its_threads(kind, handed):
    free, bound = (KINDS[kind](**given).fit(TRAIN, 1) for given in ({}, {"threads": 3}))
    for name, work in METHODS.items():
        if name == "partial_fit" and not hasattr(free, name):
            continue
        alone, limited = (numbers_of(handed, work, model) for model in (free, bound))
        assert all(n <= 3 for n in limited), name
        assert (max(alone, default=0) > 3) == (max(limited, default=0) > 1), name
        assert alone or name in ("predict", "evaluate_sampled"), (
            name
        )  # of factors, which NumPy multiplies on one thread


def test_a_blend_and_what_assigns_threads_are_bound_too(handed, monkeypatch):
    models = [kind(3, device="cpu").fit(TRAIN, 1) for kind in (ALS, RBM)]
    blend = Blend(*models, weights=[0.5, 0.5], threads=3)
    for work in ("fit", "recommend", "recommend to a new user", "rank", "score", "predict"):
        made = (lambda one: one.fit(TRAIN)) if work == "fit" else METHODS[work]
        assert numbers_of(handed, made, blend) <= {1, 2, 3}, work
    model = models[0]
    assert max(numbers_of(handed, METHODS["fit"], model)) == 16
    model.threads = 2
    assert max(numbers_of(handed, METHODS["fit"], model)) == 2
    monkeypatch.setenv("GPUMF_NUM_THREADS", "1")
    model.threads = 5
    assert numbers_of(handed, METHODS["fit"], model) == {1}
    model.threads = 0
    with pytest.raises(ValueError, match="threads must be an integer from 1"):
        model.recommend(1)


def test_on_an_emulated_gpu_threads_are_those_of_the_grid():
    assert ALS(3, device="emulator", threads=64).hyperparameters.threads == 64
    with pytest.raises(TypeError, match="threads: for one solver alone"):
        SGD(3, device="emulator", threads=64)


def test_blas_runs_on_as_few_while_any_method_does(monkeypatch):
    """With a stand-in for threadpoolctl: methods that overlap leave what was before."""
    now = [16]

    class Limited:
        def __init__(self, limits):
            self.before, now[0] = now[0], limits

        def restore_original_limits(self):
            now[0] = self.before

    class ThreadpoolController:
        def limit(self, *, limits, user_api):
            assert user_api == "blas"
            return Limited(limits)

    stand_in = type(sys)("threadpoolctl")
    stand_in.ThreadpoolController = ThreadpoolController
    monkeypatch.setitem(sys.modules, "threadpoolctl", stand_in)
    first, second = (threads._BLAS.limited_to(n) for n in (3, 2))
    for step, expected in (
        (first.__enter__, 3),
        (second.__enter__, 2),
        (lambda: first.__exit__(None, None, None), 2),
        (lambda: second.__exit__(None, None, None), 16),
    ):
        step()
        assert now == [expected]
    model = ALS(2, device="cpu", threads=4)
    seen = []
    model.fit(TRAIN, 1, stop=lambda row: seen.append(now[0]))
    assert seen == [4] and now == [16]


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
        pytest.param("darwin", ["sched_getaffinity", "sched_setaffinity"], [], marks=pytest.mark.slow),
        pytest.param(
            "win32",
            ["sched_getaffinity", "sched_setaffinity", "register_at_fork", "fork", "geteuid", "getuid"],
            ["fcntl", "resource", "pwd", "grp"],
            marks=pytest.mark.slow,
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
