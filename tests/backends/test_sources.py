"""What is compiled is what the sources say now: no edited header and no damaged file gives an old result."""

import ctypes
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from gpumf import ALS, RBM, SGD, ImplicitALS, backends
from gpumf._util import integrity, source_text
from gpumf.backends import compile, sources
from gpumf.backends import emulator as host_module
from support import ROOT


@pytest.fixture
def runtime():
    """What runs kernels on the processor, loaded: a process has it once."""
    if why := backends.why_unavailable("emulator"):
        pytest.skip(why)
    ctypes.CDLL(host_module._runtime())


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A copy of kernels/ to edit, with a kernel of its own that includes a header, which includes another."""
    folder = tmp_path / "kernels"
    shutil.copytree(sources.kernels_folder() / "emulator", folder / "emulator")
    (folder / "common").mkdir()
    (folder / "common/inner.cuh").write_text("#pragma once\nconstexpr int VALUE = 3;\n")
    (folder / "common/outer.cuh").write_text('#pragma once\n#include "common/inner.cuh"\n')
    (folder / "answer.cu").write_text(
        '#include "common/inner.cuh"\n#include "common/outer.cuh"\n'
        'extern "C" __global__ void answer(int* result) { result[threadIdx.x] = VALUE; }\n'
    )
    monkeypatch.setattr(sources, "kernels_folder", lambda: folder)
    monkeypatch.setenv("GPUMF_DEV", "1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


@pytest.fixture
def host(runtime, folder):
    """Makes the processor as a device that remembers nothing but the files of the cache, as in a new process."""

    def fresh():
        host_module._library.cache_clear()
        return host_module.EmulatorDevice()

    return fresh


def answer(device):
    result = device.empty(4, np.int32)
    device.kernel("answer.cu", "answer")(1, 4, result=result)
    (value,) = set(result.tolist())
    return value


def edit(folder, old, new):
    path = folder / "common/inner.cuh"
    path.write_text(path.read_text().replace(old, new))


def test_an_edited_header_is_compiled_in_this_process_and_in_the_next(folder, host):
    device = host()
    assert answer(device) == 3
    edit(folder, "3", "4")
    assert answer(device) == 4
    assert answer(host()) == 4
    edit(folder, "4", "3")
    assert answer(host()) == 3


def test_what_is_unchanged_is_compiled_once(host, tmp_path, monkeypatch):
    answer(host())
    libraries = sorted((tmp_path / "cache").rglob("*.so"))
    times = [path.stat().st_mtime_ns for path in libraries]
    monkeypatch.setattr(compile, "_run", lambda *_: pytest.fail("compiled again"))
    assert answer(host()) == 3
    assert len(libraries) == 1 and [path.stat().st_mtime_ns for path in libraries] == times


@pytest.mark.parametrize("damage", ["cut short", "empty", "a byte changed"])
def test_a_damaged_library_is_built_again(damage, host, tmp_path):
    library = host().kernel("answer.cu", "answer").library
    whole = library.read_bytes()
    middle = len(whole) // 2
    damaged = {
        "cut short": whole[:middle],
        "empty": b"",
        "a byte changed": whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :],
    }[damage]
    library.unlink()
    library.write_bytes(damaged)
    assert answer(host()) == 3
    assert integrity.unsealed(library.read_bytes())


def test_the_text_of_a_source_is_all_that_is_compiled(folder):
    text = sources.text(folder / "answer.cu")
    assert '#include "' not in text and "#pragma once" not in text
    for path in (folder / "common").iterdir():
        assert f'#line 1 "common/{path.name}"' in text
    before = text
    edit(folder, "3", "5")
    assert sources.text(folder / "answer.cu") != before
    assert text.endswith(
        '#line 3 "answer.cu"\nextern "C" __global__ void answer(int* result) { result[threadIdx.x] = VALUE; }\n'
    )


def test_sources_are_read_once_unless_they_are_worked_on(folder, monkeypatch):
    monkeypatch.delenv("GPUMF_DEV")
    before = sources.text(folder / "answer.cu")
    edit(folder, "3", "5")
    assert sources.text(folder / "answer.cu") == before
    monkeypatch.setenv("GPUMF_DEV", "1")
    assert sources.text(folder / "answer.cu") != before


def test_headers_that_include_each_other_end(folder):
    (folder / "common/inner.cuh").write_text('#pragma once\n#include "common/outer.cuh"\nconstexpr int VALUE = 3;\n')
    assert sources.text(folder / "answer.cu").count("constexpr int VALUE") == 2  # behind a guard each


def test_errors_name_the_file_and_the_line(folder, host):
    edit(folder, "3;", "undeclared;")
    with pytest.raises(backends.DeviceError, match=r"common/inner\.cuh:2:.*undeclared"):
        host().kernel("answer.cu", "answer")


def test_no_kernel_includes_what_its_text_lacks():
    for source in sources.every():
        text = sources.text(sources.kernels_folder() / source)
        assert not re.search(r'#\s*include\s*"', text), source


def test_the_digest_of_all_sources_is_that_of_now(folder):
    before = sources.digest()
    edit(folder, "3", "6")
    assert sources.digest() != before


def test_types_that_are_definitions_are_replaced_by_their_values():
    path = sources.kernels_folder() / "sgd/newgpusgd.cu"
    for real in ("float", "double"):
        taken = sources.kernels(path, FACTORS=16, BIASES=0, REAL=real)["newgpusgd"]
        assert (taken["user_factors"], taken["steps_now"]) == (f"{real}*", f"const Steps<{real}>* __restrict__")
        assert taken["values"] == "const float* __restrict__"


def test_a_race_may_be_of_some_versions_alone():
    assert sources.races("sgd/hogwild.cu") == {"hogwild": {"user_factors", "item_factors"}}
    for conflict, raced in (("early_bird_gets", {"item_factors", "newest"}), ("atomic", {"item_factors"})):
        assert sources.races("sgd/cu2rec.cu", CONFLICT=conflict) == {"cu2rec": raced}


def test_what_a_source_asks_whether_or_not_has_two_values():
    for model in (ALS, ImplicitALS, SGD, RBM):
        model.solver_classes()  # declares its sources
    flags = {"IMPLICIT", "A_HALF", "CHOLESKY", "IN_GLOBAL", "LOCKED", "ROW_RATES"}
    variants = [(source, sources.declared(source).variants) for source in sources.every()]
    assert flags <= {name for _, of in variants for name in of}
    for source, of in variants:
        assert all(list(values) == [0, 1] for name, values in of.items() if name in flags), source
        for name in of:  # the macro is there, in the source or in what it includes
            assert re.search(rf"\b{name}\b", sources.text(ROOT / "kernels" / source)), (source, name)


def test_each_file_is_read_once_in_a_process(monkeypatch):
    monkeypatch.delenv("GPUMF_DEV", raising=False)
    monkeypatch.setattr(source_text, "_CONTENTS", {})
    monkeypatch.setattr(source_text, "_TEXTS", {})
    read, bytes_of = [], Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: read.append(path) or bytes_of(path))
    path = sources.kernels_folder() / "sgd/hogwild.cu"
    for _ in range(2):
        sources.text(path), sources.text(path, first=["emulator/cuda.h"]), sources.kernels(path)
    assert len(read) == len(set(read)) > 2 and path in read
