"""Where SGD is faster than ALS."""

from types import SimpleNamespace

import numpy as np
import pandas as pd

from gpumf import ALS
from gpumf_study import figure_style as style
from gpumf_study.experiments.thesis import crossover
from support import ragged_ratings


def mapped():
    """Two parts of a set: with few ratings of a row SGD is faster from 16 factors on, with many from 64."""
    rows = []
    for nnz, first in ((1000, 16), (10_000, 64)):
        for factors in (8, 16, 32, 64):
            for model in ("ALS", "SGD"):
                seconds = 1.0 if model == "ALS" else 2.0 if factors < first else 0.5
                rows.append(("a", nnz / 1e4, 50, 50, nnz, "fastest", model, model, factors, 0, seconds, 0.7))
    columns = ["data", "x_density", "x_n_users", "x_n_items", "x_nnz", "variant", "model", "solver", "factors"]
    frame = pd.DataFrame(rows, columns=[*columns, "repeat", "seconds", "value"])
    return frame.assign(x_level=0.7, x_biases_mae=0.8)


def several(turned=""):
    """Three sets alike; in those turned SGD is faster where it is not in the others."""
    frames = []
    for name in "abc":
        frame = mapped().assign(data=name)
        of_sgd = frame.model == "SGD"
        frame.loc[of_sgd & (name in turned), "seconds"] = 1 / frame.seconds
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)


def test_the_boundary_is_judged_on_data_sets_that_it_was_not_fitted_to():
    assert crossover.told(several()).x_gain.tolist() == [0.5] * 3, "all told, of which the majority is a half"
    assert (crossover.told(several(turned="c")).x_gain < 0).any() and crossover.told(mapped()).empty
    assert crossover.shares(several()).x_share_sgd.tolist() == [0.5] * 3


def test_biases_are_those_of_the_training_ratings():
    train, held_out = ragged_ratings(seed=0).split(0.2)
    error = np.abs(held_out.values - train.mean).mean()
    assert 0 < crossover.biases_mae(train, held_out) < 1.2 * error


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


def test_a_figure_of_a_live_result_is_not_saved(store, repository):
    for live in (True, False):
        result = store("crossover", mapped(), live=live)
        style.save(crossover.figure(result.frame), result)
        assert (repository / "figures/thesis/crossover.svg").exists() is not live


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
