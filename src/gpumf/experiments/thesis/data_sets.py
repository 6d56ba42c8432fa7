"""The statistics of the data sets and of their twins, beside the published ones (thesis, Tables 6.1 and 6.2)."""

import pandas as pd

from gpumf import datasets
from gpumf.experiments import identity, present_ratings

_REAL = ["ml-100k", "ml-latest-small", "jester-1", "douban-monti"]

PROFILES = {
    "quick": {"data": [*_REAL, "ml-100k-twin", "ml-1m-twin", "jester-twin", "douban-twin"]},
    "full": {
        "data": [
            *_REAL,
            *("ml-100k-twin", "ml-1m-twin", "ml-10m-twin", "ml-20m-twin", "jester-twin", "douban-twin"),
            "netflix-twin",
        ]
    },
}


def run(data):
    """Describe the sets that are on this machine, the twins, and what is published of either.

    Returns
    -------
    DataFrame with a row a set and source: data, source ('published', 'real' or 'twin'), and the columns of
    `datasets.describe`
    """
    frames, identities = [], []
    for ratings in present_ratings(data):
        identities.append(identity(ratings))
        source = "twin" if ratings.name.endswith("-twin") else "real"
        frames.append(datasets.describe(ratings).assign(source=source))
    frame = pd.concat([datasets.published().assign(source="published"), *frames])
    frame.insert(0, "data", frame.index.str.removesuffix("-twin"))
    frame.insert(1, "source", frame.pop("source"))
    frame = frame.sort_values(["data", "source"], kind="stable", ignore_index=True)
    frame.attrs["datasets"] = identities
    return frame
