"""What a model is after `fit`, and what its predictions are clipped to."""

from dataclasses import replace

import numpy as np
import pytest

from gpumf import ALS, RBM, SGD, Blend
from gpumf.ratings import Ratings
from support import kernels_on, planted, ragged_ratings


def sgd(device, **parameters):
    """It learns noise by heart, and is worse on others soon."""
    return SGD(8, 0, learning_rate=0.08, device=device, biases=False, **parameters)


@pytest.fixture(scope="module")
def noisy():
    return planted(40, 30, 1.0, seed=2)


def test_the_best_epoch_is_kept(device, noisy):
    train, held_out = noisy
    last = sgd(device).fit(train, 12, held_out)
    model = sgd(device).fit(train, 12, held_out, keep="best")
    best = int(model.history.rmse.idxmin())
    assert 0 < best < 12 and model.epoch == best and last.epoch == 12 and len(model.history) == 13
    assert model.score(held_out)["rmse"] == pytest.approx(model.history.rmse[best], rel=1e-6)
    assert model.history.rmse[best] < last.score(held_out)["rmse"]


def test_the_start_is_kept_where_every_epoch_is_worse():
    train, held_out = planted(30, 20, 0.1)
    learned = SGD(4, solver="sequential", device="cpu", biases=False).fit(train, 30)
    learned.fit(train, 5, held_out, warm_start=True)
    learned.learning_rate = 0.15
    before = learned.user_factors.copy()
    learned.regularization = 0.9
    learned.fit(train, 3, held_out, warm_start=True, keep="best")
    assert learned.epoch == 35 and len(learned.history) == 39 and np.array_equal(learned.user_factors, before)


def test_what_was_kept_is_gone_on_from_and_stored(noisy, tmp_path):
    train, held_out = noisy
    model = sgd("cpu", solver="sequential").fit(train, 12, held_out, keep="best")
    kept = model.epoch
    model.save(tmp_path / "model.npz")
    loaded = SGD.load(tmp_path / "model.npz", device="cpu")
    assert loaded.epoch == kept and loaded.score(held_out) == model.score(held_out)
    model.fit(train, 2, held_out, warm_start=True, keep="best")
    assert model.history.epoch.iloc[-1] == 14
    assert model.score(held_out)["rmse"] <= loaded.score(held_out)["rmse"]


def test_an_interrupted_training_keeps_the_best(noisy):
    train, held_out = noisy

    def interrupt(row):
        if row["epoch"] == 9:
            raise KeyboardInterrupt

    model = sgd("cpu", solver="sequential")
    with pytest.raises(KeyboardInterrupt):
        model.fit(train, 12, held_out, keep="best", stop=interrupt)
    assert len(model.history) == 10 and model.epoch == model.history.rmse.idxmin() < 9


@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("model", [ALS, SGD])
def test_predictions_and_errors_are_clipped_alike(device, model, biases):
    ratings = replace(ragged_ratings(seed=5), scale=(2.75, 3.25))  # which many predictions leave
    free, clipped = (
        model(8, 1e-3, biases=biases, clip=clip, solver=kernels_on(model, device)[0], device=device, seed=1).fit(
            ratings, 3, ratings
        )
        for clip in (False, True)
    )
    users, items = ratings.users, ratings.items
    predicted = clipped.predict(users, items)
    assert np.array_equal(free.user_factors, clipped.user_factors)
    assert np.array_equal(predicted, np.clip(free.predict(users, items), 2.75, 3.25))
    assert not np.array_equal(predicted, free.predict(users, items))
    error = predicted.astype(np.float64) - ratings.values
    assert clipped.history.rmse.iloc[-1] == pytest.approx(np.sqrt(np.mean(error**2)), rel=1e-5)
    assert clipped.history.mae.iloc[-1] == clipped.score(ratings)["mae"] == pytest.approx(abs(error).mean(), rel=1e-5)
    for user in users[:5]:
        found, ranked = clipped.recommend(user, 5)
        assert np.array_equal(found, free.recommend(user, 5)[0])
        assert np.allclose(ranked, clipped.predict(user, found), atol=1e-6) and ranked.max() <= 3.25


@pytest.mark.parametrize("model", [ALS, SGD])
def test_without_a_scale_the_training_ratings_are_the_bounds(model, tmp_path):
    one = ragged_ratings(seed=5)
    ratings = Ratings(one.users, one.items, np.clip(one.values, 2.75, 3.25), one.n_users, one.n_items)
    same = {"solver": "sequential", "device": "cpu"} | ({"init_std": 0.5} if model is SGD else {})
    free, clipped = (made.fit(ratings, 3) for made in (model(8, 1e-3, clip=False, **same), model(8, 1e-3, **same)))
    users, items = np.arange(one.n_users)[:, None], np.arange(one.n_items)
    outside = free.predict(users, items)
    wanted = np.clip(outside, 2.75, 3.25)
    assert clipped.clip and not np.array_equal(outside, wanted)
    assert np.array_equal(clipped.predict(users, items), wanted)
    assert np.array_equal(clipped.recommend(users[:, 0], 9)[0], free.recommend(users[:, 0], 9)[0])
    for saved, of in ((free, outside), (clipped, wanted)):
        saved.save(tmp_path / "m.npz")
        assert np.array_equal(model.load(tmp_path / "m.npz", device="cpu").predict(users, items), of)
    clipped.partial_fit(ratings.select(slice(1)).less(-1))  # a rating beyond those of before
    assert clipped.predict(users, items).max() > 3.25 and clipped.scale[0] == np.float32(2.75)


def test_sgd_from_a_model_that_is_not_clipped_has_bounds():
    ratings = Ratings([0, 0, 1, 1], [0, 1, 0, 1], [1, 2, 3, 5], 2, 2)
    model = SGD.from_model(ALS(2, clip=False, device="cpu").fit(ratings, 1), solver="sequential")
    model.user_factors[:], model.item_factors[:] = 9, 9
    assert (model.predict([0, 1], 0) == 5).all()


def test_a_blend_ranks_by_what_is_not_clipped():
    ratings = Ratings(*np.nonzero(np.ones((6, 8))), np.tile([2, 2, 2, 2, 3, 3, 3, 3], 6), 6, 8)
    model = ALS(2, device="cpu").fit(ratings, 1)
    model.item_factors[:, :-2] = 0
    model.item_factors[:, -1] = np.arange(8)  # most of which are above the highest rating
    (items, shown), wanted = Blend(model, weights=[1]).recommend(0, seen=()), [7, 6, 5, 4, 3, 2, 1, 0]
    assert items.tolist() == model.recommend(0, seen=())[0].tolist() == wanted
    assert np.array_equal(shown, model.predict(0, wanted)) and shown[0] == shown[1] == 3


def test_a_machine_predicts_within_the_scale():
    ratings = ragged_ratings(seed=5)
    model = RBM(4, learning_rate=0.5, solver="sequential", device="cpu").fit(ratings, 5)
    predicted = model.predict(ratings.users, ratings.items)
    assert predicted.min() >= 1 and predicted.max() <= 5
