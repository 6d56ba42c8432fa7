"""Lists of candidates for each user, and lists longer than the catalogue, against brute force."""

import tracemalloc

import numpy as np
import pytest

from gpumf import ALS, RBM, SGD, Blend, ImplicitALS
from gpumf.models import ranking
from gpumf.ratings import Ratings
from support import ragged_ratings

TRAIN = ragged_ratings(n_users=30, n_items=20, longest=12, seed=4)
NAMED = [f"u{u}" for u in TRAIN.users], [f"i{i}" for i in TRAIN.items], TRAIN.values
# Twice the same user, and one without a rating.
USERS = np.array([3, 7, 3, 11, 0, 29, int(np.argmin(TRAIN.user_counts))])


def fitted(device):
    """Every kind of model, and a blend, on a device."""
    models = [kind(4, device=device).fit(TRAIN, 2) for kind in (ALS, SGD, ImplicitALS, RBM)]
    return [*models, Blend(models[0], models[3], weights=[0.3, 0.7])]


def drawn(n, longest, seed):
    """A list of items for each of n users, some of them empty, some with items twice."""
    rng = np.random.default_rng(seed)
    return [rng.integers(0, TRAIN.n_items, rng.integers(0, longest + 1)) for _ in range(n)]


def one_at_a_time(model, users, k, candidates=None, filter_items=None, **options):
    """What each user is recommended whose lists are given for this user alone, padded to k items."""
    items, ratings = np.full((len(users), k), -1), np.full((len(users), k), np.nan, np.float32)
    for row, user in enumerate(users):
        own = {"candidates": candidates, "filter_items": filter_items}
        own = {name: lists[row] for name, lists in own.items() if lists is not None}
        alone, rated = model.recommend(int(user), k, **own, **options)
        items[row, : len(alone)], ratings[row, : len(alone)] = alone, rated
    return items, ratings


def brute_force(model, user, candidates, filter_items, seen):
    """The items, best first, by predictions for all of them; by popularity where these are all the same."""
    items = [i for i in np.unique(candidates) if TRAIN.item_counts[i] and i not in filter_items and i not in seen]
    scores = model.predict(user, items) if model._personalized()[user] else TRAIN.item_counts[items]
    return np.array(items, int)[np.argsort(-scores, kind="stable")], scores


@pytest.mark.parametrize("rounds", ["one round", "many rounds"])
def test_every_user_has_candidates_of_its_own(device, monkeypatch, rounds):
    if rounds == "many rounds":
        monkeypatch.setattr(ranking, "_MAX_CELLS", 2 * TRAIN.n_items)  # two users at a time
    candidates, left_out = drawn(len(USERS), 15, 1), drawn(len(USERS), 6, 2)
    for model in fitted(device):
        for own in (
            {"candidates": candidates},
            {"filter_items": left_out},
            {"candidates": candidates, "filter_items": left_out},
        ):
            for seen in (None, ()):
                items, ratings = model.recommend(USERS, 9, seen, **own)
                expected, scores = one_at_a_time(model, USERS, 9, **own, seen=seen)
                np.testing.assert_array_equal(items, expected)
                np.testing.assert_allclose(ratings, scores, rtol=1e-5)
        items, _ = model.recommend(USERS, 9, candidates=candidates, filter_items=left_out)
        for row, user in enumerate(USERS):
            rated = TRAIN.items[TRAIN.users == user]
            expected, scores = brute_force(model, user, candidates[row], left_out[row], rated)
            there = items[row][items[row] >= 0]
            assert len(there) == min(9, len(expected))
            if len(np.unique(scores)) == len(scores):  # of close ones, rounding says which is first
                assert set(there) == set(expected[: len(there)])
                np.testing.assert_allclose(
                    model.predict(user, there), model.predict(user, expected[: len(there)]), rtol=1e-5, atol=1e-6
                )


def test_one_list_for_all_goes_with_one_for_each(device):
    candidates, left_out = drawn(len(USERS), 15, 1), [1, 2, 3]
    for model in fitted(device):
        found, _ = model.recommend(USERS, 5, candidates=candidates, filter_items=left_out)
        expected, _ = model.recommend(USERS, 5, candidates=candidates, filter_items=[left_out] * len(USERS))
        assert np.array_equal(found, expected) and not np.isin(found, left_out).any()


def test_rank_takes_lists_for_each_user(device):
    train, test = TRAIN.split(0.3, seed=1)
    users = np.array([3, 7, 11, 0, 29, 5])
    candidates = drawn(len(users), 18, 3)
    for model in (ALS(4, device=device).fit(train, 2), RBM(4, device=device).fit(train, 2)):
        each = []
        for user, own in zip(users, candidates, strict=True):
            if (test.users == user).any():
                each.append(list(model.evaluate_ranking(test, 4, users=[user], candidates=own).values()))
        found = model.evaluate_ranking(test, 4, users=users, candidates=candidates)
        assert each and list(found.values()) == pytest.approx(np.mean(each, axis=0).tolist())
        assert found != model.evaluate_ranking(test, 4, users=users)


@pytest.mark.parametrize("named", [False, True])
def test_lists_are_ids_where_the_model_speaks_ids(named):
    model = ALS(4, device="cpu").fit(NAMED if named else TRAIN, 2)
    users = ["u3", "u7"] if named else [3, 7]

    def item(k):
        return f"i{k}" if named else k

    for lists in (
        [[item(1), item(4)], [item(5)]],
        [{item(1), item(4)}, (item(5),)],
        [np.array([item(1), item(4)]), [item(5)]],
        np.array([[item(1), item(4)], [item(5), item(5)]]),
        np.array([[item(1), item(4)], [item(5)]], object),
    ):
        items, _ = model.recommend(users, 3, seen=(), candidates=lists)
        assert items.shape == (2, 3)
        assert {*items[0][:2].tolist()} == {item(1), item(4)} and items[1][0] == item(5)
        assert {*items[0][2:].tolist(), *items[1][1:].tolist()} == {None if named else -1}
    nobody, _ = model.recommend(users, 3, candidates=[[], []])
    assert (nobody == (None if named else -1)).all()
    every, _ = model.recommend(users, 3, filter_items=[[], []])
    assert np.array_equal(every, model.recommend(users, 3)[0])


def test_lists_that_do_not_go_with_the_users_are_refused():
    model = ALS(4, device="cpu").fit(TRAIN, 2)
    for users, lists, words in (
        (3, [[1, 2], [3]], "candidates must be one list of items, not 2 lists"),
        (3, [[1, 2]], "candidates must be one list of items, not 1 lists"),
        ([3, 7], [[1, 2]], "candidates must be one list, or one for each of 2, of items, not 1 lists"),
        ([3, 7], np.ones((3, 2), int), "one for each of 2, of items, not 3 lists"),
        ([3, 7], [[1, 2], 3], "all lists or all items"),
        ([3, 7], [[[1]], [[2]]], "all lists or all items"),
    ):
        with pytest.raises(ValueError, match=words):
            model.recommend(users, candidates=lists)
    with pytest.raises(IndexError, match=r"item positions must lie in 0..19"):
        model.recommend([3, 7], candidates=[[1], [20]])
    with pytest.raises(TypeError, match="item positions must be integers"):
        model.recommend([3, 7], filter_items=[[1], ["a"]])
    with pytest.raises(ValueError, match="filter_items must be one list of items"):
        model.recommend(ratings={1: 4.0}, filter_items=[[1], [2]])
    with pytest.raises(KeyError, match="'x'"):
        ALS(2, device="cpu").fit(NAMED, 1).similar_items(["i1", "i2"], candidates=[["i1"], ["x"]])


def test_new_users_have_candidates_of_their_own(device):
    new = Ratings([0, 0, 1, 2], [1, 4, 5, 6], [5, 1, 3, 4], 3, TRAIN.n_items)
    model = ALS(4, device=device).fit(TRAIN, 2)
    candidates = drawn(3, 15, 5)
    items, _ = model.recommend(ratings=new, k=6, candidates=candidates)
    expected, _ = one_at_a_time(model.fold_in(new), np.arange(3), 6, candidates)
    assert np.array_equal(items, expected)


def test_similar_items_are_chosen_from_candidates(device):
    places, k = np.array([1, 4, 1, 9]), 7
    candidates, left_out = drawn(4, 15, 6), drawn(4, 5, 7)
    for model in fitted(device)[:-1]:
        every, cosines = model.similar_items(places, TRAIN.n_items)
        for own in ({"candidates": candidates}, {"filter_items": left_out, "candidates": candidates[0]}):
            chosen, left = own["candidates"], own.get("filter_items", [[]] * 4)
            found, near = model.similar_items(places, k, **own)
            for row in range(4):
                among = chosen[row] if isinstance(chosen, list) else chosen
                kept = np.isin(every[row], among) & ~np.isin(every[row], left[row]) & (every[row] >= 0)
                there = found[row] >= 0
                assert there.sum() == min(k, kept.sum())
                np.testing.assert_allclose(near[row][there], cosines[row][kept][:k], rtol=1e-5, atol=1e-6)
                np.testing.assert_array_equal(found[row][there], every[row][kept][:k])
        alone, _ = model.similar_items(4, k, candidates=candidates[1])
        assert np.array_equal(alone, model.similar_items([4], k, candidates=[candidates[1]])[0][0][: len(alone)])


def test_lists_are_at_most_as_long_as_the_catalogue(device):
    train, test = TRAIN.split(0.3, seed=1)
    for model in (ALS(4, device=device).fit(train, 1), RBM(4, device=device).fit(train, 1)):
        tracemalloc.start()
        items, ratings = model.recommend([1, 2, 3], k=10**7)
        found, near = model.similar_items([1, 2], k=2**31 - 1)
        people, _ = model.similar_users([1, 2], k=10**7)
        metrics = model.evaluate_ranking(test, k=10**7)
        model.list_diversity(k=10**7)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert items.shape == ratings.shape == (3, 20) and found.shape == near.shape == (2, 20)
        assert people.shape == (2, 30) and metrics == pytest.approx(model.evaluate_ranking(test, k=20))
        assert most < 50e6  # ten million columns of three users take 120 MB
    blend = Blend(model, weights=[1])
    assert blend.recommend([1, 2, 3], k=10**7)[0].shape == (3, 20)
    assert blend.evaluate_ranking(test, k=10**7) == pytest.approx(blend.evaluate_ranking(test, k=20))
    explained = ImplicitALS(2, device="cpu").fit(train, 1).explain(int(train.users[0]), 1, k=10**7)
    assert len(explained[1]) <= 20
