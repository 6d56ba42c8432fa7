"""SGD at the size of the Netflix Prize: every scheme on the synthetic data set, as in `sgd_schemes` on smaller ones.

The official test set, 128 factors, lambda of cumf (Table 2), and one schedule for all: that of CuMF_SGD (Xie et al.
2017). A full run gives single-threaded schemes as many epochs as say how long they take.
"""

import pandas as pd

from gpumf_study import figure_style as style
from gpumf_study.experiments.gpumf import sgd_schemes
from gpumf_study.experiments.gpumf.sgd_schemes import DRAWN, ONCE_EACH

PROFILES = {
    "quick": sgd_schemes.PROFILES["quick"] | {"data": ["ml-100k-synthetic"], "schemes": [DRAWN, ONCE_EACH, "fast"]},
    # Where an epoch takes seconds, as many as say how long.
    "full": sgd_schemes.PROFILES["full"] | {
        "data": ["netflix-synthetic"], "repeats": 5,
        "shorter": {DRAWN: 2, "ordered": 2, "parallel": 5, "gpusgd": 2, "newgpusgd, FP64": 5},
    },
}  # fmt: skip
PROFILES["smoke"] = PROFILES["quick"] | {"data": ["ml-100k-synthetic"], "epochs": 2}

run, summary = sgd_schemes.run, sgd_schemes.summary

LADDER = ["sequential", "ordered", "ordered_parallel", "gpusgd", "newgpusgd", "bsgd", "kato_hosino", "hogwild"]
LADDER += ["cu2rec", "cumf_sgd", "fast"]


def rates(frame):
    """Return the updates a second of each version that converged, by its label; medians over epochs."""
    table = summary(frame).set_index("scheme")
    return table.updates_per_second[table.last_rmse.notna()]


def figure_ladder(frame, bound):
    """Draw the updates a second of LADDER, each with its number and its share of the roofline bound.

    bound : float, updates a second that no order of the ratings can pass
    """
    of, bound = rates(frame) / 1e6, bound / 1e6
    of = of[[label for label in LADDER if label in of]]
    figure, ((axis,),) = style.panels(height=1.2 + 0.3 * len(of))
    place = range(len(of))[::-1]
    on_gpu = frame.drop_duplicates("solver").set_index("solver").device[of.index] == "cuda"
    colours = pd.Series("0.75", of.index).mask(on_gpu, style.COLOURS["green"])
    axis.barh(place, of, color=colours.where(of.index != "fast", style.COLOURS["purple"]))
    for at, (label, rate) in zip(place, of.items(), strict=True):
        share = f" ({100 * rate / bound:.2g} %)" if on_gpu[label] else ""
        axis.annotate(f"{rate:,.0f}{share}", (rate, at), (4, 0), textcoords="offset points", va="center", size=9)
    axis.set_yticks(place, [style.LOOKS["SGD", label].name for label in of.index])
    setting = f"{style.data_name(frame.data.iloc[0])}, {frame.factors.iloc[0]} factors"
    axis.set(xlabel=f"million updates a second (% of the roofline bound), {setting}")
    axis.set_xlim(of.min() / 2, 300 * of.max())
    style.log_scale(axis.xaxis)
    axis.grid(axis="y", visible=False)
    return figure
