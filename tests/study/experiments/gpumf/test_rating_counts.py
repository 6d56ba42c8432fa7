"""How many ratings users and items have."""

import numpy as np

from gpumf.ratings import load_dataset
from gpumf_study import schema
from gpumf_study.experiments.gpumf import rating_counts


def test_counts_are_those_of_the_ratings():
    frame = schema.validated(rating_counts.run(["ml-100k-synthetic"], 10**6))
    ratings = load_dataset("ml-100k-synthetic")
    for side, rows, n in (("users", ratings.users, ratings.n_users), ("items", ratings.items, ratings.n_items)):
        found = frame[frame.x_side == side]
        assert found.value.tolist() == np.sort(np.bincount(rows, minlength=n)).tolist()
        np.testing.assert_allclose(found.x_rank, np.arange(1, n + 1) / n)
