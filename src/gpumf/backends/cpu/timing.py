"""Seconds of work on this CPU."""

import time

import numpy as np


def seconds_of(work, repeats=10, warmup=2):
    """Seconds that each of `repeats` calls of work() takes by the host's clock, float64 (repeats,)."""
    for _ in range(warmup):
        work()
    seconds = np.empty(repeats)
    for k in range(repeats):
        started = time.perf_counter()
        work()
        seconds[k] = time.perf_counter() - started
    return seconds
