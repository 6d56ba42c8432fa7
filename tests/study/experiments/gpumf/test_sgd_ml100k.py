"""SGD on MovieLens 100k, with parameters that held-out ratings choose."""

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
