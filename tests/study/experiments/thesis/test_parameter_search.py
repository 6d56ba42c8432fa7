"""The search for lambda and the learning rate."""

import numpy as np
import pandas as pd
import pytest

from gpumf_study.experiments.thesis import parameter_search
from support import ragged_ratings


def test_a_run_ends_when_it_has_gone_on_for_twice_as_long_as_to_its_best():
    stop = parameter_search.OverfittingStop()
    maes = [0.1, 0.9, 0.8, 0.7, *[0.75] * 60]
    ended = next(epoch for epoch, mae in enumerate(maes) if stop({"epoch": epoch, "mae": mae}))
    assert ended == 2 * 3 + 30 + 1, "the initial model counts for nothing"


def test_the_best_epoch_is_one_that_was_trained():
    history = pd.DataFrame({"epoch": [0, 1, 2], "mae": [0.1, 0.9, 0.8]})
    assert parameter_search.best_epoch(history).epoch == 2
    assert parameter_search.best_epoch(history.assign(mae=np.nan)).epoch == 2


@pytest.mark.parametrize(("share", "epochs"), [(0.5, 1), (1, 1), (2.5, 3)])
def test_hogwild_makes_at_least_the_wanted_updates(monkeypatch, share, epochs):
    ratings, trained = ragged_ratings(seed=0), []

    def searched(model, varied, values, sets, epochs):
        trained.append((type(model).__name__, sets[0].nnz, epochs))
        return [{"x_held_out_mae": 1.0, "x_learning_rate": 0.1, "rmse": 1.0, "mae": 1.0}]

    monkeypatch.setattr(parameter_search, "_searched", searched)
    monkeypatch.setattr(parameter_search, "load_ratings", lambda name: ratings)
    smoke = parameter_search.PROFILES["smoke"]
    nnz = ratings.split(0.2, seed=0)[0].nnz
    parameter_search.run(**smoke | {"updates": share * nnz})
    assert [of for of in trained if of[0] == "SGD"] == [("SGD", nnz, epochs)] * 2
