"""Small GPU tests under compute-sanitizer; what it finds goes to data/results/<device>/gpu_sanitize.json.

Findings fail, but for the races in gpumf.gpu.sources.WANTED_RACES. (racecheck looks at shared memory alone, so that
those of Hogwild, which are in global memory, do not come up; tests/test_races.py sees them on the processor.)
"""

import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from gpumf import gpu, results
from gpumf.gpu.sources import WANTED_RACES

TOOLS = {
    # Every array is an allocation of its own with unused memory behind it. Calls that fail are the tests' to judge.
    "memcheck": ["--padding", "64", "--report-api-errors", "no"],
    "racecheck": [],
    "initcheck": [],
    "synccheck": [],
}
TESTS = ["als", "cumf", "implicit", "sgd", "metrics", "ranking", "rbm", "host", "results"]
TOO_LONG = [
    "100_000",
    "real_ratings",
    "300000",
    "converge",
    "loses_little",
    "every_experiment",
    "same_bits",
    "ml_100k",
]

_ACCESS = re.compile(r"access at (\w+)(?:\(.*?\))?\+0x[0-9a-f]+ in (\S+?):\d+")


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
    sources = {kernel: Path(source).name for source, kernel in WANTED_RACES}
    accesses = _ACCESS.findall(" ".join(report))
    at_home = [kernel in sources and (file == sources[kernel] or file.endswith(".cuh")) for kernel, file in accesses]
    return "Race reported" in report[0] and len(at_home) == len(report) and all(at_home)


def main(arguments):
    if why := gpu.why_unavailable():
        sys.exit(f"compute-sanitizer needs a GPU: {why}")
    program = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    if program is None:
        sys.exit("compute-sanitizer was not found; it comes with the CUDA toolkit")
    files = [str(Path(__file__).with_name(f"test_{name}.py")) for name in TESTS]
    chosen = ["-m", "gpu", "-k", " and ".join(f"not {name}" for name in TOO_LONG), "--unpooled", *arguments]
    outcome, failed = {}, False
    for tool, options in TOOLS.items():
        started = time.perf_counter()
        command = [program, "--tool", tool, "--print-limit", "0", "--target-processes", "application-only", *options]
        done = subprocess.run(
            [*command, sys.executable, "-m", "pytest", *files, *chosen], stdout=subprocess.PIPE, text=True
        )
        print(done.stdout, flush=True)
        reports = findings(done.stdout)
        unwanted = [report for report in reports if not wanted(report)]
        failed |= bool(unwanted) or done.returncode != 0
        outcome[tool] = {
            "tests": re.findall(r"^\d+ (?:passed|failed).*", done.stdout, re.MULTILINE)[-1:],
            "exit_status": done.returncode,
            "wanted_races": len(reports) - len(unwanted),
            "findings": ["\n".join(report) for report in unwanted],
            "seconds": round(time.perf_counter() - started, 1),
        }
    results.store_tests("gpu_sanitize", {"tools": outcome})
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
