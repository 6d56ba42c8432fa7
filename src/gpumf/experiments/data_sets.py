"""The statistics of the data sets and of their twins, beside the published ones (thesis, Tables 6.1 and 6.2)."""

import pandas as pd

from gpumf import datasets
from gpumf.experiments import identity

PROFILES = {
    "quick": {"data": ["ml-100k", "ml-100k-twin", "jester-1", "jester-twin", "douban-twin"]},
    "full": {
        "data": [
            "ml-100k",
            "ml-100k-twin",
            "ml-1m-twin",
            "ml-10m-twin",
            "ml-20m-twin",
            "jester-1",
            "jester-twin",
            "douban-twin",
        ]
    },
}


def run(data):
    """Describe the sets that are on this machine and the twins.

    Returns
    -------
    DataFrame with a row a set, the columns of `datasets.describe`
    """
    present = datasets.names().present
    frames, identities = [], []
    for name in data:
        if name.endswith("-twin") or present.get(name):
            ratings = datasets.load(name)
            identities.append(identity(ratings))
            frames.append(datasets.describe(ratings))
    frame = pd.concat(frames)
    frame.attrs["datasets"] = identities
    return frame.reset_index()
