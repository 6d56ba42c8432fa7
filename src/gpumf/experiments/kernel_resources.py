"""What each kernel takes of a multiprocessor, as NVRTC's assembler reports it for every architecture."""

import numpy as np
import pandas as pd

from gpumf.gpu import nvrtc, sources

ARCHITECTURES = [75, 80, 86, 89, 90, 100, 120]

PROFILES = {name: {"architectures": ARCHITECTURES, "factors": [16, 32, 100, 128]} for name in ("quick", "full")}


def run(architectures, factors):
    """Compile all that the package can launch, models without biases for all.

    Parameters
    ----------
    architectures : list of int, as 90 for compute capability 9.0
    factors : list of int, for the sources that are compiled for a number of factors

    Returns
    -------
    DataFrame with a row a kernel: source, factors (missing where the source has none), architecture, kernel,
    registers, stack_bytes, spill_store_bytes, spill_load_bytes (all of a thread), static_shared_bytes (of a block)
    """
    rows = [
        {"source": source, "factors": defines.get("FACTORS", np.nan), "architecture": architecture, **kernel}
        for source, defines in sources.variants(FACTORS=factors, BIASES=[0])
        for architecture in architectures
        for kernel in nvrtc.resources(source, architecture, **defines)
    ]
    return pd.DataFrame(rows)
