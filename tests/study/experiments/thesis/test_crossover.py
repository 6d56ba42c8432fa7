"""Where SGD is faster than ALS."""

from types import SimpleNamespace

import numpy as np
import pandas as pd

from gpumf import ALS
from gpumf.ratings import Ratings
from gpumf_study.experiments.thesis import crossover
from support import ragged_ratings


def test_biases_are_those_of_the_training_ratings():
    train, held_out = ragged_ratings(seed=0).split(0.2)
    error = np.abs(held_out.values - train.mean).mean()
    assert 0 < crossover.biases_mae(train, held_out) < 1.2 * error


def test_biases_predict_ratings_that_are_sums_of_biases():
    """Of users and of items: of either alone, half the spread is left."""
    users, items = np.divmod(np.arange(60 * 40), 40)
    values = 3 + np.linspace(-1, 1, 60)[users] + np.linspace(1, -1, 40)[np.argsort(np.sin(np.arange(40)))][items]
    train, held_out = Ratings(users, items, values, 60, 40).split(0.2, seed=0)
    assert crossover.biases_mae(train, held_out) < 0.15 * np.abs(held_out.values - train.mean).mean()


def test_settings_with_few_ratings_of_a_row_are_timed_to_the_same_error():
    grid = {"factors": [4], "regularization": [0.1], "learning_rate": [0.02], "epochs": {"ALS": 3, "SGD": 10}}
    frame = crossover.run({"ml-100k-synthetic": [0.05]}, **grid, repeats=1)
    assert set(frame.model) == {"ALS", "SGD"} and frame.x_level.nunique() == 1
    assert frame.seconds.notna().any() and np.allclose(frame.value, frame.x_level, rtol=0.1)
    assert not np.isin(frame.value, frame.x_level).any(), "the level is of other ratings"


def test_parameters_are_chosen_by_epochs_to_the_level_then_by_errors():
    def history(*maes):
        return pd.DataFrame({"epoch": range(len(maes)), "seconds": range(len(maes)), "mae": maes})

    late, soon, never, worse = (0.1, 0.9, 0.5), (0.1, 0.6, 0.7), (0.1, 0.9, 0.8), (0.1, 0.95, 0.9)
    order = sorted([worse, never, late, soon], key=lambda maes: crossover._fastest(history(*maes), 0.65))
    assert order == [soon, late, never, worse]


def test_a_scheme_runs_with_the_most_factors_that_it_takes(monkeypatch):
    monkeypatch.setattr(crossover.backends, "available", lambda: False)
    monkeypatch.setattr(crossover, "load_ratings", lambda name: ragged_ratings(n_users=80, seed=0))
    kernel, _ = crossover._ON_CPU["fastest"]["ALS"]
    monkeypatch.setattr(ALS.solver_classes()[kernel], "max_factors", 4)
    grid = {"factors": [4], "regularization": [0.1], "learning_rate": [0.02], "epochs": {"ALS": 1, "SGD": 1}}

    def trained(model, *what, stop):
        history = pd.DataFrame({"epoch": [0, 1], "seconds": [0.0, 2.0], "rmse": 1.0, "mae": [0.9, 0.7]})
        return SimpleNamespace(
            history=history, solver=model.solver, device=model.device, score=lambda ratings: {"mae": 0.8}
        )

    monkeypatch.setattr(crossover, "trained", trained)
    frame = crossover.run({"ragged": [1]}, **grid, repeats=1)
    assert (
        set(frame.seconds) == {2}
        and set(frame.value) == {0.8}
        and set(frame.x_level) == {(1 + crossover.SLACK) * 0.7}
    )
    assert set(frame[frame.variant == "fastest"].model) == {"ALS", "SGD"} and set(frame.factors) == {4}
