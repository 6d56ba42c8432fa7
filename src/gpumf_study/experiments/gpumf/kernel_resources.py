"""What each kernel takes of a multiprocessor, as NVRTC's assembler reports it for every architecture."""

from itertools import product

import numpy as np
import pandas as pd

from gpumf.backends import nvrtc, sources
from gpumf.models import als, rbm, sgd  # noqa: F401
from gpumf.ratings import synthetic_device  # noqa: F401 - declares its source, as the models do theirs
from gpumf_study import figure_style as style

ARCHITECTURES = [75, 80, 86, 89, 90, 100, 120]
VERSIONS = {"LOAD": [0], "A_HALF": [0], "IMPLICIT": [0], "BIASES": [0], "HIDDEN": [128], "LEVELS": [5]}
VERSIONS |= {"STAGE_ROWS": [64], "BATCHED": [0]}
METRICS = ["registers", "stack_bytes", "spill_store_bytes", "spill_load_bytes", "static_shared_bytes"]
"""Of a thread; the last of a block."""

PROFILES = {
    "quick": {"architectures": [75, 90], "factors": [16, 100], "versions": VERSIONS},
    "full": {"architectures": ARCHITECTURES, "factors": [16, 32, 100, 128], "versions": VERSIONS},
}
PROFILES["smoke"] = PROFILES["quick"] | {"architectures": [90], "factors": [16]}

why_unavailable = nvrtc.why_unavailable


def run(architectures, factors, versions):
    """Compile all that the package can launch, models without biases for all.

    Parameters
    ----------
    architectures : list of int, as 90 for compute capability 9.0
    factors : list of int, for the sources that are compiled for a number of factors
    versions : dict name -> list of int, of other definitions that a source may have; of the rest it takes all values
    """
    variants = list(product(sources.variants(FACTORS=factors, **versions), architectures))
    compiled = nvrtc.resources_of((source, architecture, defines) for (source, defines), architecture in variants)
    rows = [
        {"x_source": source, **_definitions(defines), "x_architecture": architecture, **kernel}
        for ((source, defines), architecture), kernels in zip(variants, compiled, strict=True)
        for kernel in kernels
    ]
    frame = pd.DataFrame(rows).rename(columns={"kernel": "x_kernel"})
    labels = [column for column in frame if column not in METRICS]
    return frame.melt(labels, METRICS, "metric", "value").assign(task="compile")


def _definitions(defines):
    names = {name for source in sources.every() for name in sources.declared(source).variants}
    return {
        "factors" if name == "FACTORS" else f"x_{name.lower()}": defines.get(name, np.nan) for name in sorted(names)
    }


def summary(frame):
    """Return the most that each kernel takes over its definitions, by architecture, source and kernel."""
    by = ["x_architecture", "x_source", "x_kernel", "metric"]
    return frame.groupby(by).value.max().unstack()[["registers", "spill_store_bytes", "static_shared_bytes"]]


def figure(frame):
    """Draw registers of a thread, of every kernel, on one architecture: 9.0 where it is among those compiled for."""
    architectures = frame.x_architecture.unique()
    shown = 90 if 90 in architectures else architectures[0]
    registers = summary(frame).registers.xs(shown, level="x_architecture").droplevel("x_source")
    return style.dots(registers, f"registers of a thread, compute capability {shown / 10:g}", log=False)


CLAIMS = []
