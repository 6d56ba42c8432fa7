"""Theoretical FLOP/s of NVIDIA GPUs and Intel CPUs over the years (thesis, Figure 1.2 and appendix A).

No measurement: a table of data sheets (`processors.csv`, beside this module) and equation A.1,
FLOP/s = cores x frequency x FLOP per cycle, with the base clock as in the thesis. The cores of a GPU are FP32 lanes;
a fused multiply-add counts two.
"""

from importlib import resources

import pandas as pd

PROFILES = {"quick": {}, "full": {}}


def run():
    """Evaluate equation A.1 for every processor.

    Returns
    -------
    DataFrame: processor, kind ('GPU', 'CPU'), year, cores, megahertz, precision ('single', 'double'), flop_per_cycle
    (of a core), gflops
    """
    with resources.files(__package__).joinpath("processors.csv").open() as file:
        processors = pd.read_csv(file)
    frame = processors.rename(columns={"single_per_cycle": "single", "double_per_cycle": "double"}).melt(
        id_vars=["processor", "kind", "year", "cores", "megahertz"], var_name="precision", value_name="flop_per_cycle"
    )
    frame["gflops"] = frame.cores * frame.megahertz * frame.flop_per_cycle / 1000
    return frame[frame.gflops > 0].reset_index(drop=True)
