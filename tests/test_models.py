"""What all estimators share."""

import numpy as np
import pandas as pd
import pytest

from conftest import kernels_on, ragged_ratings
from gpumf import ALS, SGD
from gpumf.datasets import Ratings
from gpumf.hashing import splitmix64
from gpumf.models import NotFittedError
from gpumf.models.initial import uniform_factors

MODELS = pytest.mark.parametrize("model", [ALS, SGD])


@pytest.fixture(scope="module")
def sets():
    return ragged_ratings(n_users=200, n_items=120, longest=100, seed=11).split(0.2, seed=1)


def fastest(model, factors, device):
    return model(factors, kernel=kernels_on(model, device)[-1], device=device)


@MODELS
def test_history_has_a_row_an_epoch(model, device, sets):
    train, test = sets
    fitted = fastest(model, 8, device).fit(train, epochs=3, validation=test)
    assert list(fitted.history) == ["epoch", "seconds", "rmse", "mae"]
    assert list(fitted.history.epoch) == [0, 1, 2, 3]
    assert fitted.history.seconds.iloc[0] == 0 and fitted.history.seconds.diff().iloc[1:].gt(0).all()
    assert fitted.score(test)["rmse"] == pytest.approx(fitted.history.rmse.iloc[-1], rel=1e-6)
    assert fitted.score(test)["mae"] == pytest.approx(fitted.history.mae.iloc[-1], rel=1e-6)


@MODELS
def test_score_is_the_error_of_predict(model, device, sets):
    train, test = sets
    fitted = fastest(model, 8, device).fit(train, epochs=3)
    error = fitted.predict(test.users, test.items) - test.values
    assert fitted.score(test)["mae"] == pytest.approx(np.abs(error).mean(), rel=1e-5)
    assert fitted.history.rmse.isna().all()


def test_als_is_the_same_on_every_device(device, sets):
    train, test = sets
    reference = ALS(16, kernel="sequential").fit(train, 10, test)
    steps = {"cg_steps": 10}  # on ratings without any structure the usual few leave more than that
    fitted = ALS(16, kernel=kernels_on(ALS, device)[-1], device=device, **steps).fit(train, 10, test)
    assert np.abs(fitted.history.rmse - reference.history.rmse).max() < 1e-3


@MODELS
def test_without_a_training_rating_the_mean_is_predicted(model, device):
    train = Ratings([0, 0, 1], [0, 1, 1], [1, 2, 5], 3, 3)
    fitted = fastest(model, 4, device).fit(train, 2)
    assert fitted.predict(2, 0) == pytest.approx(train.mean)
    assert fitted.predict(0, 2) == pytest.approx(train.mean)
    assert fitted.predict(0, 0) != pytest.approx(train.mean)
    cold = Ratings([2], [2], [4], 3, 3)
    assert fitted.score(cold)["mae"] == pytest.approx(4 - train.mean, rel=1e-6)


def test_initial_factors_start_near_the_mean(sets):
    train, _ = sets
    p, q = ALS(16).initial_factors(train)
    assert p.dtype == q.dtype == np.float32
    assert (p @ q.T).mean() == pytest.approx(train.mean, rel=0.05)
    centred = Ratings(train.users, train.items, train.values - 5, train.n_users, train.n_items)
    p, q = ALS(16).initial_factors(centred)
    assert abs((p @ q.T).mean()) < 0.1


@MODELS
def test_stop_and_warm_start(model, sets):
    train, test = sets
    through = model(8, kernel="sequential").fit(train, 6, test)
    stopped = model(8, kernel="sequential").fit(train, 6, test, stop=lambda row: row["epoch"] == 2)
    assert list(stopped.history.epoch) == [0, 1, 2]
    resumed = stopped.fit(train, 4, test, warm_start=True)
    assert list(resumed.history.epoch) == [0, 1, 2, 3, 4, 5, 6]
    assert np.array_equal(resumed.user_factors, through.user_factors)
    assert resumed.history.seconds.is_monotonic_increasing


def test_an_interrupt_keeps_the_epochs_done(sets):
    train, test = sets

    def interrupt(row):
        if row["epoch"] == 2:
            raise KeyboardInterrupt

    model = ALS(8, kernel="sequential")
    with pytest.raises(KeyboardInterrupt):
        model.fit(train, 6, test, stop=interrupt)
    assert list(model.history.epoch) == [0, 1, 2]
    assert model.score(test)["rmse"] == pytest.approx(model.history.rmse.iloc[-1], rel=1e-6)
    assert len(model.fit(train, 4, test, warm_start=True).history) == 7


def test_recommend_leaves_out_what_was_rated(sets):
    train, _ = sets
    model = ALS(8, kernel="sequential").fit(train, 5)
    user = int(np.argmax(train.by_user.counts))
    items, ratings = model.recommend(user, k=10)
    rated = set(train.items[train.users == user])
    assert len(items) == 10 and not rated & set(items)
    assert (np.diff(ratings) <= 0).all()
    candidates = [i for i in np.unique(train.items) if i not in rated]
    assert ratings[0] == pytest.approx(model.predict(user, candidates).max(), rel=1e-6)
    everything, _ = model.recommend(user, k=10**6)
    assert len(everything) == len(candidates)


@MODELS
def test_save_and_load(model, sets, tmp_path):
    train, test = sets
    fitted = model(8, 0.07, seed=3, kernel="sequential").fit(train, 3, test)
    fitted.save(tmp_path / "model.npz")
    loaded = model.load(tmp_path / "model.npz", device="cpu")
    assert np.array_equal(loaded.predict(test.users, test.items), fitted.predict(test.users, test.items))
    pd.testing.assert_frame_equal(loaded.history, fitted.history)
    assert loaded._parameters == fitted._parameters
    assert np.array_equal(loaded.recommend(4, seen=train)[0], fitted.recommend(4)[0])
    assert loaded.score(test)["mae"] == pytest.approx(fitted.score(test)["mae"], rel=1e-6)
    loaded.fit(train, 1, warm_start=True)
    assert loaded.history.epoch.iloc[-1] == 4


def test_load_refuses_other_files(sets, tmp_path):
    ALS(4, kernel="sequential").fit(sets[0], 1).save(tmp_path / "als.npz")
    with pytest.raises(ValueError, match="holds a ALS"):
        SGD.load(tmp_path / "als.npz")
    data = (tmp_path / "als.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(data[: len(data) // 2])
    np.savez(tmp_path / "other.npz", a=np.arange(3))
    for name in ("cut.npz", "other.npz"):
        with pytest.raises(ValueError, match="not a saved model"):
            ALS.load(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        ALS.load(tmp_path / "absent.npz")


@MODELS
def test_wrong_use_gets_one_clear_error(model, sets):
    train, test = sets
    unfitted = model(4, kernel="sequential")
    for call in (
        lambda: unfitted.predict(0, 0),
        lambda: unfitted.recommend(0),
        lambda: unfitted.score(test),
        lambda: unfitted.save("x.npz"),
        lambda: unfitted.fit(train, 1, warm_start=True),
    ):
        with pytest.raises(NotFittedError, match="fit"):
            call()
    with pytest.raises(TypeError, match="Ratings"):
        unfitted.fit(np.eye(3))
    with pytest.raises(ValueError, match="empty"):
        unfitted.fit(train.select(np.zeros(train.nnz, bool)))
    smaller = Ratings([0], [0], [1], 1, 1)
    with pytest.raises(ValueError, match="other users or items"):
        unfitted.fit(train, 1, validation=smaller)
    for bad in (np.nan, np.inf):
        values = train.values.copy()
        values[5] = bad
        broken = Ratings(train.users, train.items, values, train.n_users, train.n_items)
        with pytest.raises(ValueError, match="rating 5"):
            unfitted.fit(broken)
    model_ = model(4, kernel="sequential").fit(train, 1)
    for users, items in ((train.n_users, 0), (0, -1)):
        with pytest.raises(IndexError, match="positions must lie"):
            model_.predict(users, items)
    with pytest.raises(TypeError, match="integers"):
        model_.predict(0.5, 1)
    with pytest.raises(ValueError, match="other users or items"):
        model_.score(smaller)
    with pytest.raises(ValueError, match="same users and items"):
        model_.fit(smaller, 1, warm_start=True)


def test_factors_made_on_a_device_are_hashes_of_their_positions(launcher):
    made = launcher.to_numpy(uniform_factors(launcher, 70, 9, 4.0, key=1 << 60))
    hashes = splitmix64(np.arange(630, dtype=np.uint64) + np.uint64(1 << 60)) >> np.uint64(40)
    width = np.float32(2 * np.sqrt(4 / 9))
    assert made.dtype == np.float32
    assert np.array_equal(made, (hashes.astype(np.float32) * np.float32(2**-24) * width).reshape(70, 9))
    # Inner products start near the mean.
    assert (made[:35] @ made[35:].T).mean() == pytest.approx(4, rel=0.1)
