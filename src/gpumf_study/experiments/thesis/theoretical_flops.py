"""Theoretical FLOP/s of NVIDIA GPUs and Intel CPUs over the years (thesis, Figure 1.2 and appendix A).

No measurement: a table of data sheets (`processors.csv`, beside this module) and equation A.1,
FLOP/s = cores x frequency x FLOP per cycle, with the base clock as in the thesis. The cores of a GPU are FP32 lanes;
a fused multiply-add counts two. The claim compares one class of chips: GeForce with Core.
"""

from importlib import resources

import pandas as pd
from matplotlib.ticker import MaxNLocator

from gpumf_study import figure_style as style
from gpumf_study.claims import Claim, above

PROFILES = {"smoke": {}, "quick": {}, "full": {}}


def run():
    """Evaluate equation A.1 for every CPU and GPU, in single and in double precision: metric 'gflops'."""
    with resources.files(__package__).joinpath("processors.csv").open() as file:
        sheets = pd.read_csv(file).rename(columns={"single_per_cycle": "single", "double_per_cycle": "double"})
    labels = ["processor", "kind", "class", "year", "cores", "megahertz"]
    frame = sheets.melt(labels, var_name="precision", value_name="flop_per_cycle")
    value = frame.cores * frame.megahertz * frame.flop_per_cycle / 1000
    frame = frame.add_prefix("x_").assign(task="peak", metric="gflops", value=value)
    return frame[frame.value > 0].reset_index(drop=True)


def figure(frame):
    """FLOP/s by equation A.1 against the year, GPUs and CPUs, single and double precision."""
    figure, ((axis,),) = style.panels(height=4.4)
    colours = {"GPU": style.COLOURS["green"], "CPU": style.COLOURS["blue"]}
    for (kind, precision), group in frame.groupby(["x_kind", "x_precision"], sort=False):
        single = precision == "single"
        look = {"color": colours[kind], "markerfacecolor": colours[kind] if single else "white"}
        axis.plot(group.x_year, group.value, "o" if single else "^", label=f"{kind}, {precision} precision", **look)
        best = group.groupby("x_year").value.max().cummax()
        axis.plot(best.index, best, "-" if single else ":", color=colours[kind], linewidth=1)
    axis.set(xlabel="year of release", ylabel="theoretical GFLOP/s")
    style.log_scale(axis.yaxis)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    style.legend(figure, axis, 2)
    below = "Computed from data sheets, not measured; a line follows the fastest so far."
    figure.supxlabel(below, fontsize=style.SMALL)
    return figure


def summary(frame):
    """Return by year the fastest desktop chips so far in single precision (GPU, CPU, in GFLOP/s) and their `lead`."""
    chips = frame[(frame.x_precision == "single") & (frame.x_class == "desktop")]
    best = chips.groupby(["x_year", "x_kind"]).value.max().unstack().cummax().ffill().dropna()
    return best.assign(lead=best.GPU / best.CPU).reset_index()


def until_published(frame):
    """Return `summary` up to the year of the thesis."""
    return summary(frame).query("x_year <= 2015")


CLAIMS = [
    Claim("thesis-fig-1.2", "thesis", "Figure 1.2",
          "Yearly growth of the lead of the fastest desktop GPU over the fastest desktop CPU in theoretical FLOP/s, "
          "until 2015.",
          metric="growth", select={"column": "lead", "by": "x_year"}, criterion=above(1), table=until_published),
]  # fmt: skip
