"""How unevenly ratings fall on users and on items: the counts of a set and of its twin."""

import numpy as np
import pandas as pd

from gpumf_study import figure_style as style
from gpumf_study.experiments import identity, present_ratings

PROFILES = {
    "quick": {"data": ["ml-100k", "ml-100k-synthetic", "jester-1", "jester-synthetic"], "points": 200},
    "full": {
        "data": ["ml-100k", "ml-100k-synthetic", "jester-1", "jester-synthetic", "douban-synthetic"],
        "points": 200,
    },
}
PROFILES["smoke"] = PROFILES["quick"] | {"data": ["ml-100k-synthetic"], "points": 20}

# A real set, and the twin that is drawn in its colour.
PAIRS = [("ml-100k", "ml-100k-synthetic"), ("jester-1", "jester-synthetic"), ("douban", "douban-synthetic")]


def run(data, points):
    """Ratings of the users and items of each set that is on this machine, from the fewest to the most.

    Returns
    -------
    DataFrame: data, side ('users', 'items'), rank (0 to 1, the share of users or items with no more), count; at
    most `points` rows a side
    """
    frames, identities = [], []
    for ratings in present_ratings(data):
        identities.append(identity(ratings))
        for side, rows in (("users", ratings.by_user), ("items", ratings.by_item)):
            counts = np.sort(rows.counts)
            chosen = np.unique(np.linspace(0, len(counts) - 1, points).astype(int))
            frames.append(
                pd.DataFrame(
                    {"data": ratings.name, "side": side, "rank": (chosen + 1) / len(counts), "count": counts[chosen]}
                )
            )
    frame = pd.concat(frames, ignore_index=True)
    frame.attrs["datasets"] = identities
    return frame


def figure(frame, pairs=PAIRS):
    """Ratings per user (left) and per item (right), from the least to the most active, real set and twin.

    pairs : (real, twin) names of data sets; one that was not on the machine is left out
    """
    figure, axes = style.panels(columns=2, height=4.0)
    colours = iter(("blue", "red", "green", "purple"))
    for pair in pairs:
        colour = style.COLOURS[next(colours)]
        for name, line in zip(pair, ("-", "--"), strict=True):
            for axis, side in zip(axes[0], ("users", "items"), strict=True):
                counts = frame[(frame.data == name) & (frame.side == side)]
                if len(counts):
                    axis.plot(counts["rank"], counts["count"], line, color=colour, label=name)
    for axis, side in zip(axes[0], ("users", "items"), strict=True):
        axis.set(xlabel=f"share of the {side}", ylabel=f"ratings of one of the {side}")
        style.log_scale(axis.yaxis)
    style.legend(figure, axes[0, 0], 4)
    return figure


def summary(frame):
    """The least, the median and the largest count: a DataFrame with the index (data, side)."""
    return frame.groupby(["data", "side"], sort=False)["count"].agg(["min", "median", "max"])


FINDINGS = []
