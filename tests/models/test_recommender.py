"""Recommendations agree with predictions, for users and items without training ratings too."""

from itertools import product

import numpy as np
import pytest

from gpumf import ALS, RBM, SGD, Blend, ImplicitALS
from gpumf.models import factorization
from gpumf.ratings import Ratings
from support import ragged_ratings, some_kernels


def test_an_evaluation_on_what_lists_leave_out_is_refused(sets, tmp_path):
    train, test = sets
    model = ALS(4, device="cpu").fit(train, 1)
    model.save(tmp_path / "m.npz", seen=True)
    some = train.select(train.users < 9)
    for one in (model, ALS.load(tmp_path / "m.npz", "cpu")):
        with pytest.raises(ValueError, match=rf"all {some.nnz} test ratings are in the training set") as refused:
            one.evaluate_ranking(some)
        assert type(refused.value).__name__ == "NothingHeldOut"
        assert one.evaluate_ranking(train, seen=(), k=50)["recall"] > 0
    with pytest.raises(ValueError, match="test ratings are in `seen`"):
        model.evaluate_ranking(test, seen=test)
    with pytest.raises(ValueError, match="in the training set"):
        model.fit(train, 1, some, stop_metric="ndcg@10")
    held = test.select(test.users == test.users[0])
    mixed = Ratings(*(np.append(a, b) for a, b in ((some.users, held.users), (some.items, held.items))),
                    np.ones(some.nnz + held.nnz), train.n_users, train.n_items)  # fmt: skip
    assert 0 <= model.evaluate_ranking(mixed, k=1)["ndcg"] <= 1


def test_recommend_leaves_out_what_was_rated(sets):
    train, _ = sets
    model = ALS(8, solver="sequential", biases=False).fit(train, 5)
    user = int(np.argmax(train.by_user.counts))
    items, ratings = model.recommend(user, k=10)
    rated = set(train.items[train.users == user])
    assert len(items) == 10 and not rated & set(items)
    assert (np.diff(ratings) <= 0).all()
    candidates = [i for i in np.unique(train.items) if i not in rated]
    assert ratings[0] == pytest.approx(model.predict(user, candidates).max(), rel=1e-6)
    everything, _ = model.recommend(user, k=10**6)
    assert len(everything) == len(candidates)


def kinds(device):
    """Every kind of model, unfitted, on a device."""
    for kernel in some_kernels(ALS, device):
        yield ALS(8, solver=kernel, device=device, biases=False)
    for kernel in some_kernels(ImplicitALS, device):
        yield ImplicitALS(8, solver=kernel, device=device)
    for kernel in some_kernels(RBM, device):
        yield RBM(4, learning_rate=0.1, solver=kernel, device=device)
    for kernel, biases in product(some_kernels(SGD, device), (False, True, "baseline")):
        yield SGD(8, biases=biases, solver=kernel, device=device)


def test_of_candidates_those_with_a_single_training_rating_come_and_those_without_any_do_not(device):
    train = Ratings([0, 0, 1, 1], [0, 1, 1, 2], [5, 3, 4, 2], 2, 4)
    model = ALS(2, device=device, biases=False).fit(train, 2)
    assert model.recommend(1, 4, candidates=[0, 3])[0].tolist() == [0]
    assert model.recommend(1, 4, seen=None, filter_items=[1])[0].tolist() == [0]


def test_recommend_and_predict_agree_for_every_user(device):
    train = ragged_ratings(n_users=30, n_items=20, longest=12, seed=4)
    users = np.arange(train.n_users)
    assert (train.by_user.counts == 0).any() and (train.by_item.counts == 0).any()
    models = [model.fit(train, 2) for model in kinds(device)]
    models.append(Blend(models[0], models[-1], weights=[0.3, 0.7]))
    for model in models:
        items, ratings = model.recommend(users, 18)
        found = items >= 0
        assert found.sum() > 200 and (train.by_item.counts[items[found]] > 0).all()
        predicted = model.predict(users[:, None], np.where(found, items, 0))
        np.testing.assert_allclose(ratings[found], predicted[found], rtol=1e-5, atol=1e-5)
        for user in (0, int(np.argmin(train.by_user.counts))):
            alone, rated = model.recommend(user, 5)
            np.testing.assert_allclose(rated, model.predict(user, alone), rtol=1e-5, atol=1e-5)


def test_biases_are_predicted_for_cold_users_and_items(device):
    train = ragged_ratings(n_users=30, n_items=20, longest=12, seed=4)
    cold_user, known = np.flatnonzero(train.by_user.counts == 0)[0], np.flatnonzero(train.by_item.counts)
    cold_item = int(np.flatnonzero(train.by_item.counts == 0)[0])
    test = Ratings([cold_user, cold_user], known[:2], [1, 5], 30, 20)
    for biases, kernel in product((True, "baseline"), some_kernels(SGD, device)):
        model = SGD(8, biases=biases, solver=kernel, device=device).fit(train, 3, test)
        of_items = train.mean + model.item_biases[known]
        np.testing.assert_allclose(model.predict(cold_user, known), of_items, rtol=1e-6)
        np.testing.assert_allclose(model.predict(np.arange(30), cold_item), train.mean + model.user_biases, rtol=1e-6)
        assert model.predict(cold_user, cold_item) == pytest.approx(train.mean, rel=1e-6)
        assert np.ptp(of_items) > 0.01
        best = known[np.argsort(-of_items, kind="stable")]
        assert np.array_equal(model.recommend(int(cold_user), 5)[0], best[:5])
        assert model.history.mae.iloc[-1] == pytest.approx(np.abs(of_items[:2] - [1, 5]).mean(), rel=1e-5)
        # Once it has ratings it is learned, from the start that it would have had.
        model.fit(Ratings([cold_user] * 3, known[:3], [1, 5, 1], 30, 20), 2, warm_start=True)
        assert model.user_factors[cold_user, :8].any()


def test_cold_users_get_popular_items_first(device, tmp_path):
    train = ragged_ratings(n_users=30, n_items=20, longest=12, seed=4)
    cold = np.flatnonzero(train.by_user.counts == 0)[0]
    counts = train.by_item.counts
    popular = np.argsort(-counts, kind="stable")[: (counts > 0).sum()]
    for model in kinds(device):
        if getattr(model, "biases", False):
            continue
        items, _ = model.fit(train, 1).recommend(int(cold), 20)
        assert np.array_equal(items, popular)
        model.save(tmp_path / "model.npz")
        loaded = type(model).load(tmp_path / "model.npz", device=device)
        assert np.array_equal(loaded.recommend(int(cold), 20, seen=())[0], popular)


def test_a_model_from_a_file_asks_for_what_was_seen(sets, tmp_path):
    train, test = sets
    model = ALS(8, solver="sequential", biases=False).fit(train, 2)
    model.save(tmp_path / "model.npz")
    loaded = ALS.load(tmp_path / "model.npz", device="cpu")
    for ask in (
        lambda m, **seen: m.evaluate_ranking(test, 5, **seen),
        lambda m, **seen: m.recommend(3, 5, **seen)[0].tolist(),
    ):
        with pytest.raises(ValueError, match="seen=train"):
            ask(loaded)
        assert ask(loaded, seen=train) == ask(model) != ask(loaded, seen=())
        assert ask(loaded, seen=()) == ask(model, seen=())


@pytest.mark.parametrize("at_once", [1, 5, 7, 60])
def test_predictions_in_parts_are_those_of_all(sets, monkeypatch, at_once):
    model = ALS(4, device="cpu").fit(sets[0], 1)
    users, items = np.arange(6), np.arange(9)
    pairs, grid, one = (users, items[:6]), (users[:, None], items), (users[0], items)
    whole = [model.predict(*places) for places in (pairs, grid, one)]
    monkeypatch.setattr(factorization, "_PAIRS_AT_ONCE", at_once)
    for places, wanted in zip((pairs, grid, one), whole, strict=True):
        assert np.array_equal(model.predict(*places), wanted)


@pytest.mark.parametrize("clip", [True, False])
@pytest.mark.parametrize("kind", [ALS, SGD, ImplicitALS, RBM])
def test_one_pair_has_a_number_and_more_have_an_array(kind, clip):
    options = {"clip": clip} if kind in (ALS, SGD) else {}
    model = kind(2, device="cpu", **options).fit(ragged_ratings(n_users=6, n_items=9, longest=5), 1)
    assert type(model.predict(0, 1)) is np.float32
    assert model.predict([0], 1).shape == (1,) and model.predict([[0], [1]], [1, 2]).shape == (2, 2)
