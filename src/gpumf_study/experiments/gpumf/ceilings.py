"""What this machine reaches at best, beside what its data sheet promises.

The denominators of every `fraction_of_limit` in the study: a device copy and large matrix products.
"""

import pandas as pd

from gpumf import backends
from gpumf.backends.cpu import machine
from gpumf_study import figure_style as style

PROFILES = {"quick": {"repeats": 10}, "full": {"repeats": 30}}
PROFILES["smoke"] = PROFILES["quick"] | {"repeats": 2}


def run(repeats):
    """Measure the CPU's ceilings and the GPU's, where there is one.

    Returns
    -------
    DataFrame with a row a ceiling: device ('cpu' or 'cuda'), ceiling, value (medians; bytes/s or FLOP/s)
    """
    measured = {"cpu": machine.ceilings(repeats=repeats)}
    if backends.available():
        measured["cuda"] = backends.device().ceilings(repeats=repeats)
    return pd.DataFrame(
        [(device, name, value) for device, values in measured.items() for name, value in values.items()],
        columns=["device", "ceiling", "value"],
    )


def summary(frame):
    """The ceilings side by side: a DataFrame with the index ceiling and a column a device."""
    return frame.pivot(index="ceiling", columns="device", values="value")


def figure(frame):
    """Bytes a second of a copy (left) and FLOP/s of products (right)."""
    figure, (axes,) = style.panels(columns=2, height=2.4)
    units = {"bytes/s of a copy": frame.ceiling.str.endswith("bytes_per_second")}
    units["FLOP/s of products"] = ~units["bytes/s of a copy"]
    for axis, (label, which) in zip(axes, units.items(), strict=True):
        rows = frame[which]
        axis.plot(
            rows.value, rows.device + ", " + rows.ceiling.str.split("_").str[0], "o", color=style.COLOURS["blue"]
        )
        axis.set(xlabel=label)
        style.log_scale(axis.xaxis)
    return figure


FINDINGS = []
