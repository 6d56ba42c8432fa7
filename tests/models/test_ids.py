"""Models speak of users and items as their data do: by ids, or by positions."""

import numpy as np
import pandas as pd
import pytest

from gpumf import ALS, RBM, SGD, BayesianMF, Blend, ImplicitALS
from gpumf.ratings import Ratings
from support import ragged_ratings

RATINGS = ragged_ratings(n_users=30, n_items=20, longest=12, seed=4)
USERS, ITEMS = np.unique(RATINGS.users), np.unique(RATINGS.items)
FRAME = pd.DataFrame(
    {"user": [f"u{u:02}" for u in RATINGS.users], "item": RATINGS.items * 10 + 5, "rating": RATINGS.values}
)
# Two trainings of a model are compared: not with a solver of SGD that races.
MODELS = [ALS(3, device="cpu"), ImplicitALS(3, device="cpu"), SGD(3, solver="ordered"), RBM(4, device="cpu")]
MODELS.append(BayesianMF(3))
EACH = pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)


@EACH
def test_ids_in_and_ids_out(model):
    model.fit(FRAME, 1)
    assert model.ids and model.user_ids[0] == f"u{USERS[0]:02}" and model.item_ids[1] == ITEMS[1] * 10 + 5
    name, place = model.user_ids[4], 4
    items, ratings = model.recommend(name, 4)
    places, same = model.recommend(place, 4, ids=False)
    assert np.array_equal(items, model.item_ids[places]) and np.array_equal(ratings, same)
    np.testing.assert_allclose(model.predict(name, items), ratings, rtol=1e-5)
    assert not set(items) & set(FRAME.item[FRAME.user == name])
    many, _ = model.recommend([name, model.user_ids[0]], 4)
    assert np.array_equal(many[0], items)
    with pytest.raises(KeyError, match=r"'nobody'.*new users"):
        model.recommend("nobody")
    with pytest.raises(KeyError, match=r"no item .* 7;"):
        model.predict(name, 7)


@EACH
def test_ratings_and_matrices_go_by_positions(model):
    ratings = Ratings.from_pandas(FRAME)
    model.fit(ratings, 1)
    assert not model.ids
    items, _ = model.recommend(4, 3)
    assert items.max() < ratings.n_items
    assert np.array_equal(model.recommend(ratings.user_ids[4], 3, ids=True)[0], ratings.item_ids[items])
    with pytest.raises(TypeError, match="pass ids=True"):
        model.recommend("u04")
    assert np.array_equal(
        model.fit(ratings, 1, ids=True).recommend(ratings.user_ids[4], 3)[0], ratings.item_ids[items]
    )
    model.fit(RATINGS, 1)
    assert model.user_ids is None and np.array_equal(model.recommend(4, 3)[0], model.recommend(4, 3, ids=True)[0])


@EACH
def test_training_on_by_positions_keeps_the_ids(model):
    ratings = Ratings.from_pandas(FRAME)
    positions = Ratings(ratings.users, ratings.items, ratings.values, ratings.n_users, ratings.n_items)
    model.fit(FRAME, 1)
    names, items = FRAME.user.to_numpy(), FRAME.item.to_numpy()
    predicted, user_ids, item_ids = model.predict(names, items), model.user_ids, model.item_ids
    model.fit(positions, 0, warm_start=True)
    assert model.ids and np.array_equal(model.predict(names, items), predicted)
    assert np.array_equal(model.user_ids, user_ids) and np.array_equal(model.item_ids, item_ids)


def test_sgd_goes_on_with_the_ids_of_its_model_and_of_new_users():
    als = ALS(3, device="cpu").fit(FRAME, 2)
    model = SGD.from_model(als, solver="sequential")
    names, items = FRAME.user.to_numpy(), FRAME.item.to_numpy()
    np.testing.assert_allclose(model.predict(names, items), als.predict(names, items), rtol=1e-6)
    assert model.ids and np.array_equal(model.recommend("u07", 5)[0], als.recommend("u07", 5)[0])
    before = model.user_factors.copy()
    model.partial_fit(FRAME[FRAME.user == "u07"])
    assert model.user_ids[(before != model.user_factors).any(axis=1)].tolist() == ["u07"]

    n_users, n_items = model._shape
    users, places, values = [n_users, n_users], [0, 1], [5, 3]
    with pytest.raises(ValueError, match="by ids, and the 1 new ones have none"):
        model.partial_fit(Ratings(users, places, values, n_users + 1, n_items))
    assert model.ids and len(model.user_ids) == n_users
    named = {"user_ids": np.append(model.user_ids, "zoe"), "item_ids": model.item_ids}
    model.partial_fit(Ratings(users, places, values, n_users + 1, n_items, **named))
    assert model.user_ids[-1] == "zoe" and np.array_equal(model.item_ids, als.item_ids)


def test_sgd_of_a_model_from_a_file_knows_what_users_rated(tmp_path):
    als = ALS(3, device="cpu").fit(FRAME, 2)
    als.save(tmp_path / "m.npz", seen=True)
    model = SGD.from_model(ALS.load(tmp_path / "m.npz", device="cpu"))
    assert np.array_equal(model.recommend("u07", 5)[0], als.recommend("u07", 5)[0])


def test_sgd_leaves_out_what_it_learned_of_since_it_was_loaded(tmp_path):
    SGD(3, device="cpu").fit(FRAME, 2).save(tmp_path / "m.npz", seen=True)
    model = SGD.load(tmp_path / "m.npz", device="cpu")
    counts, first = model._item_counts.copy(), model.recommend("u07", 1)[0][0]
    model.partial_fit((["u07"], [first], [5]))
    assert first not in model.recommend("u07", 40)[0] and (model._item_counts - counts).sum() == 1
    model.partial_fit((["u07"], [first], [4]))
    assert (model._item_counts - counts).sum() == 1, "what is rated again counts once"
    model.save(tmp_path / "again.npz", seen=True)
    assert first not in SGD.load(tmp_path / "again.npz", device="cpu").recommend("u07", 40)[0]

    n_users, n_items = model._shape
    named = {
        "user_ids": np.append(model.user_ids, "zoe"),
        "item_ids": np.append(model.item_ids, model.item_ids[-1] + 1),
    }
    model.partial_fit(Ratings([n_users] * 2, [0, n_items], [5, 3], n_users + 1, n_items + 1, **named))
    lists = model.recommend(model.user_ids, n_items + 1)[0]
    assert not set(model.item_ids[[0, n_items]]) & set(lists[-1]) and model._item_counts[n_items] == 1


def test_sgd_and_als_count_a_pair_that_is_rated_again_once():
    for kind in (SGD, ALS):
        model = kind(3, device="cpu").fit(FRAME, 2)
        counts = model._item_counts.copy()
        model.partial_fit(FRAME[:5].assign(rating=1))
        assert np.array_equal(model._item_counts, counts) and model._training.nnz == len(FRAME)
        assert (model._training.values == 1).sum() >= 5


def test_wide_and_narrow_integer_ids_come_together():
    ids = np.array([2**63 + 5, 17, 2**60 + 1], np.uint64)
    columns = ids[[0, 1, 2, 0]], [1, 2, 3, 2], [5, 3, 4, 2]
    model = ALS(2, device="cpu").fit(columns, 2)
    model.partial_fit(pd.DataFrame({"user": [2**60 + 3], "item": [1], "rating": [4]}))
    assert sorted(map(int, model.user_ids)) == [17, 2**60 + 1, 2**60 + 3, 2**63 + 5]
    other = ALS(2, device="cpu").fit(([17, 18, 17], [1, 2, 3], [5, 3, 4]), 2)
    other.partial_fit((ids, [1, 2, 3], [5, 3, 4]))
    assert sorted(map(int, other.user_ids)) == [17, 18, 2**60 + 1, 2**63 + 5]
    big_endian = ALS(2, device="cpu").fit((ids[[0, 1, 2, 0]].astype(">u8"), *columns[1:]), 2)
    assert sorted(map(int, big_endian.user_ids)) == sorted(map(int, ids))


def test_items_that_are_not_there_have_no_id():
    model = SGD(3, device="cpu").fit(FRAME.assign(item=FRAME.item.astype(str)), 1)
    items, ratings = model.recommend(model.user_ids[:3], 40)
    assert items.shape == (3, len(model.item_ids)) and items[0, -1] is None and np.isnan(ratings[0, -1])
    places, _ = model.recommend([0, 1, 2], 40, ids=False)
    assert np.array_equal(places >= 0, np.not_equal(items, None))
    assert (SGD(3, device="cpu").fit(FRAME, 1).recommend(["u01"], 40)[0][0, -3:] == -1).all()


def test_candidates_and_filtered_items(device):
    model = ALS(3, device=device).fit(FRAME, 2)
    name = model.user_ids[4]
    all_items, _ = model.recommend(name, 20)
    some = [*all_items[::2], FRAME.item[FRAME.user == name].iloc[0]]
    assert np.array_equal(model.recommend(name, 20, candidates=some)[0], all_items[::2])
    assert np.array_equal(model.recommend(name, 20, filter_items=all_items[::2])[0], all_items[1::2])
    assert np.array_equal(
        model.recommend(name, 20, candidates=all_items[:4], filter_items=all_items[2:])[0], all_items[:2]
    )
    assert not len(model.recommend(name, candidates=[])[0])
    test = FRAME.iloc[:0:-3]
    found = model.evaluate_ranking(test, 3, seen=(), candidates=test.item.unique())
    assert (
        found["recall"]
        >= model.evaluate_ranking(test, 3, seen=())["recall"]
        > 0
        == model.evaluate_ranking(test, 3, seen=(), candidates=[])["ndcg"]
    )


def test_going_on_with_a_frame_keeps_positions():
    model = ALS(3, device="cpu").fit(FRAME, 1)
    ids = model.user_ids
    model.fit(FRAME[FRAME.user != ids[0]], 1, warm_start=True)
    assert model.ids and np.array_equal(model.user_ids, ids) and not model._user_known[0]


def test_blends_speak_as_their_models():
    ratings = Ratings.from_pandas(FRAME)
    a, b = (ALS(3, device="cpu", seed=seed).fit(ratings, 1, ids=True) for seed in (0, 1))
    blend = Blend(a, b).fit(FRAME)
    name = a.user_ids[4]
    items, ratings = blend.recommend(name, 3)
    np.testing.assert_allclose(blend.predict(name, items), ratings, rtol=1e-5)
    assert np.array_equal(blend.recommend(4, 3, ids=False)[0], np.searchsorted(a.item_ids, items))
    assert blend.score(FRAME)["rmse"] > 0
    other = ALS(3, device="cpu").fit(RATINGS, 1)
    with pytest.raises(ValueError, match="other user_ids"):
        Blend(a, other, weights=[0.5, 0.5]).recommend(name)


@pytest.mark.parametrize(("first", "none"), [(2**63, None), (3 * 10**9, -1)])
def test_unsigned_ids_of_lists_with_empty_places(first, none):
    users, items = (np.array(ids, np.uint64) + np.uint64(first) for ids in ([5, 5, 7, 9], [1, 2, 1, 3]))
    model = ALS(2, device="cpu").fit((users, items, [5.0, 2.0, 4.0, 3.0]), 2)
    found, _ = model.recommend(users[[0, 2]], k=5)
    assert found[0].tolist() == [first + 3, none, none]
    assert {*found[1].tolist()} == {first + 2, first + 3, none} and found[1, 2] == none


def test_strings_of_numpys_own_type_are_looked_up():
    pairs = np.array([["ann", "up"], ["ann", "heat"], ["bob", "up"], ["eve", "heat"]], dtype=np.dtypes.StringDType())
    model = ALS(2, device="cpu").fit((*pairs.T, [5.0, 2.0, 4.0, 3.0]), 2)
    assert np.array_equal(model.predict(*pairs.T), model.predict(*pairs.astype(object).T))
    assert model.recommend(pairs[2:3, 0], k=1)[0].tolist() == [["heat"]]


def test_errors_of_unknown_ids_name_unknown_where_the_method_has_it():
    model, other = ALS(2, device="cpu").fit(FRAME, 1), [7, 8]
    user = model.user_ids[0]
    seen = [user, user], [model.item_ids[0], 7], [1, 2]
    for refused in (
        lambda: model.recommend(user, candidates=other),
        lambda: model.recommend([user], filter_items=[other]),
        lambda: model.recommend(user, seen=seen),
        lambda: model.recommend(ratings={7: 1}),
        lambda: model.fold_in(seen),
        lambda: model.evaluate_ranking(FRAME, seen=seen),
        lambda: model.score(seen),
    ):
        with pytest.raises((KeyError, ValueError), match="unknown='skip'"):
            refused()
    for refused in (
        lambda: model.predict(user, 7),
        lambda: model.recommend("other"),
        lambda: model.similar_items(model.item_ids[0], candidates=other),
        lambda: model.list_diversity(seen=seen),
    ):
        with pytest.raises((KeyError, ValueError)) as found:
            refused()
        assert "unknown=" not in str(found.value)
