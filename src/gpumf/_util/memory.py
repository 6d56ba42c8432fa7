"""The main memory that a process may take."""

import os
from pathlib import Path

import numpy as np


def free_bytes():
    """Return the bytes of main memory that new arrays can have, infinity where the system does not say."""
    found = [np.inf]
    if hasattr(os, "sysconf") and "SC_AVPHYS_PAGES" in os.sysconf_names:
        found = [os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for line in _lines("/proc/meminfo"):  # which counts what caches give back
        if line.startswith("MemAvailable:"):
            found = [int(line.split()[1]) << 10]
    most, taken = (_lines(f"/sys/fs/cgroup/memory.{name}") for name in ("max", "current"))
    if most and taken and most[0] != "max":
        inactive = [
            int(line.split()[1]) for line in _lines("/sys/fs/cgroup/memory.stat") if line.startswith("inactive_file ")
        ]
        found.append(int(most[0]) - int(taken[0]) + sum(inactive))
    return max(min(found), 0)


def _lines(path):
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
