"""How many ratings users and items have."""

import numpy as np
import pandas as pd

from gpumf.ratings import load_dataset
from gpumf_study.experiments.gpumf import rating_counts


def test_counts_are_summed_up_by_quantiles():
    counts = pd.DataFrame({"data": "a", "side": "users", "count": [1, 2, 9], "rank": [0.3, 0.6, 1.0]})
    assert rating_counts.summary(counts).loc[("a", "users")].to_list() == [1, 2, 9]


def test_counts_are_those_of_the_ratings():
    frame = rating_counts.run(["ml-100k-synthetic"], 10**6)
    ratings = load_dataset("ml-100k-synthetic")
    for side, rows, n in (("users", ratings.users, ratings.n_users), ("items", ratings.items, ratings.n_items)):
        found = frame[frame.side == side]
        assert found["count"].tolist() == np.sort(np.bincount(rows, minlength=n)).tolist()
        np.testing.assert_allclose(found["rank"], np.arange(1, n + 1) / n)
