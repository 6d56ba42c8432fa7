"""The cache of compiled code: a change in any module is seen, and only what it concerns is compiled again."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

import gpumf
from gpumf._util import jit
from gpumf._util.jit import prange

PACKAGE = Path(gpumf.__file__).parent
DEVIATE = "from gpumf.ratings.synthetic import numbers; print(numbers.normal(numbers.np.uint64(7), 3))"


@pytest.fixture
def copy(tmp_path):
    """A copy of the package, and what a command prints in a new process that imports it with a cache of its own."""
    package = shutil.copytree(PACKAGE, tmp_path / "src" / "gpumf", ignore=shutil.ignore_patterns("__pycache__"))

    def run(code=DEVIATE, **environment):
        environment = {"PYTHONPATH": str(package.parent), "NUMBA_CACHE_DIR": str(tmp_path / "cache"), **environment}
        done = subprocess.run(
            [sys.executable, "-c", code], env=os.environ | environment, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    return package, run


SECONDS = """
from gpumf._util import jit
before = jit.SPENT.seconds
from gpumf.ratings.synthetic import numbers
numbers.normal(numbers.np.uint64(7), 3)
print(before, jit.SPENT.seconds)
"""


def compiled_files(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*.nbc")}


@pytest.mark.slow
def test_an_edit_of_another_module_changes_the_numbers(copy, tmp_path):
    package, run = copy
    first = run()
    kept = compiled_files(tmp_path / "cache")
    assert (
        kept and run() == first and compiled_files(tmp_path / "cache") == kept
    )  # the second process compiled nothing
    hashing = package / "_util/counter_rng.py"
    hashing.write_text(hashing.read_text().replace("0xBF58476D1CE4E5B9", "0xBF58476D1CE4E5BB"))
    assert run() != first


def test_an_edit_of_a_module_without_compiled_functions_has_nothing_compiled_again(copy, tmp_path):
    package, run = copy
    first, kept = run(), compiled_files(tmp_path / "cache")
    for module in ("backends/compile.py", "models/estimator.py", "ratings/synthetic/values.py"):
        (package / module).write_text((package / module).read_text() + "\n# edited\n")
    assert run() == first and compiled_files(tmp_path / "cache") == kept


def test_a_constant_of_another_module_is_a_part_of_the_key(monkeypatch):
    function = jit.cached_njit(fastmath=jit.SUMS_IN_ANY_ORDER)(_plus_constant)
    known = function._facts()
    assert function._facts() == known and "fastmath=['arcp', 'contract', 'nsz', 'reassoc']" in known
    monkeypatch.setitem(globals(), "CONSTANT", 2)
    assert function._facts() != known


@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
@pytest.mark.parametrize("damage", ["cut short", "empty", "a byte changed"])
def test_a_damaged_file_is_compiled_again(damage, suffix, monkeypatch, tmp_path):
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path))

    def plus_one():
        jit._opened.cache_clear()  # as in a new process
        function = jit.cached_njit()(_plus_one)
        result = function(1)
        return result, sum(function.compiled.stats.cache_hits.values())

    assert plus_one() == (2, 0) and plus_one() == (2, 1)
    (path,) = tmp_path.rglob(f"*.{suffix}")
    whole, middle = path.read_bytes(), path.stat().st_size // 2
    changed = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
    path.write_bytes({"cut short": whole[:middle], "empty": b"", "a byte changed": changed}[damage])
    assert plus_one() == (2, 0) and plus_one() == (2, 1)


CONSTANT = 1


def _plus_one(x):
    return x + 1


def _plus_constant(x):
    return x + CONSTANT


def test_a_full_disk_leaves_a_process_that_compiles_for_itself(copy, tmp_path):
    """No file may become longer than some bytes, which is what writes to a full disk come to: an OSError."""
    resource = pytest.importorskip("resource")
    _, run = copy
    expected = run(NUMBA_CACHE_DIR=str(tmp_path / "other"))
    full = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (2000, {resource.RLIM_INFINITY})); "
    assert run(full + DEVIATE) == expected
    assert not compiled_files(tmp_path / "cache")


def test_functions_of_others_keep_their_cache(monkeypatch, tmp_path):
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path))
    function = jit.cached_njit()(_plus_one)
    assert function(1) == 2 and any((tmp_path / "gpumf").rglob("*.nbi"))
    assert str(tmp_path) == numba.config.CACHE_DIR


def test_folders_long_unused_go_and_nothing_else(monkeypatch, tmp_path):
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path))
    of_function = f"{__name__}._plus_one"
    strangers = [f"gpumf-{'0' * 24}", "gpumf", f"gpumf/{of_function}-notes", f"gpumf/other-{'0' * 24}"]
    mine = [f"gpumf/{of_function}-{age:024}" for age in range(20)]
    for age, name in enumerate([*mine, *strangers]):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
        os.utime(tmp_path / name, (1e9 - age, 1e9 - age))
    jit.cached_njit()(_plus_one)(1)
    left = {path.relative_to(tmp_path).as_posix() for path in (*tmp_path.iterdir(), *(tmp_path / "gpumf").iterdir())}
    (own,) = left - {*mine, *strangers}
    assert own.startswith(f"gpumf/{of_function}-") and left == {own, *strangers, *mine[: jit._KEPT]}


@jit.cached_vectorize("uint64(uint64)")
def twice(x):
    return 2 * x


@jit.cached_njit()
def thrice(x):
    return x + twice(x)


@jit.cached_njit(parallel=True)
def summed(n):
    total = np.uint64(0)
    for k in prange(n):
        total += thrice(np.uint64(k))
    return total


def test_compiled_functions_call_each_other_and_loop_over_cores(monkeypatch, tmp_path):
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path))  # what a cache holds has no diagnostics
    assert summed(1000) == 3 * 999 * 1000 // 2
    (diagnostics,) = (result.metadata["parfor_diagnostics"] for result in summed.compiled.overloads.values())
    assert diagnostics.count_parfors() == 1


@pytest.mark.slow
def test_seconds_are_those_of_what_the_cache_lacks(copy):
    _, run = copy
    (before, first), (_, again) = (map(float, run(SECONDS).split()) for _ in range(2))
    assert before == again == 0 < first


FITS = """
import sys, threading
from gpumf import ALS, SGD, ImplicitALS
cells = [(u, i) for u in range(60) for i in range(40) if (u * 7 + i * 3) % 4 == 0]
ratings = [u for u, _ in cells], [i for _, i in cells], [1 + (u + i) % 5 for u, i in cells]
done, start = [], threading.Barrier(int(sys.argv[1]))
def fit(kind):
    start.wait()
    done.append(len(kind(4, device="cpu").fit(ratings, epochs=1, validation=ratings).history))
threads = [threading.Thread(target=fit, args=((ALS, SGD, ImplicitALS)[k % 3],)) for k in range(int(sys.argv[1]))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(*done)
"""


@pytest.mark.slow
@pytest.mark.parametrize("threads", [2, 6])
def test_first_fits_in_several_threads(threads, tmp_path):
    """With an empty cache, then with a warm one."""
    for _ in range(2):
        command = [sys.executable, "-c", FITS, str(threads)]
        done = subprocess.run(
            command,
            env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        )
        assert done.stdout.split() == ["2"] * threads, done.stderr


INTERRUPTED = """
import signal, threading
from numba.core.codegen import CPUCodeLibrary
from gpumf._util.jit import cached_njit
signal.signal(signal.SIGINT, signal.default_int_handler)
plain = CPUCodeLibrary._object_compiled_hook.__func__
def interrupting(kind, *given):
    if threading.current_thread() is threading.main_thread():
        signal.raise_signal(signal.SIGINT)
    return plain(kind, *given)
CPUCodeLibrary._object_compiled_hook = classmethod(interrupting)
def doubled(x):
    return 2 * x
elsewhere, here = cached_njit()(doubled), cached_njit()(doubled)
thread = threading.Thread(target=elsewhere, args=(1,))
thread.start()
thread.join()
try:
    here(1.5)
except KeyboardInterrupt:
    print(len(here.compiled.signatures), here(1.5), elsewhere(4))
"""


def test_an_interrupt_waits_for_the_end_of_a_compilation(tmp_path):
    """In LLVM's callbacks it would be lost, or leave a function without machine code."""
    command, environment = [sys.executable, "-c", INTERRUPTED], os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "3.0", "8"], done.stderr


def test_only_public_parts_of_numba_are_used():
    imports = re.compile(r"(?:from|import)\s+numba\.|numba\.(?:core|np|misc|cpython|cuda)\b")
    found = [path for path in sorted(PACKAGE.rglob("*.py")) if imports.search(path.read_text())]
    assert found == []
