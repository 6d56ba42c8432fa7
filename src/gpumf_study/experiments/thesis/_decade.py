"""A decade of speed-ups: as published in 2015, with the same kernels today, and with the fastest of this study."""

import numpy as np
import pandas as pd

from gpumf_study import figure_style as style
from gpumf_study.experiments.thesis import speedups

DATA = {"douban-synthetic": "Douban", "jester-synthetic": "Jester"}
"""The data sets of the thesis, in its sizes, and what it calls them."""

_SHOWN = {
    "published": ("published, 2015", "o", "white"),
    "same": ("the same kernels today", "o", None),
    "ours": ("our fastest solver today", "D", None),
}


def summary(frame):
    """Speed-up over a single-threaded CPU, in training time to the same test MAE, from the frame of `speedups`.

    Of Table 6.3's two columns for SGD, the faster one as published. The error is the thesis's threshold where the
    published version reaches it, else one that all versions reach.

    Returns
    -------
    DataFrame with a row a data set and model: data, model, mae, published, same (the published kernel and threads,
    measured), version and ours (of the fastest version of the model); the baseline is single-threaded
    """
    table = speedups.table(frame).dropna(subset="speedup")
    rows = []
    for data in DATA:
        for model in ("ALS", "SGD"):
            of_model = table[(table.data == data) & table.column.str.startswith(model)]
            if of_model.empty:
                continue
            best = of_model.loc[of_model.published.idxmax()]
            fastest = speedups.fastest(frame, model)
            (ours,) = fastest[(fastest.data == data) & (fastest["mae"] == best["mae"])].itertuples()
            rows.append((data, model, best["mae"], best.published, best.speedup, ours.version, ours.speedup))
    return pd.DataFrame(rows, columns=["data", "model", "mae", "published", "same", "version", "ours"])


def figure(frame):
    """A dot for each of the three speed-ups over a single-threaded CPU, a row a model and data set."""
    table = summary(frame)
    figure, ((axis,),) = style.panels(height=1.3 + 0.62 * len(table), width=4.8)
    place = np.arange(len(table))[::-1]
    axis.hlines(place, 1, table[[*_SHOWN]].max(axis=1), color="0.85", zorder=1)
    for (column, (label, marker, face)), side in zip(_SHOWN.items(), (9, 9, -17), strict=True):
        for row, at in zip(table.itertuples(), place, strict=True):
            colour = style.COLOURS[style.MODELS[row.model][0]] if column != "published" else "0.35"
            value = getattr(row, column)
            axis.plot(value, at, marker, color=colour, markerfacecolor=face or colour, markersize=8)
            axis.annotate(f"{value:,.{0 if value >= 20 else 1}f}", (value, at), (0, side), **_LABEL)
        axis.plot([], [], marker, color="0.35", markerfacecolor=face or "0.35", label=label)
    names = [f"{row.model}, {DATA[row.data]},\nto MAE {row.mae:g}" for row in table.itertuples()]
    axis.set_yticks(place, names)
    axis.set(xlabel="speed-up over a single-threaded CPU", ylim=(-0.6, len(table) - 0.4))
    style.log_scale(axis.xaxis)
    axis.set_xlim(left=1)
    axis.grid(axis="y", visible=False)
    style.legend(figure, axis, 2)
    return figure


_LABEL = {"textcoords": "offset points", "ha": "center", "size": 9}
