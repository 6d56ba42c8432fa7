"""Theoretical FLOP/s of NVIDIA GPUs and Intel CPUs over the years (thesis, Figure 1.2 and appendix A).

No measurement: a table of data sheets (`processors.csv`, beside this module) and equation A.1,
FLOP/s = cores x frequency x FLOP per cycle, with the base clock as in the thesis. The cores of a GPU are FP32 lanes;
a fused multiply-add counts two.
"""

from importlib import resources

import pandas as pd
from matplotlib.ticker import MaxNLocator

from gpumf_study import figure_style as style
from gpumf_study.findings import Finding, Holds

PROFILES = {"smoke": {}, "quick": {}, "full": {}}


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


def figure(frame):
    """FLOP/s by equation A.1 against the year, GPUs and CPUs, single and double precision."""
    figure, ((axis,),) = style.panels(height=4.4)
    colours = {"GPU": style.COLOURS["green"], "CPU": style.COLOURS["blue"]}
    for (kind, precision), group in frame.groupby(["kind", "precision"], sort=False):
        single = precision == "single"
        axis.plot(
            group.year,
            group.gflops,
            "o" if single else "^",
            color=colours[kind],
            markerfacecolor=colours[kind] if single else "white",
            label=f"{kind}, {precision} precision",
        )
        best = group.groupby("year").gflops.max().cummax()
        axis.plot(best.index, best, "-" if single else ":", color=colours[kind], linewidth=1)
    axis.set(xlabel="year of release", ylabel="theoretical GFLOP/s")
    style.log_scale(axis.yaxis)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    style.legend(figure, axis, 4)
    figure.supxlabel("Computed from data sheets, not measured; a line follows the fastest so far.", fontsize=8)
    return figure


def summary(frame):
    """The fastest of either kind so far, in single precision, from the frame of `run`.

    Returns
    -------
    DataFrame with the index year: GPU, CPU (GFLOP/s), lead (their ratio)
    """
    single = frame[frame.precision == "single"].groupby(["year", "kind"]).gflops.max().unstack()
    best = single.cummax().ffill().dropna()
    return best.assign(lead=best.GPU / best.CPU)


def _widening(frame):
    lead = summary(frame).lead
    return lead.iloc[-1] / lead.iloc[0], 0.0, "x"


FINDINGS = [
    Finding(
        "thesis-fig-1.2",
        "thesis",
        "Figure 1.2",
        "GPUs pull away from CPUs: the lead of the fastest GPU in theoretical FLOP/s grows over the years.",
        _widening,
        Holds(above=1),
    )
]
