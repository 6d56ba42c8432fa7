"""SGD: how its schemes converge, and what they make of hard shapes."""

from itertools import islice

import numpy as np
import pytest

from cases import sgd_case
from gpumf import SGD
from gpumf.ratings import Ratings, dataset_names, load_dataset
from gpumf.solvers import schedules
from gpumf_study.experiments.gpumf import sgd_spread
from support import SCHEMES, planted, ragged_ratings, schemes, to_numpy


@pytest.mark.parametrize(
    ("kernel", "options"), [(k, o) for k, o in SCHEMES if k in ("gpusgd", "newgpusgd", "bsgd", "cumf_sgd")]
)
def test_an_epoch_of_many_launches_is_recorded_once(launcher, kernel, options):
    case = sgd_case(launcher.name, kernel, ragged_ratings(n_users=30, longest=20, seed=1), 5, **options)
    trainer, (p, _) = case.make_solver(), case.start
    trainer._kernel = None  # nobody launches one by one again
    for number in range(2):
        trainer.epoch(number)
        new_p, _ = to_numpy(launcher.name, *trainer.factors())
        assert np.abs(new_p - p).max() > 1e-3
        p = new_p.copy()


@schemes
def test_every_scheme_converges_like_the_sequential_reference(launcher, kernel, options):
    (train, test), epochs = (planted(60, 50, 0.3), 6) if launcher.name == "emulator" else (planted(400, 300, 0.3), 20)
    parameters = {"factors": 5, "regularization": 0.01, "learning_rate": 0.02, "biases": True}
    options = {name: value for name, value in options.items() if name not in ("batch", "run")}
    if kernel in ("bsgd", "esgd"):
        options = {"bsgd": {"batch": 32}, "esgd": {"th_size": 70}}[kernel]
    expected = SGD(solver="sequential", **parameters).fit(train, epochs, test).history.rmse
    parameters["learning_rate"] *= 5 if options.get("row_rates") else 1  # from which they fall
    fitted = SGD(solver=kernel, device=launcher.name, **parameters, **options).fit(train, epochs, test)
    assert expected.iloc[-1] < 0.9 * expected.iloc[0]
    slack = {"kato_hosino": 1.1, "cu2rec": 1.35}.get(kernel, 1.06)
    assert fitted.history.rmse.iloc[-1] < slack * expected.iloc[-1], kernel


def best_on_ml_100k(kernel, epochs=40, **parameters):
    """The best test RMSE of a training, the mean over two of five folds."""
    folds = islice(load_dataset("ml-100k").kfold(5), 2)
    fits = (SGD(16, biases=True, solver=kernel, **parameters).fit(train, epochs, test) for train, test in folds)
    return np.mean([fitted.history.rmse.min() for fitted in fits])


@pytest.fixture(scope="module")
def sequential_on_ml_100k():
    if not dataset_names().present["ml-100k"]:
        pytest.skip("ml-100k is not on this machine")
    return best_on_ml_100k("sequential", **sgd_spread.RATES)


@schemes
def test_on_ml_100k_every_scheme_is_as_good_as_the_sequential_one(cuda, sequential_on_ml_100k, kernel, options):
    parameters = sgd_spread.RATES_OF_CU2REC | {"epochs": 100} if kernel == "cu2rec" else sgd_spread.RATES
    if options.get("row_rates"):
        parameters = parameters | {"learning_rate": 0.1, "schedule": schedules.Constant()}
    best = best_on_ml_100k(kernel, **parameters, **options)
    assert best < sequential_on_ml_100k + (0.012 if kernel == "cu2rec" else 0.005)


@pytest.mark.parametrize("solver", ["sequential", "ordered", "ordered_parallel"])
def test_solvers_of_the_cpu_are_deterministic_and_seeded(solver):
    ratings = ragged_ratings(seed=4)
    fits = [SGD(16, solver=solver, seed=s, biases=False).fit(ratings, 3).user_factors for s in (1, 1, 2)]
    assert np.array_equal(fits[0], fits[1]) and not np.allclose(fits[0], fits[2])


SHAPES = {
    "one rating": Ratings([0], [0], [3.0], 1, 1),
    "one user": Ratings(np.zeros(40), np.arange(40), np.arange(40) % 5, 1, 40),
    "one item": Ratings(np.arange(40), np.zeros(40), np.arange(40) % 5, 40, 1),
    "empty rows and columns": Ratings([7, 7, 20], [3, 11, 3], [1.0, 2.0, 5.0], 50, 30),
    "cells rated more than once": Ratings([1, 1, 1, 2], [2, 2, 2, 2], [1.0, 5.0, 3.0, 2.0], 4, 3),
    "equal ratings": Ratings(np.arange(30) % 6, np.arange(30) // 6, np.zeros(30), 6, 5),
}


@schemes
@pytest.mark.parametrize("shape", SHAPES)
def test_hostile_shapes_stay_within_bounds_and_finite(launcher, kernel, options, shape):
    ratings = SHAPES[shape]
    for biases in (False, "baseline"):
        model = SGD(5, solver=kernel, device=launcher.name, biases=biases, learning_rate=0.005, **options)
        fits = [model.fit(ratings, 2, ratings) for _ in range(2)]
        for fitted in fits:
            assert np.isfinite(fitted.user_factors).all() and np.isfinite(fitted.item_factors).all()
            assert fitted.history.rmse.iloc[-1] <= 1.001 * fitted.history.rmse.iloc[0]
        start, _ = model.initial_factors(ratings)
        without = np.setdiff1d(np.arange(ratings.n_users), ratings.users)
        if kernel != "fast" and "update" not in options and kernel != "cumf_sgd":  # these round to halves
            assert np.array_equal(fits[0].user_factors[without], start[without])


@pytest.mark.parametrize("solver", [name for name, device in SGD.solvers().items() if device == "cpu"])
def test_ratings_may_be_read_only(solver):
    """As arrays of files that are mapped, and columns of data frames, are."""
    ratings = ragged_ratings(20, 10, 8, seed=1)
    arrays = [np.array(column) for column in (ratings.users, ratings.items, ratings.values)]
    for array in arrays:
        array.flags.writeable = False
    options = {"solver": solver, "device": "cpu", "threads": 1, "biases": False}
    one, other = (
        SGD(3, **options).fit(Ratings(*of, 20, 10), 2).user_factors for of in (arrays, map(np.copy, arrays))
    )
    assert np.array_equal(one, other)
