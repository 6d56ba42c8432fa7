"""What the hidden units of a Boltzmann machine have learned: the items that excite each most, and least.

A unit is excited by the weights of the levels that a user gave. For an item, W_iKj - W_i1j is how much more the best
rating excites unit j than the worst one does. Of the units, those are shown that tell users apart best.

Whether the items of a unit belong together is asked of the ratings, not of the model: the mean correlation, over
pairs of these items, between the ratings of users who rated both.
"""

from itertools import combinations

import numpy as np
import pandas as pd

from gpumf import RBM
from gpumf.ratings import item_titles
from gpumf_study import figure_style as style
from gpumf_study.experiments import identity, load_ratings
from gpumf_study.experiments.gpumf.blend_ml100k import FIXED

_MODEL = FIXED["RBM"] | {"learning_rate": 0.1, "weight_decay": 0.01}
_FEWEST_COMMON = 20  # users who rated both items, for a correlation to count

PROFILES = {
    "quick": {
        "data": ["ml-100k"],
        "hidden": 32,
        "epochs": 40,
        "units": 4,
        "shown": 6,
        "max_rated": 200,
        "kernel": "sequential",
    },
    "full": {
        "data": ["ml-100k", "ml-latest-small", "jester-1"],
        "hidden": 64,
        "epochs": 100,
        "units": 6,
        "shown": 8,
        "max_rated": 300,
        "kernel": None,
    },
}
PROFILES["smoke"] = PROFILES["quick"] | {
    "data": ["ml-100k-synthetic"],
    "hidden": 8,
    "epochs": 2,
    "units": 2,
    "shown": 3,
    "max_rated": 20,
}


def run(data, hidden, epochs, units, shown, max_rated, kernel):
    """Train, and list the items of the units with the largest spread over users.

    Parameters
    ----------
    data : names of data sets
    hidden, epochs : int
    units : int, how many to show of each set
    shown : int, how many items of each end of a unit
    max_rated : int, items that come into question: those with the most ratings, of which a reader may know some
    kernel : of RBM; None for the fastest of this machine

    Returns
    -------
    DataFrame with a row an item: data, unit, spread (standard deviation over users of the unit's probability), end
    ('most' or 'least' excited by a good rating), rank (from 1), item (original id), title (the id where the set's
    files give none), count (of the item's ratings), weight (W_iKj - W_i1j), correlation (of the ratings of the items
    of this end, see above), correlation_of_all (of all items in question)
    """
    rows, identities = [], []
    for name in data:
        ratings = load_ratings(name)
        identities.append(identity(ratings))
        model = RBM(hidden, solver=kernel, **_MODEL).fit(ratings, epochs)
        titles = item_titles(ratings.name)
        counts = np.bincount(ratings.items, minlength=ratings.n_items)
        candidates = np.argsort(-counts, kind="stable")[:max_rated]
        correlations = _correlations(ratings, candidates)
        spread = model.user_hidden.std(axis=0)
        for unit in np.argsort(-spread)[:units]:
            weight = (model.item_weights[candidates, -1] - model.item_weights[candidates, 0])[:, unit]
            order = np.argsort(-weight)
            for end, chosen in (("most", order[:shown]), ("least", order[::-1][:shown])):
                together = np.nanmean([correlations[pair] for pair in combinations(chosen, 2)])
                for rank, k in enumerate(chosen, start=1):
                    item = ratings.item_ids[candidates[k]]
                    title = f"item {item}" if titles is None else titles[item]
                    what = ratings.name, unit, spread[unit], end, rank, item, title, counts[candidates[k]]
                    rows.append((*what, weight[k], together, np.nanmean(correlations)))
    columns = ["data", "unit", "spread", "end", "rank", "item", "title", "count", "weight"]
    frame = pd.DataFrame(rows, columns=[*columns, "correlation", "correlation_of_all"])
    frame.attrs["datasets"] = identities
    return frame


def _correlations(ratings, items):
    """Of the ratings of each pair of items, over users who rated both; NaN for few users and on the diagonal."""
    values = np.full((ratings.n_users, len(items)), np.nan, np.float32)
    place = np.full(ratings.n_items, -1)
    place[items] = np.arange(len(items))
    columns = place[ratings.items]
    values[ratings.users[columns >= 0], columns[columns >= 0]] = ratings.values[columns >= 0]
    frame = pd.DataFrame(values)
    # What a user gives to everything says nothing of the items.
    frame = frame.sub(frame.mean(axis=1), axis=0)
    result = frame.corr(min_periods=_FEWEST_COMMON).to_numpy(copy=True)
    np.fill_diagonal(result, np.nan)
    return result


def lists(frame):
    """The mean correlation of each list, and of all items of its set: a DataFrame indexed (data, unit, end)."""
    return frame.groupby(["data", "unit", "end"], sort=False)[["correlation", "correlation_of_all"]].first()


def summary(frame):
    """Whether the items of a list belong together, from the frame of `run`.

    Returns
    -------
    DataFrame with the index data: share (of the lists that agree better than items do on average), correlation
    (mean over the lists), correlation_of_all
    """
    table = lists(frame)
    table = table.assign(share=(table.correlation > table.correlation_of_all).astype(float))
    return table.groupby("data", sort=False).mean()


def figure(frame):
    """The mean correlation of each list of items (a dot), and of all items (a line), a data set each."""
    table = lists(frame)
    names = table.index.unique("data")
    figure, (axes,) = style.panels(columns=len(names), height=3.2, sharey=True)
    for axis, name in zip(axes, names, strict=True):
        ends = table.loc[name].reset_index()
        axis.plot(ends.correlation, "unit " + ends.unit.astype(str), "o", color=style.COLOURS["blue"], label="a list")
        axis.axvline(ends.correlation_of_all[0], color=style.COLOURS["orange"], label="all items")
        axis.set(xlabel="mean correlation of two items", title=name)
    style.legend(figure, axes[0], 2)
    return figure


FINDINGS = []
