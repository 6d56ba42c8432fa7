"""The cache of compiled code: no change in any module goes unseen, and none is needed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

import gpumf
from gpumf import compiled
from gpumf.compiled import prange
from gpumf.datasets.twins import numbers

PACKAGE = Path(gpumf.__file__).parent
DEVIATE = "from gpumf.datasets.twins import numbers; print(numbers.normal(numbers.np.uint64(7), 3))"


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
from gpumf import compiled
before = compiled.seconds()
from gpumf.datasets.twins import numbers
numbers.normal(numbers.np.uint64(7), 3)
print(before, compiled.seconds())
"""


def compiled_files(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*.nbc")}


def test_an_edit_of_another_module_changes_the_numbers(copy, tmp_path):
    package, run = copy
    first = run()
    kept = compiled_files(tmp_path / "cache")
    assert (
        kept and run() == first and compiled_files(tmp_path / "cache") == kept
    )  # the second process compiled nothing
    hashing = package / "hashing.py"
    hashing.write_text(hashing.read_text().replace("0xBF58476D1CE4E5B9", "0xBF58476D1CE4E5BB"))
    assert run() != first


@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
@pytest.mark.parametrize("damage", ["cut short", "empty", "a byte changed"])
def test_a_damaged_file_is_compiled_again(damage, suffix, monkeypatch, tmp_path):
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path))
    compiled._folder.cache_clear()

    def plus_one():
        function = compiled.cached_njit()(_plus_one)
        result = function(1)
        return result, sum(function._compiled.stats.cache_hits.values())

    assert plus_one() == (2, 0) and plus_one() == (2, 1)
    (path,) = tmp_path.rglob(f"*.{suffix}")
    whole, middle = path.read_bytes(), path.stat().st_size // 2
    changed = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
    path.write_bytes({"cut short": whole[:middle], "empty": b"", "a byte changed": changed}[damage])
    assert plus_one() == (2, 0) and plus_one() == (2, 1)
    compiled._folder.cache_clear()


def _plus_one(x):
    return x + 1


def test_nothing_needs_to_be_writable(copy, tmp_path):
    """A file stands where the folder would be, which stops even root."""
    _, run = copy
    (tmp_path / "file").touch()
    in_the_way = str(tmp_path / "file" / "cache")
    found = run("from gpumf import compiled, hashing; print(compiled._folder())", NUMBA_CACHE_DIR=in_the_way)
    assert found == "None"


def test_functions_of_others_keep_their_cache(monkeypatch, tmp_path):
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path))
    compiled._folder.cache_clear()
    assert compiled._folder().parent == tmp_path

    function = compiled.cached_njit()(lambda x: x + 1)
    assert function(1) == 2 and any(compiled._folder().rglob("*.nbi"))
    assert str(tmp_path) == numba.config.CACHE_DIR
    compiled._folder.cache_clear()


def test_folders_long_unused_go(monkeypatch, tmp_path):
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path))
    for age in range(20):
        folder = tmp_path / f"gpumf-{age:02}"
        folder.mkdir()
        os.utime(folder, (1e9 - age, 1e9 - age))
    (tmp_path / "of another").mkdir()
    compiled._folder.cache_clear()
    own = compiled._folder()
    compiled._folder.cache_clear()
    kept = {path.name for path in tmp_path.iterdir()}
    assert kept == {own.name, "of another", *(f"gpumf-{age:02}" for age in range(compiled._KEPT))}


def test_the_digest_sees_names_and_contents(tmp_path):
    def digest(**modules):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        for name, text in modules.items():
            (folder / f"{name}.py").write_text(text)
        return compiled._digest(folder)

    assert digest(a="1", b="2") == digest(a="1", b="2")
    assert (
        len({digest(a="1", b="2"), digest(a="2", b="1"), digest(a="1"), digest(a="1", c="2"), digest(a="1", b="3")})
        == 5
    )


def test_compiled_functions_call_each_other_and_loop_over_cores():
    @compiled.cached_vectorize("uint64(uint64)")
    def twice(x):
        return 2 * x

    @compiled.cached_njit()
    def thrice(x):
        return x + twice(x)

    @compiled.cached_njit(parallel=True)
    def summed(n):
        total = np.uint64(0)
        for k in prange(n):
            total += thrice(np.uint64(k))
        return total

    assert summed(1000) == 3 * 999 * 1000 // 2
    (diagnostics,) = (result.metadata["parfor_diagnostics"] for result in summed._compiled.overloads.values())
    assert diagnostics.count_parfors() == 1


def test_seconds_are_those_of_what_the_cache_lacks(copy):
    _, run = copy
    (before, first), (_, again) = (map(float, run(SECONDS).split()) for _ in range(2))
    assert before == again == 0 < first


def test_what_is_compiled_is_kept_in_the_folder_of_its_sources():
    folder = compiled._folder()
    kept = numbers.normal._compiled._cache
    assert folder in Path(kept.cache_path).parents and folder.name == f"gpumf-{compiled._digest(PACKAGE)}"
