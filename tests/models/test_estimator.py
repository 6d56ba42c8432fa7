"""What all estimators share: histories, starts and ends of trainings, failures, the choice of a kernel."""

import inspect
from ctypes import ArgumentError
from dataclasses import replace

import numpy as np
import pytest

from gpumf import ALS, RBM, SGD, BayesianMF, Blend, DivergedError, ImplicitALS, NotFittedError, backends
from gpumf.models import als, sgd
from gpumf.ratings import Ratings
from support import MODELS, kernels_on, ragged_ratings, some_kernels


def fastest(model, factors, device):
    return model(factors, biases=False, solver=kernels_on(model, device)[-1], device=device)


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
    reference = ALS(16, solver="sequential", biases=False).fit(train, 10, test)
    steps = {"cg_steps": 10}  # on ratings without any structure the usual few leave more than that
    fitted = ALS(16, solver=kernels_on(ALS, device)[-1], device=device, biases=False, **steps).fit(train, 10, test)
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


def test_what_is_not_finite_is_not_gone_on_from(sets):
    fitted = ALS(2, device="cpu").fit(sets[0], 1)
    fitted.item_factors[0, 0] = np.nan
    with pytest.raises(ValueError, match="warm_start needs what was learned before"):
        fitted.fit(sets[0], 1, warm_start=True)


@pytest.mark.parametrize("model", [ALS, SGD, RBM])
def test_stop_and_warm_start(model, sets):
    train, test = sets
    through = model(8, solver="sequential").fit(train, 6, test)
    stopped = model(8, solver="sequential").fit(train, 6, test, stop=lambda row: row["epoch"] == 2)
    assert list(stopped.history.epoch) == [0, 1, 2]
    resumed = stopped.fit(train, 4, test, warm_start=True)
    assert list(resumed.history.epoch) == [0, 1, 2, 3, 4, 5, 6]
    assert all(map(np.array_equal, resumed._learned, through._learned))
    assert resumed.history.seconds.is_monotonic_increasing


def test_a_bar_counts_epochs_of_the_solver(sets, monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    ALS(2, solver="sequential", biases=False).fit(sets[0], 2, progress=True)
    err = capsys.readouterr().err
    assert "sequential" in err and "2/2" in err and ("epoch/s" in err or "s/epoch" in err)


@pytest.mark.parametrize("within", ["a callback", "a call of C"])
def test_an_interrupt_keeps_the_epochs_done(sets, within, monkeypatch):
    train, test = sets

    def interrupt(row):
        if row["epoch"] == 2:
            raise KeyboardInterrupt

    def epoch(self, solver, number, rows):
        if number == 2:
            raise ArgumentError("argument 1: KeyboardInterrupt: ")
        solver.epoch(number)

    model = ALS(8, solver="sequential", biases=False)
    stop = interrupt if within == "a callback" else None
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        if not stop:
            patch.setattr(ALS, "_epoch", epoch)
        model.fit(train, 6, test, stop=stop)
    assert list(model.history.epoch) == [0, 1, 2]
    assert model.score(test)["rmse"] == pytest.approx(model.history.rmse.iloc[-1], rel=1e-6)
    assert len(model.fit(train, 4, test, warm_start=True).history) == 7


@pytest.mark.parametrize("with_validation", [True, False])
def test_divergence_names_the_epoch_and_keeps_the_one_before(device, with_validation):
    train, test = ragged_ratings(n_users=40, n_items=30, longest=25, seed=6).split(0.2, seed=0)
    large, validation = (replace(r, values=r.values * 200, scale=None) for r in (train, test))
    validation = validation if with_validation else None
    for kernel in ["kato_hosino", "fast"] if device == "emulator" else some_kernels(SGD, device):
        model = SGD(8, solver=kernel, device=device, learning_rate=0.02, biases=False)
        with pytest.raises(DivergedError, match="lower learning_rate") as caught:
            model.fit(large, 200, validation)
        assert f"epoch {caught.value.epoch} " in str(caught.value)
        assert list(model.history.epoch) == list(range(caught.value.epoch))
        assert np.isfinite(model.user_factors).all() and np.isfinite(model.item_factors).all()
        assert len(model.recommend(0, 5)[0]) == 5
        if with_validation:
            assert np.isfinite(model.history.rmse).all()
            assert model.score(validation)["rmse"] == pytest.approx(model.history.rmse.iloc[-1], rel=1e-5)


def test_a_rate_that_shrinks_all_factors_to_zero_diverges(sets):
    """Between rates that diverge and these, some shrink a part of the factors to 0."""
    diverged = SGD(5, solver="sequential", learning_rate=1e6)
    with pytest.raises(DivergedError, match=r"factors to 0: learning_rate \* regularization is 1e\+06; lower") as at:
        diverged.fit(sets[0], 3)
    assert at.value.epoch == 1 and list(diverged.history.epoch) == [0] and diverged.item_factors[:, :5].any()
    strong = SGD(5, solver="sequential", regularization=1e8).fit(sets[0], 1)
    assert not strong.item_factors[:, :5].any(), "biases alone, as regularization asks for"


def test_a_finite_epoch_is_kept_bit_for_bit(sets):
    large = replace(sets[0], values=sets[0].values * 8, scale=None)
    diverged = SGD(5, solver="sequential", biases=False)
    with pytest.raises(DivergedError) as caught:
        diverged.fit(large, 50)
    assert caught.value.epoch > 1
    stopped = SGD(5, solver="sequential", biases=False).fit(large, caught.value.epoch - 1)
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
    model = make(4, solver=kernel, **{"biases": False} if make is RBM else {})
    if fitted:
        model.fit(train, 2, test)
    before, trainer = state_of(model), model.solver_classes()[kernel]
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
        for error in (backends.DeviceError("gone"), MemoryError("full"), ValueError("no"), KeyboardInterrupt()):
            patch.setattr(trainer, "__init__", failing(error))
            with pytest.raises(type(error)):
                model.fit(other, 1)
            patch.undo()
        patch.setattr(trainer, "epoch", failing(backends.DeviceError("gone")))
        with pytest.raises(backends.DeviceError):
            model.fit(other, 1)
        if fitted:
            with pytest.raises(backends.DeviceError):
                model.fit(other, 1, warm_start=True)
    assert_same_state(model, before)
    if not fitted:
        with pytest.raises(NotFittedError):
            model.predict(0, 0)


def test_an_interrupt_inside_an_epoch_keeps_the_epochs_before(sets, monkeypatch):
    train, test = sets
    model, trainer = ALS(8, solver="sequential", biases=False), ALS.solver_classes()["sequential"]
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


@pytest.mark.parametrize("seed", [0, 1, 2**32, 2**64 - 1])
def test_every_seed_trains_alike(seed, sets):
    for model in (ALS, SGD):
        first, second = (model(4, seed=seed, solver="sequential").fit(sets[0], 1) for _ in range(2))
        assert np.array_equal(first.user_factors, second.user_factors)
    assert not np.array_equal(
        SGD(4, seed=seed, biases=False).initial_factors(sets[0])[0],
        SGD(4, seed=7, biases=False).initial_factors(sets[0])[0],
    )


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
def test_the_kernel_is_chosen_by_the_training_set(host, monkeypatch, n_users, n_items, factors, kernel):
    monkeypatch.setattr(SGD, "_usable", lambda self, kernel, device: (kernel or "fast", device))
    one = Ratings(np.zeros(1, int), np.zeros(1, int), np.ones(1), n_users, n_items)
    assert SGD(factors, device="emulator", biases=False).choose(one) == kernel
    assert SGD(factors, solver="sequential", device="cpu", biases=False).choose(one) != kernel


def test_fit_chooses_where_no_kernel_was_given(device, sets, monkeypatch):
    train, _ = sets
    small, large = ("ordered_parallel", "ordered_parallel") if device == "cpu" else ("kato_hosino", "fast")
    model = SGD(8, device=device, biases=False).fit(train, 1)
    assert model.solver == small and model.options == SGD(8, solver=small, device=device, biases=False).options
    monkeypatch.setattr(sgd, "_MIN_GROUPS", 1)
    assert model.fit(train, 1).solver == large
    assert model.options == SGD(8, solver=large, device=device, biases=False).options
    named = kernels_on(SGD, device)[0]
    assert SGD(8, solver=named, device=device, biases=False).fit(train, 1).solver == named
    for given in [{"tiles": 3}] + [{"threads": 64}] * (device != "cpu"):
        with pytest.raises(TypeError, match="name it with solver="):
            SGD(8, device=device, biases=False, **given)


def test_unknown_ids_are_skipped_where_that_is_asked_for():
    columns = ["ann", "ann", "bob", "eve"], ["alien", "heat", "alien", "up"], [5, 2, 4, 3]
    model = ALS(2, device="cpu").fit(columns, 2)
    mixed = ["ann", "zoe", "bob"], ["up", "up", "other"], [3, 1, 5]
    for one in (model, Blend(model, weights=[1])):
        with pytest.raises(ValueError, match="not in the training set; pass unknown='skip' to leave out their"):
            one.score(mixed)
        for ask in (lambda one=one: one.predict("zoe", "up"), lambda one=one: one.recommend(["ann", "zoe"])):
            with pytest.raises(KeyError, match="has the id 'zoe'"):
                ask()
        with pytest.raises(ValueError, match="not in the training set; pass unknown='skip'"):
            one.evaluate_ranking(mixed)
        of_known = ["ann"], ["up"], [3]
        assert one.evaluate_ranking(mixed, 1, unknown="skip") == one.evaluate_ranking(of_known, 1)
        with pytest.raises(ValueError, match="not in the training set; pass unknown='skip'"):
            one.recommend("ann", seen=mixed)
    with pytest.raises(ValueError, match="remove their ratings"):  # nothing else to pass
        model.list_diversity(seen=mixed)
    assert model.score(mixed, unknown="skip") == model.score((["ann"], ["up"], [3]))
    blend = Blend(model, weights=[1])
    assert blend.score(mixed, unknown="skip") == pytest.approx(model.score(mixed, unknown="skip"), rel=1e-5)
    for wrong in ("ignore", None):
        with pytest.raises(ValueError, match="unknown must be"):
            model.score(mixed, unknown=wrong)
    with pytest.raises(ValueError, match="no ratings"):
        model.score((["zoe"], ["up"], [1]), unknown="skip")
    positions = Ratings([0, 1, 1], [0, 0, 1], [4, 3, 5], 3, 3)
    beyond = Ratings([0, 2], [1, 0], [4, 1], 3, 3)
    fitted = ALS(2, device="cpu").fit(positions, 2)
    assert fitted.score(beyond, unknown="skip") == fitted.score(beyond.select([0]))


def test_html_of_a_model_is_a_table_and_escaped():
    model = ALS(2, device="cpu")
    assert "<table>" in model._repr_html_() and "users" not in model._repr_html_()
    model.fit((["a", "b"], ["x", "y"], [1, 2]), 1)
    assert "<th>users</th><td>2</td>" in model._repr_html_()
    model.solver = "<script>"
    assert "<script>" not in model._repr_html_()


def test_a_fit_tries_what_it_leaves_to_the_ratings(monkeypatch):
    """And takes what it finds: here a fourth of the weight of all pairs that it begins with."""
    ratings = ragged_ratings(n_users=60, n_items=300, longest=5, seed=0)
    begun = ImplicitALS(3, device="cpu").fit(ratings, 1).hyperparameters
    tried = []

    def best_shares(judged, first, *steps):
        tried.append(judged(first))
        return first[0] / 4, first[1]

    monkeypatch.setattr(als, "_FEWEST", ratings.nnz)
    monkeypatch.setattr(als, "best_shares", best_shares)
    model = ImplicitALS(3, device="cpu").fit(ratings, 1)
    assert len(tried) == 1 and 0 <= tried[0] <= 1, "lists are judged"
    assert model.hyperparameters.unobserved_weight < begun.unobserved_weight
    assert model.hyperparameters.regularization != begun.regularization
    assert ImplicitALS(3, 0.1, device="cpu").fit(ratings, 1).hyperparameters.regularization == 0.1 and len(tried) == 1


@pytest.mark.parametrize("kind", [ALS, SGD, RBM, ImplicitALS, BayesianMF, Blend])
def test_methods_name_their_parameters_where_another_one_is_given(kind):
    model = kind(*[ALS(2)] * (kind is Blend))
    methods = [name for name, one in inspect.getmembers(kind) if name[0] != "_" and hasattr(one, "__wrapped__")]
    assert {"score", "recommend", "fold_in", "evaluate_ranking"} <= {*methods}
    for name in methods:
        method = getattr(model, name)
        names = ", ".join(inspect.signature(method).parameters)
        with pytest.raises(TypeError, match=rf"^{kind.__name__}\.{name}\(\) has no parameter 'n'; it has {names}$"):
            method(n=10)
