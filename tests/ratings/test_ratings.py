"""What the constructor of a rating set refuses."""

import numpy as np
import pytest

from gpumf.ratings import DataError, Ratings

GOOD = {"users": [0, 1, 2], "items": [1, 0, 1], "values": [1.0, 2.5, 4.0], "n_users": 3, "n_items": 2}
WRONG = {
    "user below": ({"users": [0, -1, 2]}, "users must lie in 0..2; number 1 is -1"),
    "user beyond": ({"users": [0, 1, 3]}, "number 2 is 3"),
    "user beyond 32 bits": ({"users": np.array([0, 1, 2**32])}, "number 2 is 4294967296"),
    "item beyond": ({"items": [1, 2, 0]}, "items must lie in 0..1; number 1 is 2"),
    "half a user": ({"users": [0, 0.5, 1]}, "users must be integers"),
    "no number for a user": ({"users": [0, np.nan, 1]}, "number 1 is nan"),
    "strings": ({"users": ["0", "1", "2"]}, "users must be integers, not <U1"),
    "objects": ({"values": np.array([1, None, 2], object)}, "values must be numbers, not object"),
    "numbers as strings": ({"values": ["1", "2", "3"]}, "values must be numbers"),
    "complex": ({"values": [1j, 1, 2]}, "values must be numbers"),
    "fewer values": ({"values": [1.0, 2.0]}, "one dimension"),
    "fewer items": ({"items": [1, 0]}, "one dimension"),
    "two dimensions": ({name: [GOOD[name]] for name in ("users", "items", "values")}, "one dimension"),
    "no users": ({"n_users": 0}, "n_users must be an integer from 1"),
    "a fraction of users": ({"n_users": 3.0}, "n_users must be an integer"),
    "too many items": ({"n_items": 2**31}, "n_items must be an integer"),
    "fewer ids": ({"user_ids": np.arange(2)}, "2 user_ids, not 3"),
    "a short mask": ({"test_mask": np.zeros(2, bool)}, "one dimension"),
    "a scale upside down": ({"scale": (5, 1)}, "scale must be"),
    "an infinite scale": ({"scale": (1, np.inf)}, "scale must be"),
    "a scale without a lowest": ({"scale": (-np.inf, 5)}, "scale must be"),
    "a scale of nothing": ({"scale": (np.nan, 5)}, "scale must be"),
    "a scale of three": ({"scale": (1, 2, 3)}, "scale must be"),
}


@pytest.mark.parametrize("what", WRONG)
def test_columns_that_do_not_fit_are_refused(what):
    Ratings(**GOOD)
    changed, message = WRONG[what]
    with pytest.raises(DataError, match=message):
        Ratings(**GOOD | changed)


def test_columns_are_taken_as_they_are_meant():
    ratings = Ratings(**GOOD | {"users": np.array([0.0, 1.0, 2.0]), "items": np.array([1, 0, 1], np.uint64)})
    assert ratings.users.dtype == ratings.items.dtype == np.int32 and ratings.values.dtype == np.float32
    assert ratings.users.tolist() == [0, 1, 2] and ratings.items.tolist() == [1, 0, 1]
    empty = ratings.select(np.zeros(3, bool))
    assert empty.nnz == 0 and Ratings([], [], [], 3, 2).nnz == 0
