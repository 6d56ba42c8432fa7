"""How unevenly ratings fall on users and on items: the counts of a set and of its twin."""

import numpy as np
import pandas as pd

from gpumf.experiments import identity, present_ratings

PROFILES = {
    "quick": {"data": ["ml-100k", "ml-100k-twin", "jester-1", "jester-twin"], "points": 200},
    "full": {"data": ["ml-100k", "ml-100k-twin", "jester-1", "jester-twin", "douban-twin"], "points": 200},
}


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
