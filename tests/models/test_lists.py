"""Neighbours by cosine, the diversity of lists, and ranks among drawn items, against their definitions."""

import numpy as np
import pytest

from gpumf import ALS, RBM, SGD, BayesianMF, ImplicitALS
from gpumf.models import lists
from gpumf.ratings import CompressedRows, Ratings
from support import ragged_ratings

RATINGS = ragged_ratings(n_users=30, n_items=20, longest=12, seed=4)


@pytest.mark.parametrize("kind", [ALS, SGD, ImplicitALS, RBM, BayesianMF])
@pytest.mark.parametrize("side", ["user", "item"])
def test_neighbours_are_those_of_the_largest_cosine(kind, side, device):
    model = kind(4, device="cpu" if kind is BayesianMF else device).fit(RATINGS, 2)
    vectors = model._vectors(side).astype(np.float64)
    known = getattr(model, f"_{side}_known")
    lengths = np.maximum(np.linalg.norm(vectors, axis=1), 1e-30)
    cosines = vectors @ vectors.T / lengths / lengths[:, None]
    some = np.flatnonzero(known)[:5]
    found, values = getattr(model, f"similar_{side}s")(some, 40)
    assert found.shape == values.shape == (5, len(vectors))  # there are no more to tell of
    for one, neighbours, near in zip(some, found, values, strict=True):
        there = neighbours[neighbours >= 0]
        assert set(there) == set(np.flatnonzero(known)) - {one}
        np.testing.assert_allclose(near[: len(there)], np.sort(cosines[one, there])[::-1], atol=1e-5)
        np.testing.assert_allclose(near[: len(there)], cosines[one, there], atol=1e-5)
    alone, _ = getattr(model, f"similar_{side}s")(int(some[0]), 3)
    assert np.array_equal(alone, found[0, :3])


def test_diversity_by_its_definition():
    model = ALS(4, device="cpu").fit(RATINGS, 2)
    items, _ = model.recommend(np.arange(30), 5, seen=())
    vectors = model._vectors("item") / np.linalg.norm(model._vectors("item"), axis=1, keepdims=True).clip(1e-30)
    pairs = [(i, j) for i in range(5) for j in range(5) if i != j]
    diversity = np.mean([np.mean([1 - vectors[row[i]] @ vectors[row[j]] for i, j in pairs]) for row in items])
    counts = RATINGS.item_counts
    found = model.list_diversity(5, seen=())
    assert found["coverage"] == len(np.unique(items)) / (counts > 0).sum()
    assert found["diversity"] == pytest.approx(diversity, abs=1e-5) and found["diversity"] > 0.01
    assert found["novelty"] == pytest.approx(-np.log2(counts[items] / RATINGS.nnz).mean())
    assert model.list_diversity(5, seen=(), users=[3])["coverage"] == 5 / (counts > 0).sum()


def test_ranks_among_drawn_items(monkeypatch):
    train, test = RATINGS.split(0.2, seed=1)
    model = ALS(4, device="cpu").fit(train, 2)
    found = model.evaluate_sampled(test, 3, negatives=50, seed=2)
    assert (
        found == model.evaluate_sampled(test, 3, negatives=50, seed=2) != model.evaluate_sampled(test, 3, 50, seed=3)
    )
    assert 0 < found["ndcg"] <= found["hit_rate"] < 1 and 0 < found["mrr"] < 1
    assert model.evaluate_sampled(test, 51, negatives=50)["hit_rate"] == 1
    monkeypatch.setattr(lists, "_DRAWS_AT_ONCE", 7 * 50)
    assert found == model.evaluate_sampled(test, 3, negatives=50, seed=2)
    # A model that knows the answers ranks each test item first.
    model._scores_at = lambda users, items: (np.isin(users * 20 + items, test.users * 20 + test.items)) * 1.0
    assert model.evaluate_sampled(test, 1) == {"hit_rate": 1, "ndcg": 1, "mrr": 1}


def test_only_items_drawn_anew_are_searched_again(monkeypatch):
    train, test = RATINGS.split(0.2, seed=1)
    model, searched, drawn = ALS(4, device="cpu").fit(train, 1), [], []
    holds, score = CompressedRows.holds, model._scores_at
    monkeypatch.setattr(CompressedRows, "holds", lambda rows, *of: searched.append(len(of[0])) or holds(rows, *of))
    model._scores_at = lambda users, items: drawn.append(items) or score(users, items)
    model.evaluate_sampled(test, negatives=50, seed=2)

    rng, known = np.random.default_rng(2), np.flatnonzero(train.item_counts)
    wanted, sizes = known[rng.integers(len(known), size=(test.nnz, 50))], [test.nnz * 50]
    while (rated := np.isin(test.users[:, None] * 20 + wanted, RATINGS.users * 20 + RATINGS.items)).any():
        wanted[rated] = known[rng.integers(len(known), size=rated.sum())]
        sizes.append(rated.sum())
    assert np.array_equal(drawn[0], wanted) and searched[::2] == searched[1::2] == sizes and len(sizes) > 3


def test_few_draws_are_in_memory_at_a_time(monkeypatch):
    train, test = RATINGS.split(0.2, seed=1)
    model, searched = ALS(4, device="cpu").fit(train, 1), []
    holds, pairs_of = CompressedRows.holds, test.users * 20 + test.items
    monkeypatch.setattr(CompressedRows, "holds", lambda rows, *of: searched.append(len(of[0])) or holds(rows, *of))
    monkeypatch.setattr(lists, "_DRAWS_IN_MEMORY", 7 * 50)
    met = []

    def only_the_test_set(users, items):
        met.append((users * 20 + items).ravel())
        return np.isin(users * 20 + items, pairs_of) * 1.0

    model._scores_at = only_the_test_set
    assert model.evaluate_sampled(test, 1, negatives=50, seed=2) == {"hit_rate": 1, "ndcg": 1, "mrr": 1}
    assert max(searched) == 7 * 50 and sum(map(len, met)) == test.nnz * 51
    assert not np.isin(np.concatenate(met), train.users * 20 + train.items).any()


def test_a_user_of_all_items_leaves_none_to_draw():
    train = Ratings([0, 0, 1], [0, 1, 1], [1, 2, 3], 2, 2)
    with pytest.raises(ValueError, match="nearly all"):
        ALS(1, device="cpu").fit(train, 1).evaluate_sampled(train.select([0]))
