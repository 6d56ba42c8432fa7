"""Small GPU tests under compute-sanitizer; what it finds goes to data/results/<device>/gpu_sanitize_<tests>.json.

    python tests/gpu_sanitize.py [als sgd ...]

Each name runs in parts under each tool, a process for each core at a time, on all GPUs in turn; what is done says so.
A run that was stopped goes on where it was: parts that found nothing are kept in build/sanitized, by code and GPU.
Findings fail, but for the races that sources are declared with. (racecheck looks at shared memory alone, so that
those of Hogwild, which are in global memory, do not come up; tests/backends/test_races.py sees them on the
processor.) Races of CuPy's and cuBLAS's own kernels are counted apart. Under racecheck kernels are as every_lane.py
writes them.
The newest compute-sanitizer is taken, of the CUDA toolkit or of the package nvidia-cuda-sanitizer-api. racecheck of
version 2025.3 takes more of what barriers in shared memory order for races; that of 2026.4 does not.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from gpumf import backends
from gpumf.backends import sources
from gpumf.models import als, bayesian, rbm, sgd  # noqa: F401 - they declare their sources
from gpumf_study import results
from gpumf_study.experiments import _kept
from support import own_cores, own_gpu_first

TOOLS = {
    # Every array is an allocation of its own with unused memory behind it. Calls that fail are the tests' to judge.
    "memcheck": ["--padding", "64", "--report-api-errors", "no"],
    "racecheck": [],
    "initcheck": [],
    "synccheck": [],
}
FEW_THREADS = {"OMP_NUM_THREADS": "2", "NUMBA_NUM_THREADS": "2"}  # or those of all tools wait for each other
SGD = [
    *("hogwild", "gpusgd", "bsgd", "esgd", "cumf_sgd", "cu2rec"),
    *("schedules", "biases", "partial_fit"),
]
TESTS = {
    "als": ["solvers/als/test_als.py"],
    "tensor_core": [f"solvers/als/test_{name}.py" for name in ("tensor_core", "short_rows", "warpgroups")],
    "dense": [f"solvers/als/test_{name}.py" for name in ("dense", "preconditioned")],
    "bayesian": ["models/test_bayesian.py"],
    "cumf": ["solvers/als/test_cumf.py"],
    "implicit": [f"solvers/als/test_{name}.py" for name in ("implicit", "implicit_on_hopper")],
    "rbm": [f"solvers/rbm/test_{name}.py" for name in ("rbm", "divergence")],
    "sgd": ["solvers/sgd/test_sgd.py"],
    "sgd_others": [*(f"solvers/sgd/test_{name}.py" for name in SGD), "models/test_chunks.py"],
    "sgd_order": ["solvers/sgd/test_order.py"],
    "fast": ["solvers/sgd/test_fast.py"],
    "metrics": ["models/test_evaluation.py", "study/test_results.py"],
    "ranking": ["models/test_ranking.py"],
    "emulator": ["backends/test_emulator.py", "backends/test_recording.py", "backends/test_signature.py"],
    "device": ["ratings/test_device.py"],
}
PARTS = dict.fromkeys(TESTS, 1) | {"sgd": 16, "als": 12, "implicit": 10, "device": 8, "dense": 8, "bayesian": 6}
PARTS |= {"tensor_core": 5, "sgd_others": 4, "rbm": 3, "fast": 3, "cumf": 3, "sgd_order": 3, "ranking": 2}
OLDEST = "2026.4"
RACECHECK = "racecheck"  # takes several times as long as the others, and has so many times their parts
RACE_PARTS = 3
# racecheck looks at blocks one by one, and takes as long for each: kernels that fill the GPU are given few.
OF_RACECHECK = ["--multiprocessors", "4", "--every-lane"]
TIMEOUT = 600  # seconds; compute-sanitizer may wait for ever for a process that it has lost
TOO_LONG = [
    "100_000",
    "real_ratings",
    "300000",
    "converge",
    "loses_little",
    "every_experiment",
    "same_bits",
    "bit_identical",
    "ml_100k",
]

_ACCESS = re.compile(r"access at ([\w:<>]+)(?:\(.*?\)(?: const)?)?\+0x[0-9a-f]+ in (\S+?):\d+")
_VARYING = re.compile(r"0x[0-9a-f]+|\(\d+,\d+,\d+\)|\d+ (?:hazards?|bytes)")
_OF_CUPY = re.compile(r"access at cupy_\w+\+0x")  # in a kernel of CuPy's own
_OF_CUBLAS = re.compile(r"access at \w+_cublas\+0x")
# What is compiled into a kernel stands in its place: rows of floats in shared memory are in `fast` alone.
_INSIDE = {f"Quads<float>::{name}": "fast" for name in ("load", "store")}


def parts(name, tool):
    """How many parts a name's tests have under a tool."""
    return PARTS[name] * (RACE_PARTS if tool == RACECHECK else 1)


def findings(output):
    """What compute-sanitizer has to say in its output: a list of reports, each a list of lines."""
    reports, inside = [], False
    for line in re.findall(r"^========= ?(.*)", output, re.MULTILINE):
        if not line.strip() or line.startswith("COMPUTE-SANITIZER") or "SUMMARY:" in line:
            inside = False
        elif line.startswith("    ") and inside:
            reports[-1].append(line.strip())
        else:
            reports.append([line.strip()])
            inside = True
    return reports


def wanted(report):
    """Whether a report is of a race that a kernel is meant to have, in its source or a helper that it includes."""
    homes = {kernel: Path(source).name for source, of in sources.DECLARED.items() for kernel in of.races}
    accesses = _ACCESS.findall(" ".join(report))
    kernels = [(_INSIDE.get(function, function), file) for function, file in accesses]
    at_home = [kernel in homes and (file == homes[kernel] or file.endswith(".cuh")) for kernel, file in kernels]
    return "Race reported" in report[0] and len(at_home) == len(report) and all(at_home)


def of_cupy(report):
    """Whether a report is of a race of CuPy's own kernels alone."""
    return _all_accesses(report, _OF_CUPY)


def of_cublas(report):
    """Whether a report is of a race of cuBLAS's kernels alone."""
    return _all_accesses(report, _OF_CUBLAS)


def _all_accesses(report, pattern):
    text = " ".join(report)
    return "Race reported" in report[0] and len(pattern.findall(text)) == len(report) == text.count("access at")


APART = {
    "races_in_cupy": of_cupy,
    "races_in_cublas": of_cublas,
    "wanted_races": wanted,
}
"""Reports that are no findings, by what they are counted as."""


def kinds(reports):
    """One text of each kind of report, and how many there are; threads, addresses and counts make no kind."""
    found = {}
    for report in reports:
        text = "\n".join(report)
        found.setdefault(_VARYING.sub("", text), [text, 0])[1] += 1
    return [f"{text}\n(of {count} such reports)" for text, count in found.values()]


def folder(facts):
    """Where parts that found nothing are kept: of this GPU and tool, these kernels, and this package and its tests.

    facts : dict, see `results.provenance`, and compute_sanitizer, its version
    """
    code = _kept._texts([*_kept._package(), *sorted(Path(__file__).parent.rglob("*.py"))])
    return _kept._folder(
        "sanitized", "parts", [*map(facts.get, ("gpu", "compute_sanitizer", "kernels_sha256")), code]
    )


def once(path, make):
    """What make() returns, an outcome and what was printed; or what it gave before, where that found nothing."""
    if path.is_file():
        return tuple(json.loads(path.read_text(encoding="utf-8")))
    outcome, printed = make()
    if not outcome["findings"] and not outcome["runs_that_failed"]:
        with _kept._whole(path) as partial:
            partial.write_text(json.dumps([outcome, printed]), encoding="utf-8")
    return outcome, printed


def check(words, environment):
    """Run tests under a tool, by a command that writes to {log}: (what is said of it, all that was printed)."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        try:
            done = subprocess.run(
                [word.format(log=log) for word in words],
                stdout=subprocess.PIPE,
                text=True,
                timeout=TIMEOUT,
                env=os.environ | FEW_THREADS | environment,
            )
            printed, succeeded = done.stdout, done.returncode in (0, 5)  # 5: none of the tests was chosen
        except subprocess.TimeoutExpired:
            printed, succeeded = f"not done after {TIMEOUT} s", False
        reports = findings(log.read_text() if log.exists() else "")
    told = [next((what for what, is_one in APART.items() if is_one(report)), None) for report in reports]
    found = kinds([report for report, what in zip(reports, told, strict=True) if what is None])
    outcome = {
        **{what: sum(map(int, re.findall(rf"\b(\d+) {what}", printed))) for what in ("passed", "failed")},
        "runs_that_failed": int(not succeeded),
        **{what: told.count(what) for what in APART},
        "findings": found,
    }
    return outcome, "\n".join([printed, *found])


def total(outcomes):
    """The outcome of all parts: numbers are added up, findings put one after another."""
    return {key: sum((of[key] for of in outcomes), start=type(value)()) for key, value in outcomes[0].items()}


def command(program, tool, name, part=1):
    """That runs a part of a name's tests under a tool of compute-sanitizer, and writes its reports to {log}."""
    chosen = " and ".join(f"not {word}" for word in TOO_LONG)
    return [
        *(program, "--print-limit", "0", "--target-processes", "application-only", "--log-file", "{log}"),
        *("--show-backtrace", "device"),  # those of the host take long
        *("--tool", tool, *TOOLS[tool]),
        *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", "gpu", "-k", chosen, "--unpooled"),
        *("--durations", "3"),
        *(OF_RACECHECK if tool == RACECHECK else []),
        *("--part", f"{part}/{parts(name, tool)}"),
        *(str(Path(__file__).parent / file) for file in TESTS[name]),
    ]


def newest(folders):
    """The newest compute-sanitizer in these folders, and its version; exits where none is of OLDEST or newer."""
    programs = {shutil.which("compute-sanitizer", path=folder) for folder in folders} - {None}
    versions = {program: version_of(program) for program in programs}
    program = max(versions, key=lambda program: _comparable(versions[program]), default=None)
    if program is None or _comparable(versions[program]) < _comparable(OLDEST):
        sys.exit(f"compute-sanitizer {OLDEST} or newer was not found; `pip install nvidia-cuda-sanitizer-api` has it")
    return program, versions[program]


def version_of(program):
    """The version that compute-sanitizer says it is, as '2026.4.0.0'."""
    printed = subprocess.run([program, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return re.search(r"Version ([\d.]+)", printed)[1]


def _comparable(version):
    return tuple(map(int, version.split(".")))


def main(names):
    if unknown := set(names) - set(TESTS):
        sys.exit(
            f"no tests for compute-sanitizer are called {', '.join(sorted(unknown))}; there are {', '.join(TESTS)}"
        )
    if why := backends.why_unavailable():
        sys.exit(f"compute-sanitizer needs a GPU: {why}")
    of_packages = [str(Path(path) / "nvidia/cu13/bin") for path in sys.path]
    program, version = newest([*os.get_exec_path(), "/usr/local/cuda/bin", *of_packages])
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_setaffinity") else set(range(os.cpu_count() or 1))
    places, own = iter(range(len(cores))), threading.local()

    def take_place():
        place = next(places)
        own.environment = {"CUDA_VISIBLE_DEVICES": own_gpu_first(place, backends.gpus())}
        if hasattr(os, "sched_setaffinity"):  # of this thread, and what it starts
            os.sched_setaffinity(0, own_cores(place, len(cores), cores))

    def checked(name, tool, part):
        words, path = command(program, tool, name, part), kept / f"{name}-{tool}-{part}.json"
        return once(path, lambda: check(words, own.environment))

    before, failed = results.provenance() | {"compute_sanitizer": version}, False
    kept = folder(before)
    names = sorted(names or TESTS, key=lambda name: -PARTS[name])
    jobs = [(name, tool, part) for tool in sorted(TOOLS, key=RACECHECK.__ne__) for name in names
            for part in range(1, parts(name, tool) + 1)]  # fmt: skip
    outcomes = {name: {tool: [] for tool in TOOLS} for name in names}
    with ThreadPoolExecutor(len(cores), initializer=take_place) as pool:
        running = {pool.submit(checked, *job): job for job in jobs}
        for done in as_completed(running):
            name, tool, part = running[done]
            outcome, printed = done.result()
            outcomes[name][tool].append(outcome)
            failed |= bool(outcome["findings"] or outcome["runs_that_failed"])
            print(f"{tool}, {name}, part {part}", printed, sep="\n", flush=True)
            if all(len(of) == parts(name, tool) for tool, of in outcomes[name].items()):
                totals = {tool: total(of) for tool, of in outcomes[name].items()}
                results.store_tests(f"gpu_sanitize_{name}", {"tools": totals}, before)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
