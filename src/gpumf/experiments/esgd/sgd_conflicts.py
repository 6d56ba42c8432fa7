"""How often updates meet: ESGD's formulas, what is drawn, and the share of updates lost in runs of Hogwild.

For a number of updates at a time, four shares of those that share their user or item with another one at that time:
by the probability that esgd publishes (section 3: independent entries of a matrix that is taken to be square), by the
same count for the true shape, among ratings of a real set (whose popular rows both forget), and, of updates that the
kernel of the SGD chapters makes, how many are in fact overwritten, in random orders of its memory accesses on the
processor (see `race_demonstration`).
"""

import numpy as np
import pandas as pd

from gpumf.experiments import identity, load_ratings
from gpumf.experiments.gpumf import race_demonstration
from gpumf.models.sgd.esgd import independence_probability

PROFILES = {
    "quick": {
        "data": ["ml-100k", "jester-1"],
        "at_once": [2, 4, 8, 16, 32],
        "draws": 2000,
        "seeds": 3,
        "traced": 400,
    },
    "full": {
        "data": ["ml-100k", "jester-1", "netflix-twin"],
        "at_once": [2, 4, 8, 16, 32],
        "draws": 20_000,
        "seeds": 10,
        "traced": 600,
    },
}


def run(data, at_once, draws, seeds, traced):
    """Count meetings.

    Parameters
    ----------
    data : names of data sets
    at_once : list of int, 2 to 64: updates at a time
    draws : int, sets of so many ratings that are drawn with replacement
    seeds, traced : int, runs of the kernel with so many groups, and updates of each

    Returns
    -------
    DataFrame with a row a share: data, at_once, how ('published', 'true shape', 'drawn', 'overwritten'), seed (of a
    run of the kernel; 0 elsewhere), share. Of the first three: the share of sets in which any two updates meet; of
    the last one: the share of the writes of a factor that are over another group's.
    """
    rows, identities = [], []
    for name in data:
        ratings = load_ratings(name)
        identities.append(identity(ratings))
        shape = ratings.n_users, ratings.n_items
        for n in at_once:
            rows.append((ratings.name, n, "published", 0, 1 - independence_probability(*shape, n)))
            rows.append((ratings.name, n, "true shape", 0, 1 - independence_probability(*shape, n, square=False)))
            rows.append((ratings.name, n, "drawn", 0, _share_that_meets(ratings, n, draws)))
            for seed in range(seeds):
                rows.append((ratings.name, n, "overwritten", seed, _overwritten(ratings, n, traced, seed)))
    frame = pd.DataFrame(rows, columns=["data", "at_once", "how", "seed", "share"])
    frame.attrs["datasets"] = identities
    return frame


def _share_that_meets(ratings, n, draws):
    """The share of sets of n drawn ratings in which two share a user or an item."""
    drawn = np.random.default_rng(n).integers(0, ratings.nnz, (draws, n))
    repeated = (np.diff(np.sort(rows[drawn], axis=1), axis=1) == 0 for rows in (ratings.users, ratings.items))
    return float(np.logical_or(*(r.any(axis=1) for r in repeated)).mean())


def _overwritten(ratings, groups, n_updates, seed):
    """The share of writes lost when so many groups update at a time, in the order of a seed."""
    start = [np.full((rows, 1), 0.1, np.float32) for rows in (ratings.n_users, ratings.n_items)]
    settings = race_demonstration.RATE, race_demonstration.REGULARIZATION, seed, n_updates, groups, seed
    _, _, trace = race_demonstration.updates(ratings, *start, *settings)
    return race_demonstration.lost_share(trace)
