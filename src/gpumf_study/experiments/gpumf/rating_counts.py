"""How unevenly ratings fall on users and on items: counts of a data set and of the synthetic one of its shape."""

import numpy as np
import pandas as pd

from gpumf_study import figure_style as style
from gpumf_study.experiments import present_ratings

PROFILES = {
    "quick": {"data": ["ml-100k", "ml-100k-synthetic", "jester-1", "jester-synthetic"], "points": 200},
    "full": {
        "data": ["ml-100k", "ml-100k-synthetic", "jester-1", "jester-synthetic", "douban-synthetic"], "points": 200,
    },
}  # fmt: skip
PROFILES["smoke"] = PROFILES["quick"] | {"data": ["ml-100k-synthetic"], "points": 20}

# A real data set, and the synthetic one that is drawn in its colour.
PAIRS = [("ml-100k", "ml-100k-synthetic"), ("jester-1", "jester-synthetic"), ("douban", "douban-synthetic")]


def run(data, points):
    """Return ratings of the users and items of each data set that is on this machine, from the fewest to the most.

    x_rank is the share of users or items with no more, in (0, 1]; there are at most `points` rows a side.
    """
    frames = []
    for ratings in present_ratings(data):
        for side, rows in (("users", ratings.by_user), ("items", ratings.by_item)):
            counts = np.sort(rows.counts)
            chosen = np.unique(np.linspace(0, len(counts) - 1, points).astype(int))
            columns = {"x_rank": (chosen + 1) / len(counts), "value": counts[chosen]}
            frames.append(pd.DataFrame({"data": ratings.name, "x_side": side, "metric": "ratings", **columns}))
    return pd.concat(frames, ignore_index=True)


def figure(frame, pairs=PAIRS):
    """Draw ratings per user (left) and per item (right), from the least to the most active.

    pairs : (real, synthetic) names of data sets; one that was not on the machine is left out
    """
    figure, axes = style.panels(columns=2, height=4.0)
    for pair, colour in zip(pairs, ("blue", "red", "green", "purple"), strict=False):
        for name, line in zip(pair, ("-", "--"), strict=True):
            for axis, side in zip(axes[0], ("users", "items"), strict=True):
                counts = frame[(frame.data == name) & (frame.x_side == side)]
                if len(counts):
                    look = {"color": style.COLOURS[colour], "label": style.data_name(name)}
                    axis.plot(counts.x_rank, counts.value, line, **look)
    for axis, side in zip(axes[0], ("users", "items"), strict=True):
        axis.set(xlabel=f"share of the {side}", ylabel=f"ratings per {side[:-1]}")
        style.log_scale(axis.yaxis)
    style.legend(figure, axes[0, 0], 4)
    return figure
