"""What all estimators share."""

import json
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest

from gpumf import ALS, RBM, SGD, Blend, DivergedError, ImplicitALS, NotFittedError, gpu
from gpumf.datasets import Ratings
from gpumf.hashing import splitmix64
from gpumf.models import sgd, storage
from gpumf.models.finite import FiniteCheck
from gpumf.models.initial import uniform_factors
from support import kernels_on, ragged_ratings

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
    made = launcher.to_numpy(uniform_factors(70, 9, 4.0, 1 << 60, launcher))
    hashes = splitmix64(np.arange(630, dtype=np.uint64) + np.uint64(1 << 60)) >> np.uint64(40)
    width = np.float32(2 * np.sqrt(4 / 9))
    assert made.dtype == np.float32
    assert np.array_equal(made, (hashes.astype(np.float32) * np.float32(2**-24) * width).reshape(70, 9))
    for mean in (4.0, 0.0, -2.5):
        there = launcher.to_numpy(uniform_factors(70, 9, mean, 5, launcher))
        assert there.tobytes() == uniform_factors(70, 9, mean, 5).tobytes()
        assert mean > 0 or abs(there.mean()) < 0.1 < there.max() < 1 > -there.min()
    # Inner products start near the mean.
    assert (made[:35] @ made[35:].T).mean() == pytest.approx(4, rel=0.1)


# Agreement of predict and recommend; users and items without training ratings


def some_kernels(model, device):
    """All kernels of a GPU; of the others, where compiling takes longer than the test, one."""
    kernels = kernels_on(model, device)
    return {"cpu": kernels[:1], "host": kernels[-1:]}.get(device, kernels)


def kinds(device):
    """Every kind of model, unfitted, on a device."""
    for kernel in some_kernels(ALS, device):
        yield ALS(8, kernel=kernel, device=device)
    for kernel in some_kernels(ImplicitALS, device):
        yield ImplicitALS(8, kernel=kernel, device=device)
    for kernel in some_kernels(RBM, device):
        yield RBM(4, learning_rate=0.1, kernel=kernel, device=device)
    for kernel, biases in product(some_kernels(SGD, device), (False, True, "baseline")):
        yield SGD(8, biases=biases, kernel=kernel, device=device)


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
        model = SGD(8, biases=biases, kernel=kernel, device=device).fit(train, 3, test)
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
    model = ALS(8, kernel="sequential").fit(train, 2)
    model.save(tmp_path / "model.npz")
    loaded = ALS.load(tmp_path / "model.npz", device="cpu")
    for ask in (lambda m, **seen: m.rank(test, 5, **seen), lambda m, **seen: m.recommend(3, 5, **seen)[0].tolist()):
        with pytest.raises(ValueError, match="seen=train"):
            ask(loaded)
        assert ask(loaded, seen=train) == ask(model) != ask(loaded, seen=())
        assert ask(loaded, seen=()) == ask(model, seen=())


# Divergence, failures, interrupts


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_one_number_that_is_not_finite_is_found(device, value):
    def copies(arrays):
        # Each by a new check: what has been found stays found.
        made = FiniteCheck(device).copies(arrays if device == "cpu" else list(map(gpu.device(device).array, arrays)))
        return made and (made if device == "cpu" else list(map(gpu.device(device).to_numpy, made)))

    for size, place in ((1, 0), (7, 6), (5000, 0), (5000, 4999), (5000, 2345)):
        # The largest numbers, whose sums would not be finite.
        arrays = [np.full(n, np.finfo(np.float32).max, np.float32) for n in (3, size)]
        made = copies(arrays)
        assert [a.tobytes() for a in made] == [a.tobytes() for a in arrays]
        arrays[1][place] = value
        assert copies(arrays) is None


@pytest.mark.parametrize("with_validation", [True, False])
def test_divergence_names_the_epoch_and_keeps_the_one_before(device, with_validation):
    train, test = ragged_ratings(n_users=40, n_items=30, longest=25, seed=6).split(0.2, seed=0)
    large, validation = (replace(r, values=r.values * 200, scale=None) for r in (train, test))
    validation = validation if with_validation else None
    for kernel in ["kato_hosino", "fast"] if device == "host" else some_kernels(SGD, device):
        model = SGD(8, kernel=kernel, device=device, learning_rate=0.02)
        with pytest.raises(DivergedError, match="lower learning_rate") as caught:
            model.fit(large, 200, validation)
        assert f"epoch {caught.value.epoch} " in str(caught.value)
        assert list(model.history.epoch) == list(range(caught.value.epoch))
        assert np.isfinite(model.user_factors).all() and np.isfinite(model.item_factors).all()
        assert len(model.recommend(0, 5)[0]) == 5
        if with_validation:
            assert np.isfinite(model.history.rmse).all()
            assert model.score(validation)["rmse"] == pytest.approx(model.history.rmse.iloc[-1], rel=1e-5)


def test_a_finite_epoch_is_kept_bit_for_bit(sets):
    large = replace(sets[0], values=sets[0].values * 8, scale=None)
    diverged = SGD(5, kernel="sequential")
    with pytest.raises(DivergedError) as caught:
        diverged.fit(large, 50)
    assert caught.value.epoch > 1
    stopped = SGD(5, kernel="sequential").fit(large, caught.value.epoch - 1)
    assert np.array_equal(stopped.user_factors, diverged.user_factors)
    assert np.array_equal(stopped.item_factors, diverged.item_factors)
    with pytest.raises(DivergedError) as again:
        stopped.fit(large, 5, warm_start=True)
    assert again.value.epoch == caught.value.epoch


def state_of(model):
    return {name: np.copy(value) if isinstance(value, np.ndarray) else value for name, value in vars(model).items()}


def assert_same_state(model, before):
    assert vars(model).keys() == before.keys()
    for name, value in before.items():
        same = np.array_equal(getattr(model, name), value) if isinstance(value, np.ndarray) else getattr(model, name)
        assert same is value or same is True or same == value, name


@pytest.mark.parametrize("fitted", [True, False])
@pytest.mark.parametrize("make", [ALS, ImplicitALS, SGD, RBM])
def test_a_failed_fit_leaves_the_model_as_it_was(make, fitted, sets, monkeypatch):
    train, test = sets
    kernel = kernels_on(make, "cpu")[0]
    model = make(4, kernel=kernel)
    if fitted:
        model.fit(train, 2, test)
    before, trainer = state_of(model), model.schemes()[kernel]
    other = replace(train, values=6 - train.values)

    def failing(error):
        def fail(*arguments):
            raise error

        return fail

    wrong = Ratings(train.users, train.items, np.ones(train.nnz), train.n_users, train.n_items)
    with monkeypatch.context() as patch:
        for epochs in (2.5, -1, True, None, "3"):
            with pytest.raises(ValueError, match="epochs"):
                model.fit(other, epochs)
        with pytest.raises(ValueError, match="validation set is empty"):
            model.fit(other, 1, test.select(np.zeros(test.nnz, bool)))
        if make is RBM:
            with pytest.raises(ValueError, match="two different"):
                model.fit(wrong, 1)
        for error in (gpu.DeviceError("gone"), MemoryError("full"), ValueError("no"), KeyboardInterrupt()):
            patch.setattr(trainer, "__init__", failing(error))
            with pytest.raises(type(error)):
                model.fit(other, 1)
            patch.undo()
        patch.setattr(trainer, "epoch", failing(gpu.DeviceError("gone")))
        with pytest.raises(gpu.DeviceError):
            model.fit(other, 1)
        if fitted:
            with pytest.raises(gpu.DeviceError):
                model.fit(other, 1, warm_start=True)
    assert_same_state(model, before)
    if not fitted:
        with pytest.raises(NotFittedError):
            model.predict(0, 0)


def test_an_interrupt_inside_an_epoch_keeps_the_epochs_before(sets, monkeypatch):
    train, test = sets
    model, trainer = ALS(8, kernel="sequential"), ALS.schemes()["sequential"]
    solve = trainer.solve_items

    def interrupted(self):
        solve(self)
        interrupted.epochs += 1
        if interrupted.epochs == 3:
            raise KeyboardInterrupt

    interrupted.epochs = 0
    monkeypatch.setattr(trainer, "solve_items", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(train, 6, test)
    assert list(model.history.epoch) == [0, 1, 2]
    assert model.score(test)["rmse"] == pytest.approx(model.history.rmse.iloc[-1], rel=1e-6)


# Parameters


NOT_NUMBERS = [np.nan, np.inf, -np.inf, "1", None, True, 1e300]
NOT_INTEGERS = [0, -1, 1.5, "2", True, np.nan, 2**63]
WRONG = {
    ALS: {
        "factors": [*NOT_INTEGERS, None, 301],
        "regularization": [*NOT_NUMBERS, 0, -1],
        "weighted": [1, "no", None],
        "threads": [0, -1, 1.5, True, "8"],
        "cg_steps": NOT_INTEGERS,
        "cg_tolerance": [*NOT_NUMBERS, -0.1, 1],
        "seed": [-1, 2**64, 0.5, "0", None, True],
        "kernel": ["fastest"],
        "device": ["tpu", None],
    },
    ImplicitALS: {"alpha": [*NOT_NUMBERS, 0, -40], "seed": [-1, 2**64]},
    SGD: {
        "factors": [*NOT_INTEGERS, None, 301],
        "regularization": [*NOT_NUMBERS, -1],
        "learning_rate": [*NOT_NUMBERS, 0, -0.1, 1e-60],
        "item_regularization": [-1, np.nan, np.inf, "1", True],
        "bias_regularization": [-1, np.nan, np.inf, "1", True],
        "biases": ["both", 1, 2, None, []],
        "schedule": ["Power", None, {"name": "Step"}],
        "chunk": [0, -5, 2.5, True],
        "seed": [-1, 2**64, 0.5],
    },
    RBM: {"seed": [-1, 2**64, 0.5]},
}


@pytest.mark.parametrize(
    ("model", "name", "value"),
    [(model, name, value) for model, names in WRONG.items() for name, values in names.items() for value in values],
)
def test_a_wrong_parameter_is_named_with_its_value(model, name, value):
    with pytest.raises(ValueError, match=name) as caught:
        model(**{"kernel": "parallel", name: value})
    assert repr(value) in str(caught.value) or value == 0


@pytest.mark.parametrize("seed", [0, 1, 2**32, 2**64 - 1])
def test_every_seed_trains_alike(seed, sets):
    for model in (ALS, SGD):
        first, second = (model(4, seed=seed, kernel="sequential").fit(sets[0], 1) for _ in range(2))
        assert np.array_equal(first.user_factors, second.user_factors)
    assert not np.array_equal(
        SGD(4, seed=seed).initial_factors(sets[0])[0], SGD(4, seed=7).initial_factors(sets[0])[0]
    )


# The kernel for a training set


@pytest.mark.parametrize(
    ("n_users", "n_items", "factors", "kernel"),
    [
        (8192, 64, 4, "fast"),  # 512 groups
        (64, 8192, 4, "fast"),  # the fewer rows are resident
        (8191, 64, 4, "kato_hosino"),
        (8192, 63, 4, "kato_hosino"),
        (2048, 64, 128, "fast"),  # 128 groups of 32 lanes
        (2047, 64, 128, "kato_hosino"),
        (2048, 64, 64, "kato_hosino"),
    ],
)
def test_the_kernel_is_chosen_by_the_training_set(monkeypatch, n_users, n_items, factors, kernel):
    monkeypatch.setattr(SGD, "_usable", lambda self, kernel, device: (kernel or "fast", device))
    one = Ratings(np.zeros(1, int), np.zeros(1, int), np.ones(1), n_users, n_items)
    assert SGD(factors, device="cuda").choose(one) == kernel
    assert SGD(factors, kernel="sequential", device="cpu").choose(one) != kernel


def test_fit_chooses_where_no_kernel_was_given(device, sets, monkeypatch):
    train, _ = sets
    small, large = ("parallel", "parallel") if device == "cpu" else ("kato_hosino", "fast")
    model = SGD(8, device=device).fit(train, 1)
    assert model.kernel == small and model.options == SGD(8, kernel=small, device=device).options
    monkeypatch.setattr(sgd, "_LEAST_GROUPS", 1)
    assert model.fit(train, 1).kernel == large
    assert model.options == SGD(8, kernel=large, device=device).options
    named = kernels_on(SGD, device)[0]
    assert SGD(8, kernel=named, device=device).fit(train, 1).kernel == named
    for given in ({"threads": 64}, {"tiles": 3}):
        with pytest.raises(TypeError, match="name it with kernel="):
            SGD(8, device=device, **given)


# Files


def test_a_save_that_fails_leaves_the_old_file(sets, tmp_path, monkeypatch):
    path, savez = tmp_path / "model.npz", np.savez
    ALS(4, kernel="sequential", seed=1).fit(sets[0], 1).save(path)
    old = path.read_bytes()
    model = ALS(4, kernel="sequential", seed=2).fit(sets[0], 1)

    def full_disk(file, **arrays):
        savez(file, **{name: arrays[name] for name in list(arrays)[:2]})
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(np, "savez", full_disk)
        with pytest.raises(OSError, match="No space"):
            model.save(path)
        patch.undo()
        patch.setattr(storage.os, "fsync", lambda _: (_ for _ in ()).throw(OSError(5, "Input/output error")))
        with pytest.raises(OSError, match="Input/output"):
            model.save(path)
    assert path.read_bytes() == old and [p.name for p in tmp_path.iterdir()] == ["model.npz"]
    model.save(path)
    assert ALS.load(path, device="cpu").seed == 2 and [p.name for p in tmp_path.iterdir()] == ["model.npz"]


def contents(path):
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


def with_header(arrays, **changes):
    header = json.loads(str(arrays["header"])) | changes
    return arrays | {"header": json.dumps({k: v for k, v in header.items() if v != "missing"})}


HOSTILE = {
    "fewer item rows": lambda a: a | {"item_factors": a["item_factors"][:-1]},
    "fewer user rows": lambda a: a | {"user_factors": a["user_factors"][:5]},
    "fewer columns": lambda a: a | {"item_factors": a["item_factors"][:, :3]},
    "float64": lambda a: a | {"item_factors": a["item_factors"].astype(np.float64)},
    "another byte order": lambda a: a | {"item_factors": a["item_factors"].astype(">f4")},
    "objects": lambda a: a | {"item_factors": a["item_factors"].astype(object)},
    "one dimension": lambda a: a | {"item_factors": a["item_factors"].ravel()},
    "NaN": lambda a: a | {"item_factors": np.full_like(a["item_factors"], np.nan)},
    "no array": lambda a: {k: v for k, v in a.items() if k != "item_factors"},
    "no counts": lambda a: {k: v for k, v in a.items() if k != "item_counts"},
    "negative counts": lambda a: a | {"item_counts": -a["item_counts"] - 1},
    "counts as floats": lambda a: a | {"item_counts": a["item_counts"] * 1.0},
    "one array more": lambda a: a | {"extra": np.arange(3)},
    "no header": lambda a: {k: v for k, v in a.items() if k != "header"},
    "no JSON": lambda a: a | {"header": "{"},
    "a list": lambda a: a | {"header": "[]"},
    "no parameters": lambda a: with_header(a, parameters="missing"),
    "unknown parameters": lambda a: with_header(a, parameters={"size": 3}),
    "parameters that are none": lambda a: with_header(a, parameters=3),
    "wrong parameters": lambda a: with_header(a, parameters={"factors": -4}),
    "more factors": lambda a: with_header(a, parameters={"factors": 5}),
    "no mean": lambda a: with_header(a, mean="missing"),
    "a mean that is none": lambda a: with_header(a, mean=float("nan")),
    "a scale that is none": lambda a: with_header(a, scale=["a", 5]),
    "no history": lambda a: with_header(a, history={}),
    "a ragged history": lambda a: with_header(a, history={"epoch": [0], "seconds": [], "rmse": [], "mae": []}),
    "another format": lambda a: with_header(a, format=99),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_files_are_refused(what, sets, tmp_path):
    path = tmp_path / "model.npz"
    ALS(4, kernel="sequential").fit(sets[0], 1).save(path)
    arrays = contents(path)
    np.savez(path, **arrays)
    ALS.load(path, device="cpu")
    np.savez(path, **HOSTILE[what](arrays))
    with pytest.raises(ValueError, match=str(path)):
        ALS.load(path, device="cpu")


def test_no_part_of_a_file_is_a_model(sets, tmp_path):
    path = tmp_path / "model.npz"
    RBM(4, kernel="sequential").fit(sets[0], 1).save(path)
    whole = path.read_bytes()
    for length in (0, 1, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="not a saved model"):
            RBM.load(path, device="cpu")
    middle = len(whole) // 2
    path.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
    with pytest.raises(ValueError, match="not a saved model"):
        RBM.load(path, device="cpu")
    path.write_bytes(whole)
    arrays = contents(path)
    for name, rows in (
        ("item_weights", np.s_[:, :3]),
        ("visible_biases", np.s_[:, :3]),
        ("hidden_biases", np.s_[:2]),
    ):
        np.savez(path, **arrays | {name: arrays[name][rows].copy()})
        with pytest.raises(ValueError, match="damaged"):
            RBM.load(path, device="cpu")
