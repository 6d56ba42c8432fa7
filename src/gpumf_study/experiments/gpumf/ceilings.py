"""What this machine reaches at best: bytes a second of a copy, FLOP a second of large matrix products.

They are the denominators of every roofline bound of the study, see `_limits`.
"""

import pandas as pd

from gpumf import backends
from gpumf.backends.cpu import machine

PROFILES = {"quick": {"repeats": 10}, "full": {"repeats": 30}}
PROFILES["smoke"] = PROFILES["quick"] | {"repeats": 2}


def run(repeats):
    """Measure the CPU's ceilings and the GPU's, where there is one; values are medians, bytes/s or FLOP/s."""
    measured = {"cpu": machine.ceilings(repeats=repeats)}
    if backends.available():
        measured["cuda"] = backends.device().ceilings(repeats=repeats)
    rows = [(device, name, value) for device, values in measured.items() for name, value in values.items()]
    return pd.DataFrame(rows, columns=["device", "metric", "value"]).assign(task="ceilings")


def of(frame, device="cuda"):
    """Return the ceilings of a device: a Series of metric -> value."""
    return frame[frame.device == device].set_index("metric").value


CLAIMS = []
