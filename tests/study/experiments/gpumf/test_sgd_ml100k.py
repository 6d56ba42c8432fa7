"""SGD on MovieLens 100k, with parameters that held-out ratings choose."""

import pandas as pd
import pytest

from gpumf_study.experiments.gpumf import sgd_ml100k


def test_parameters_are_chosen_on_held_out_training_ratings_alone():
    grid = {"factors": [4], "regularization": [0.1], "bias_regularization": [0.02], "learning_rate": [0.02, 1e-5]}
    frame = sgd_ml100k.run("ml-100k-synthetic", "sequential", **grid, beta=[0.05], init_std=[0.1], epochs=3, seeds=2)
    table, frame = sgd_ml100k.summary(frame).set_index("measure"), sgd_ml100k.trainings(frame)
    for _, fold in frame.groupby("fold"):
        choices, tests = (fold[fold.step == step] for step in ("choice", "test"))
        best = choices.loc[choices.rmse.idxmin()]
        assert len(choices) == 2 and len(tests) == 2 and best.learning_rate == 0.02
        assert (tests.learning_rate == best.learning_rate).all() and (tests.epochs == best.epochs).all()
    assert table.loc["rmse", "mean"] == pytest.approx(frame[frame.step == "test"].rmse.mean())
    assert (table.spread > 0).all()


def test_what_is_chosen_at_an_edge_of_the_grid_is_told():
    columns = ["fold", "step", "seed", "factors", "regularization", "bias_regularization", "learning_rate", "beta"]
    columns += ["init_std"]
    rows = [(f, "choice", 0, 4, value, 0, 0.1, 0, 0.1) for f in (0, 1) for value in (1, 2, 3)]
    tests = [(0, 0, 2), (1, 0, 3), (1, 1, 3), (1, 2, 3)]
    rows += [(fold, "test", seed, 4, value, 0, 0.1, 0, 0.1) for fold, seed, value in tests]
    assert sgd_ml100k.at_edges(pd.DataFrame(rows, columns=columns)).to_dict() == {"regularization": 1}
