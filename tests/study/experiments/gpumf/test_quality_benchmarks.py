"""Which training ratings choose parameters on the standard benchmarks."""

import numpy as np

from gpumf.ratings import synthetic_ratings
from gpumf_study.experiments.gpumf import quality_benchmarks


def test_a_fifth_of_each_users_ratings_is_held_out():
    ratings = synthetic_ratings("ml-100k")
    known, held = quality_benchmarks._fifth_of_each(ratings, 0)
    assert np.array_equal(known.user_counts, ratings.user_counts * 4 // 5)
    assert np.array_equal(known.user_counts + held.user_counts, ratings.user_counts)
    pairs = [set(zip(of.users.tolist(), of.items.tolist(), strict=True)) for of in (known, held)]
    assert not pairs[0] & pairs[1]
    other = quality_benchmarks._fifth_of_each(ratings, 1)[1]
    assert not np.array_equal(other.items, held.items)
