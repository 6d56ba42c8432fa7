"""What is read from compute-sanitizer's output, in the words of its documentation."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import every_lane
from every_lane import WARPGROUPS
from gpu_sanitize import (
    PARTS,
    TESTS,
    TOOLS,
    command,
    findings,
    folder,
    kinds,
    newest,
    of_cublas,
    of_cupy,
    once,
    parts,
    total,
    wanted,
)
from gpumf.backends import sources
from support import ROOT

INVALID_WRITE = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at out_of_bounds_function()+0xb0 in memcheck_demo.cu:39
=========     by thread (0,0,0) in block (0,0,0)
=========     Address 0x87654320 is out of bounds
=========         Device Frame: out_of_bounds_kernel()+0x30 in memcheck_demo.cu:44
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: main [0xae66] in memcheck_demo
=========
========= Invalid __global__ write of size 4 bytes
=========     at hogwild+0x50 in hogwild.cu:33
=========     by thread (0,0,0) in block (0,0,0)
=========
========= ERROR SUMMARY: 2 errors
"""
RACE = """\
========= COMPUTE-SANITIZER
========= {severity}: Race reported between Write access at {kernel}+0x90 in {file}:41
=========     and Read access at {kernel}+0x100 in {other}:51 [508 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
DIVERGENCE = """\
========= Barrier error detected. Divergent thread(s) in warp
=========     at ThreadDivergence(int *, int)+0xf0 in divergence.cu:79
=========     by thread (37,0,0) in block (0,0,0)
========= Target application returned an error
========= ERROR SUMMARY: 1 error
"""


def test_reports_are_told_apart():
    first, second = findings(INVALID_WRITE)
    assert first[0] == second[0] == "Invalid __global__ write of size 4 bytes"
    assert len(first) == 7 and second[1:] == [
        "at hogwild+0x50 in hogwild.cu:33",
        "by thread (0,0,0) in block (0,0,0)",
    ]
    assert [report[0] for report in findings(DIVERGENCE)] == [
        "Barrier error detected. Divergent thread(s) in warp",
        "Target application returned an error",
    ]
    assert findings("========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n") == []


@pytest.mark.parametrize(
    ("severity", "kernel", "file", "other", "is_wanted"),
    [
        ("Error", "hogwild", "hogwild.cu", "hogwild.cu", True),
        ("Warning", "hogwild(const int *, float *)", "hogwild.cu", "group.cuh", True),
        ("Error", "Quads<float>::store(FloatQuad *, long long) const", "vec4_rows.cuh", "vec4_rows.cuh", True),
        ("Error", "hogwild", "hogwild.cu", "thesis.cu", False),
        ("Error", "errors", "errors.cu", "errors.cu", False),
        ("Error", "errors", "hogwild.cu", "hogwild.cu", False),
    ],
)
def test_only_the_races_in_the_table_are_wanted(severity, kernel, file, other, is_wanted):
    (report,) = findings(RACE.format(severity=severity, kernel=kernel, file=file, other=other))
    assert wanted(report) == is_wanted


def test_races_of_cupy_are_told_from_ours():
    """Reports of both, as compute-sanitizer 13 writes them: CuPy's have no lines."""
    cupy = "cupy_nonzero_kernel_incomplete_scan"
    report = f"========= Warning: Race reported between Read access at {cupy}+0x460\n"
    (theirs,) = findings(report + f"=========     and Write access at {cupy}+0x630 [192 hazards]\n")
    (mixed,) = findings(report + "=========     and Write access at hogwild+0x90 in hogwild.cu:41 [2 hazards]\n")
    (ours,) = findings(RACE.format(severity="Error", kernel="hogwild", file="hogwild.cu", other="hogwild.cu"))
    assert [of_cupy(of) for of in (theirs, mixed, ours)] == [True, False, False]
    assert not any(map(of_cupy, findings(INVALID_WRITE)))


def test_races_of_cublas_are_told_from_ours():
    """Reports as compute-sanitizer 2026.4 writes them: of several accesses, without lines."""
    product = "sm90_xmma_syr2k_l_f32f32_f32f32_f32_nt_n_tilesize128x128x8_stage3_execute_kernel__5x_cublas"
    report = f"========= Error: Race reported between Write access at {product}+0x7f70\n"
    read = f"=========     and Read access at {product}+0x6420 [4608 hazards]\n"
    theirs, mixed = findings(report + 2 * read + report + read + read.replace(product, "cublas_like"))
    assert of_cublas(theirs) and not of_cublas(mixed) and not of_cupy(theirs)
    assert not any(map(of_cublas, findings(INVALID_WRITE)))


def test_no_other_finding_is_wanted():
    without_lines = RACE.format(severity="Error", kernel="hogwild", file="", other="").replace(" in :41", "")
    assert not any(map(wanted, findings(without_lines)))
    assert not any(map(wanted, findings(INVALID_WRITE) + findings(DIVERGENCE)))


def test_every_name_has_tests_that_are_there():
    for name, files in TESTS.items():
        paths = command("compute-sanitizer", "memcheck", name)[-len(files) :]
        assert paths == [str(ROOT / "tests" / file) for file in files]
        for path in paths:
            on_a_gpu = r"^def test_\w+\(.*\b(launcher|hopper|device|cuda)\b"
            assert re.search(on_a_gpu, Path(path).read_text(), re.M), path


def test_parts_have_each_test_once():
    def chosen(*options):
        words = [sys.executable, "-m", "pytest", "--collect-only", "-qq", "-p", "no:cacheprovider", *options]
        file = ROOT / "tests/models/test_ranking.py"
        printed = subprocess.run([*words, "-q", "-m", "gpu", file], capture_output=True, text=True, cwd=ROOT).stdout
        return int(re.search(r"test_ranking.py: (\d+)", printed).group(1))

    parts = [chosen("--part", f"{part}/3") for part in (1, 2, 3)]
    assert sum(parts) == chosen() and max(parts) - min(parts) <= 1
    assert set(PARTS) <= set(TESTS)


def test_racecheck_has_more_parts_than_the_others():
    assert [parts("als", tool) for tool in TOOLS] == [
        PARTS["als"] * (3 if tool == "racecheck" else 1) for tool in TOOLS
    ]
    words = command("compute-sanitizer", "racecheck", "als", 36)
    assert words[words.index("--part") + 1] == "36/36"


@pytest.mark.parametrize("option", ["--multiprocessors", "--every-lane"])
def test_racecheck_alone_has_a_small_gpu_and_arrivals_of_every_lane(option):
    assert [tool for tool in TOOLS if option in command("compute-sanitizer", tool, "als")] == ["racecheck"]


def test_every_lane_arrives_only_where_one_of_a_warp_did(request):
    text = (sources.kernels_folder() / WARPGROUPS).read_text(encoding="utf-8")
    if not request.config.getoption("--every-lane"):
        assert "lane == 0) arrive(" in text
        text = every_lane.changed(text)
    assert "lane == 0) arrive(" not in text
    with pytest.raises(ValueError, match="has 0 x"):
        every_lane.changed(text)


@pytest.mark.slow
def test_kernels_of_which_every_lane_arrives_do_the_same(host):
    files = [f"tests/solvers/als/{name}.py" for name in ("test_warpgroups", "test_implicit_on_hopper")]
    words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--every-lane", *files, __file__]
    chosen = ["-m", "not slow and not gpu", "-k", "(emulator and half_sweep) or every_lane_arrives_only"]
    printed = subprocess.run([*words, *chosen], capture_output=True, text=True, cwd=ROOT).stdout
    assert re.search(r"^\d\d passed, \d+ deselected in ", printed, re.M), printed


def test_reports_that_differ_by_threads_and_addresses_alone_are_one():
    first, _ = findings(INVALID_WRITE)
    elsewhere = INVALID_WRITE.replace("(0,0,0)", "(31,2,0)").replace("0x87654320", "0xffff")
    (race,) = findings(RACE.format(severity="Error", kernel="errors", file="errors.cu", other="errors.cu"))
    again = [line.replace("508 hazards", "1 hazard") for line in race]
    found = kinds([first, *findings(elsewhere), race, again])
    assert [int(re.search(r"of (\d+) such", text).group(1)) for text in found] == [2, 1, 2]
    assert found[0].startswith("\n".join(first)) and "508 hazards" in found[2]


def test_the_outcomes_of_parts_are_added_up():
    one = {"passed": 2, "failed": 0, "findings": []}
    other = {"passed": 3, "failed": 1, "findings": ["Invalid write"]}
    assert total([one, other]) == {"passed": 5, "failed": 1, "findings": ["Invalid write"]}


@pytest.mark.parametrize(("found", "failed", "runs"), [([], 0, 1), (["Invalid write"], 0, 2), ([], 1, 2)])
def test_parts_that_found_nothing_are_kept(tmp_path, found, failed, runs):
    made = []

    def make():
        made.append({"findings": found, "runs_that_failed": failed})
        return made[-1], "2 passed"

    path = tmp_path / "new" / "als-memcheck-1.json"
    assert once(path, make) == once(path, make) == (made[0], "2 passed") and len(made) == runs


def test_another_gpu_tool_or_kernel_has_parts_of_its_own():
    facts = {"gpu": "NVIDIA H200", "kernels_sha256": "1", "compute_sanitizer": "2026.4.0.0"}
    others = [facts | {key: "another"} for key in facts]
    assert folder(facts) == folder(dict(facts)) and len({*map(folder, [facts, *others])}) == 4


def installed(folder, version):
    """A folder with a compute-sanitizer that says it is of this version."""
    folder.mkdir(parents=True)
    program = folder / "compute-sanitizer"
    program.write_text(f"#!/bin/sh\necho 'NVIDIA (R) Compute Sanitizer'\necho 'Version {version} (build 39022338)'\n")
    program.chmod(0o755)
    return program


def test_the_newest_tool_is_taken_and_too_old_ones_are_refused(tmp_path):
    versions = "2025.3.1.0", "2026.10.0.0", "2026.4.0.0"
    old, new, other = (installed(tmp_path / version, version) for version in versions)
    empty = str(tmp_path / "none")
    assert newest([empty, *(str(program.parent) for program in (old, new, other))]) == (str(new), "2026.10.0.0")
    assert newest([str(other.parent)]) == (str(other), "2026.4.0.0")
    for folders in ([empty], [str(old.parent)]):
        with pytest.raises(SystemExit, match=r"2026.4 or newer .* nvidia-cuda-sanitizer-api"):
            newest(folders)
