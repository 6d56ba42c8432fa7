"""What this machine reaches at best, beside what its data sheet promises.

The denominators of every `fraction_of_limit` in the study: a device copy and large matrix products.
"""

import pandas as pd

from gpumf import gpu
from gpumf.cpu import machine

PROFILES = {"quick": {"repeats": 10}, "full": {"repeats": 30}}


def run(repeats):
    """Measure the CPU's ceilings and the GPU's, where there is one.

    Returns
    -------
    DataFrame with a row a ceiling: device ('cpu' or 'cuda'), ceiling, value (medians; bytes/s or FLOP/s)
    """
    measured = {"cpu": machine.ceilings(repeats=repeats)}
    if gpu.available():
        measured["cuda"] = gpu.device().ceilings(repeats=repeats)
    return pd.DataFrame(
        [(device, name, value) for device, values in measured.items() for name, value in values.items()],
        columns=["device", "ceiling", "value"],
    )
