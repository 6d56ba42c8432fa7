"""Where the time of the two main kernels goes: hardware counters of one user update and one item update.

Nsight Compute (`ncu`) runs a process of its own under its eyes, several times over for all counters, and restores the
device's memory in between. Times under it are those of the clock that it fixes, not those of training.
"""

import csv
import io
import re
import shutil
import subprocess
import sys
import tempfile
from itertools import chain
from pathlib import Path

import pandas as pd
from tqdm import tqdm

from gpumf import ALS, backends
from gpumf.ratings.synthetic import RECIPES
from gpumf_study.claims import Claim, above
from gpumf_study.experiments import _published, load_ratings, training_ratings

# The kernels looked at, those that make the products and the solver, by the solver that launches some of them.
KERNELS = {"tensor_core": ["tensor_core", "warpgroups"], "cumf_cg_fp16": ["get_hermitian", "solve_cg"]}

PROFILES = {
    "quick": {"data": "ml-1m-synthetic", "factors": 32, "repeats": 1},
    "full": {"data": "netflix-synthetic", "factors": 100, "repeats": 3},
}
PROFILES["smoke"] = PROFILES["quick"] | {"data": "ml-100k-synthetic", "factors": 16}

# Sections rather than names of metrics: those of the pipelines differ from one architecture to the next.
_SECTIONS = ["SpeedOfLight", "ComputeWorkloadAnalysis", "MemoryWorkloadAnalysis", "SchedulerStats", "WarpStateStats"]
_SECTIONS += ["Occupancy", "LaunchStats"]
_MORE = ["dram__bytes_read.sum", "dram__bytes_write.sum", "lts__t_sector_hit_rate.pct"]
_MORE += ["l1tex__t_sector_hit_rate.pct"]
_MORE += ["smsp__issue_active.avg.pct_of_peak_sustained_active", "sm__warps_active.avg.pct_of_peak_sustained_active"]

# A warp that is selected waits for nothing; 'not issued' counts the same waits over fewer cycles.
_STALL = r"smsp__average_warps_issue_stalled_(?!selected|\w+_not_issued)(\w+?)_per_issue_active\.ratio"
# Metric as Nsight Compute calls it -> as it is called here; of several that match, the largest counts.
_METRICS = {
    r"gpu__time_duration\.sum": "duration",
    r"smsp__issue_active\.avg\.pct_of_peak_sustained_active": "cycles with an instruction issued",
    r"sm__warps_active\.avg\.pct_of_peak_sustained_active": "occupancy",
    r"launch__registers_per_thread": "registers",
    r"sm__(inst_executed_)?pipe_tensor\w*\.avg\.pct_of_peak_sustained_active": "tensor pipe",
    r"sm__(inst_executed_)?pipe_fma\w*\.avg\.pct_of_peak_sustained_active": "FMA pipe",
    r"l1tex__throughput\.avg\.pct_of_peak_sustained_active": "L1 and shared memory",
    r"l1tex__t_sector_hit_rate\.pct": "L1 hit rate",
    r"lts__throughput\.avg\.pct_of_peak_sustained_elapsed": "L2",
    r"lts__t_sector_hit_rate\.pct": "L2 hit rate",
    r"(gpu__)?dram_*throughput\.avg\.pct_of_peak_sustained_elapsed": "DRAM",
    r"dram__bytes_read\.sum": "DRAM bytes read",
    r"dram__bytes_write\.sum": "DRAM bytes written",
    _STALL: r"stalled: \1",
}


def why_unavailable():
    """One sentence on what is missing to count, or None where nothing is."""
    if not backends.available():
        return backends.why_unavailable()
    if shutil.which("ncu") is None:
        return "Nsight Compute's ncu was not found; it comes with the CUDA toolkit and has to be on the PATH"


def run(data, factors, repeats):
    """Count in the user update and in the item update of the first epoch.

    repeats : int, processes, one after another

    Return a DataFrame with a row a counter: repeat, x_kernel, x_side ('users', 'items'), metric, x_unit, value, and
    x_copy_bytes_per_second, what a device copy reaches without Nsight Compute. Pipes, caches and DRAM in % of what
    they can do; 'stalled: X' is how many warps wait for X at an average instruction.

    Raise gpumf.backends.DeviceError without a GPU or Nsight Compute, or where it may not read the counters.
    """
    if why := why_unavailable():
        raise backends.DeviceError(f"hardware counters are not available: {why}")
    ratings = load_ratings(data)
    frames = [
        parse(_counted(data, factors)).assign(repeat=repeat)
        for repeat in tqdm(range(repeats), desc=f"kernel_counters {ratings.name}", leave=False)
    ]
    what = {"data": ratings.name, "task": "count", "model": "ALS", "device": "cuda", "factors": factors}
    copy = backends.device().ceilings()["copy_bytes_per_second"]
    return pd.concat(frames, ignore_index=True).assign(**what, x_copy_bytes_per_second=copy)


def _counted(data, factors):
    """Nsight Compute's page of raw values of a process."""
    child = f"from gpumf_study.experiments.gpumf import kernel_counters as of; of.half_sweeps({data!r}, {factors})"
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "ncu.csv")
        options = [option for section in _SECTIONS for option in ("--section", section)]
        options += ["--metrics", ",".join(_MORE), "--kernel-name", f"regex:^({'|'.join(chain(*KERNELS.values()))})$"]
        options += ["--csv", "--page", "raw", "--print-units", "base", "--log-file", str(log)]
        done = subprocess.run(["ncu", *options, sys.executable, "-c", child], capture_output=True, text=True)
        text = log.read_text() if log.exists() else ""
    if done.returncode or '"ID"' not in text:
        said = re.search(r"==ERROR==\s*(.+)", text + done.stdout + done.stderr)
        last = said.group(1) if said else (done.stderr or done.stdout or text).strip()[-300:]
        raise backends.DeviceError(f"Nsight Compute counted nothing: {last}")
    return text


def half_sweeps(data, factors):
    """What is counted: the user update, then the item update, of every version in turn."""
    ratings = load_ratings(data)
    train = training_ratings(ratings)
    for kernel in KERNELS:
        model = ALS(factors, solver=kernel, regularization=0.05, biases=False, clip=False)
        trainer = model.make_solver(train)
        trainer.epoch(0)
        trainer.synchronize()


def parse(text):
    """Nsight Compute's page of raw values, as CSV, to a tidy frame.

    Of each kernel the first launch is taken for the users' and the last for the items': where rows go in several
    batches, one batch stands for all.

    Return a DataFrame: x_kernel, x_side, metric, x_unit, value
    """
    lines = text.splitlines()
    start = next(k for k, line in enumerate(lines) if line.startswith('"ID"'))
    header, units, *launches = csv.reader(io.StringIO("\n".join(lines[start:])))
    rows = []
    names = [launch[header.index("Kernel Name")].split("(")[0] for launch in launches]
    for kernel in dict.fromkeys(names):
        of_kernel = [launch for launch, name in zip(launches, names, strict=True) if name == kernel]
        for side, launch in (("users", of_kernel[0]), ("items", of_kernel[-1])):
            found = {}
            for name, unit, value in zip(header, units, launch, strict=True):
                if metric := _known(name):
                    number = pd.to_numeric(value.replace(",", ""), errors="coerce")
                    if pd.notna(number) and number >= found.get(metric, (unit, number))[1]:
                        found[metric] = unit, number
            rows += [(kernel, side, metric, *of_metric) for metric, of_metric in found.items()]
    return pd.DataFrame(rows, columns=["x_kernel", "x_side", "metric", "x_unit", "value"])


def _known(name):
    """What a metric is called here, or None."""
    for pattern, metric in _METRICS.items():
        if match := re.fullmatch(pattern, name):
            return match.expand(metric)
    return None


def summary(frame):
    """Return the counters side by side, medians of all repeats: a DataFrame with the index metric and the columns
    (kernel, side)."""
    table = frame.pivot_table(index="metric", columns=["x_kernel", "x_side"], values="value", aggfunc="median")
    return table.loc[frame.metric.unique()]


def of_dram(frame):
    """Return what DRAM moved for the users, a row a kernel and repeat.

    Columns are x_kernel, repeat, of_copy (bytes a second over a copy's) and of_named (bytes over those of all factors
    that the ratings name, in FP32, and of all matrices, in FP16).
    """
    users = frame[frame.x_side == "users"]
    counted = users.pivot(index=["x_kernel", "repeat"], columns="metric", values="value")
    moved = counted["DRAM bytes read"] + counted["DRAM bytes written"]
    recipe, f = RECIPES[_published.family(frame["data"].iloc[0])], frame.factors.iloc[0]
    named = 4 * (recipe.ratings - recipe.test) * f + 2 * recipe.users * f**2
    copy = frame.x_copy_bytes_per_second.iloc[0]
    rate = moved / (counted["duration"] * 1e-9)
    return pd.DataFrame({"of_copy": rate / copy, "of_named": moved / named}).reset_index()


CLAIMS = [
    Claim(
        "cumf-table-1-dram", "cumf", "Table 1",
        "Share of the bytes of N_z f numbers in FP32 and m f^2 in FP16 that DRAM moves for get_hermitian, users of "
        "Netflix (synthetic).",
        metric="exact",
        select={"where": {"x_kernel": "get_hermitian"}, "column": "of_named", "across": "max"},
        table=of_dram, evidence="synthetic",
    ),
    Claim(
        "cumf-fig-7-bandwidth", "cumf", "Figure 7",
        "Bytes a second of DRAM of CG in FP16 over those of a device copy, Netflix (synthetic).",
        metric="median",
        select={"where": {"x_kernel": "solve_cg"}, "column": "of_copy"},
        criterion=above(1.0), table=of_dram, evidence="synthetic",
    ),
]  # fmt: skip
