"""The order of ratings that all cores make is the one of two counting sorts."""

import numpy as np
import pytest

from gpumf._util import threads
from gpumf.backends import compile
from gpumf.backends.cpu import order
from gpumf.ratings import Ratings

SETS = {
    "ragged": (70, 50, 4000),
    "one rating": (1, 1, 1),
    "one row": (1, 300, 900),
    "one column": (300, 1, 900),
    "more rows than ratings": (5000, 40, 300),
}


def random_ratings(n_users, n_items, nnz, seed=0):
    """Any pairs, many of them twice, whose ratings tell them apart."""
    rng = np.random.default_rng(seed)
    users = rng.integers(0, max(n_users // 2, 1), nnz) * 2 % n_users  # every other user has none
    return Ratings(users, (rng.random(nnz) ** 3 * n_items).astype(int), np.arange(nnz), n_users, n_items)


@pytest.fixture(autouse=True)
def _compiler():
    if compile.library("order.cpp") is None:
        pytest.skip("C++ does not compile here")


@pytest.mark.parametrize("cores", [1, 2, 3, 7])
@pytest.mark.parametrize("name", SETS)
def test_all_cores_make_the_order_of_counting_sorts(name, cores, monkeypatch):
    expected, ratings = random_ratings(*SETS[name]), random_ratings(*SETS[name])
    monkeypatch.setattr(threads, "count", lambda: cores)
    assert ratings.nnz < order.LEAST  # by counting sorts
    pairs = [(expected.by_user, "by_user"), (expected.by_item, "by_item")]
    monkeypatch.setattr(order, "LEAST", 0)
    for right, side in pairs:
        made = getattr(ratings, side)
        for column in ("indptr", "indices", "values"):
            a, b = getattr(made, column), getattr(right, column)
            assert np.array_equal(a, b) and a.dtype == b.dtype


def test_large_sets_take_all_cores_and_others_do_without_a_compiler(monkeypatch):
    called, compressed = [], order.compressed
    monkeypatch.setattr(order, "compressed", lambda *arrays: called.append(1) or compressed(*arrays))
    ratings = random_ratings(900, 700, order.LEAST)
    assert (np.diff(ratings.by_user.indptr) == ratings.user_counts).all() and called == [1]
    monkeypatch.setattr(order, "_compress", lambda: None)
    again = random_ratings(900, 700, order.LEAST)
    assert np.array_equal(again.by_user.values, ratings.by_user.values) and called == [1, 1]
