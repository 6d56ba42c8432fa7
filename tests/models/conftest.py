"""Ratings that the tests of models share."""

import pytest

from support import ragged_ratings


@pytest.fixture(scope="module")
def sets():
    return ragged_ratings(n_users=200, n_items=120, longest=100, seed=11).split(0.2, seed=1)
