"""Seconds and memory to read ratings from files, checked: from the path to `Ratings` in NumPy arrays.

Random ratings of distinct pairs are written to a temporary folder, and each file is read by a process of its own,
which imports what it needs meanwhile. Memory is the most that this process had at a time beyond what it had before,
over the bytes of the arrays that it returns; the libraries' own is in it, so that small files show a larger share.
"""

import json
import math
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf._util import threads
from gpumf_study import figure_style as style
from gpumf_study.findings import Finding, Target, median

PROFILES = {
    "quick": {"nnz": 1_000_000, "users": 48_000, "items": 1_777, "repeats": 3},
    "full": {"nnz": 100_000_000, "users": 480_189, "items": 17_770, "repeats": 3},
}
PROFILES["smoke"] = PROFILES["quick"] | {"nnz": 100_000, "users": 4_800, "repeats": 1}
_FORMATS = "parquet", "csv"
_IDS = "integers", "strings"
# VmHWM starts anew with the program; what getrusage says begins with what the process that started it had.
_READ = """
import json, re, sys, time
from pathlib import Path

from gpumf import read_ratings

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024

before, started = peak(), time.perf_counter()
ratings = read_ratings(sys.argv[1], scale=(0.5, 5))
seconds = time.perf_counter() - started
arrays = sum(a.nbytes for a in (ratings.users, ratings.items, ratings.values))
print(json.dumps({"nnz": ratings.nnz, "seconds": seconds, "peak": peak() - before, "arrays": arrays}))
"""


def why_unavailable():
    """Why a process's memory is not known here, or None where it is."""
    return None if Path("/proc/self/status").exists() else "what memory a process had is read from Linux's /proc"


def run(nnz, users, items, repeats):
    """Write files and read them.

    Parameters
    ----------
    nnz : ratings from 0.5 to 5
    users, items : int, with nnz below their product
    repeats : int, processes that read each file; one where ids are strings, for its memory

    Returns
    -------
    DataFrame with a row a process: format, ids, nnz, cores, repeat, seconds, peak, arrays (bytes)
    """
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for ids in _IDS:
            table = _table(nnz, users, items, ids == "strings")
            for format in _FORMATS:
                path = Path(folder, f"ratings.{format}")
                _write(table, path)
                times = repeats if ids == "integers" else 1
                for repeat in tqdm(range(times), desc=f"{format} with {ids}", leave=False):
                    command = [sys.executable, "-c", _READ, str(path)]
                    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
                    rows.append((format, ids, found.pop("nnz"), threads.count(), repeat, *found.values()))
                path.unlink()
    return pd.DataFrame(rows, columns=["format", "ids", "nnz", "cores", "repeat", "seconds", "peak", "arrays"])


def _table(nnz, users, items, strings):
    """Ratings of distinct pairs, by a stride that meets every cell of the matrix, as an Arrow table."""
    import pyarrow as pa
    from pyarrow import compute as pc

    cells = users * items
    stride = next(s for s in range(int(cells * 0.618), cells) if math.gcd(s, cells) == 1)
    columns = dict(zip(("user", "item"), np.divmod(np.arange(nnz) * stride % cells, items), strict=True))
    columns = {name: pa.array(column + 1) for name, column in columns.items()}
    if strings:
        columns = {
            name: pc.binary_join_element_wise(name[0], column.cast(pa.string()), "")
            for name, column in columns.items()
        }
    halves = np.random.default_rng(0).integers(1, 11, nnz, np.int8)
    return pa.table(columns | {"rating": halves / 2})


def _write(table, path):
    from pyarrow import csv, parquet

    if path.suffix == ".parquet":
        parquet.write_table(table, path)
    else:
        csv.write_csv(table, path)


def summary(frame):
    """Medians: a DataFrame with a row a format and kind of ids: seconds, memory (peak over arrays)."""
    frame = frame.assign(memory=frame.peak / frame.arrays)
    return frame.groupby(["format", "ids"], sort=False)[["seconds", "memory"]].median().reset_index()


def figure(frame):
    """Seconds of each process."""
    return style.dots(summary(frame).set_index(["format", "ids"]).seconds, "seconds to read")


def _seconds(frame, format):
    return *median(frame[(frame.format == format) & (frame.ids == "integers")].seconds), "s"


def _memory(frame):
    """Of the file that takes the most."""
    shares = (frame.peak / frame.arrays).groupby([frame.format, frame.ids])
    return *max((median(share) for _, share in shares), default=(np.nan, np.nan)), "x"


FINDINGS = [
    Finding(
        "read-parquet-seconds",
        "gpumf",
        None,
        "read_ratings, Parquet | 100 million random ratings | integer ids | seconds to checked Ratings",
        partial(_seconds, format="parquet"),
        Target(3, 1.5),
    ),
    Finding(
        "read-csv-seconds",
        "gpumf",
        None,
        "read_ratings, CSV | 100 million random ratings | integer ids | seconds to checked Ratings",
        partial(_seconds, format="csv"),
        Target(8, 4),
    ),
    Finding(
        "read-memory",
        "gpumf",
        None,
        "read_ratings | 100 million random ratings | the worst of formats and ids | peak memory over the arrays'",
        _memory,
        Target(3, 2),
    ),
]
