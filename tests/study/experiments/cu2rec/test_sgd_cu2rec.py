"""Steps and epochs of SGD at the sizes of cu2rec."""

import numpy as np
import pandas as pd
import pytest

from gpumf import SGD
from gpumf_study.experiments.cu2rec import sgd_cu2rec
from outcomes import lines, promise_words
from support import ragged_ratings


def test_steps_and_epochs_of_sgd_are_summed_up_and_drawn():
    rows = [(f, 10, 100, s * f, r) for f in (50, 300) for r, s in ((0.9, 1.0), (0.8, 3.0), (0.7, 2.0))]
    frame = pd.DataFrame(rows, columns=["factors", "steps", "updates", "seconds", "rmse"])
    table = sgd_cu2rec.summary(frame)
    assert list(table.seconds) == [100, 600] and list(table.spread) == [100, 600] and list(table.rmse) == [0.9, 0.9]
    assert lines(sgd_cu2rec.figure(frame).axes[0])["median"] == ([50, 300], [100, 600])


def test_the_steps_of_cu2rec_are_of_its_own_size():
    columns = ["data", "factors", "steps", "seconds"]
    for factors, times in ((50, (0.09, 0.2, 0.4)), (300, (0.4, 1.0, 1.3))):
        for seconds_, expected in zip(times, ("stretch", "target", "short"), strict=True):
            rows = [("ml-10m-synthetic", factors, 3000, seconds_), ("ml-10m-synthetic", factors, 30, 1e-9)]
            assert promise_words(f"sgd-cu2rec{factors}-seconds", columns, rows) == expected


@pytest.mark.emulator
def test_a_model_with_biases_is_trained_on_what_ratings_are_above_their_mean(host, monkeypatch):
    ratings, trained_on = ragged_ratings(seed=0), []

    class Solver:
        def __init__(self, train):
            trained_on.append(train)

        def take_steps(self, first, count):
            trained_on.append((first, count))

        def training_errors(self):
            return 0.5, 0.25

    monkeypatch.setattr(sgd_cu2rec, "load_ratings", lambda name: ratings)
    monkeypatch.setattr(SGD, "make_solver", lambda self, train: Solver(train))
    frame = sgd_cu2rec.run("x", [4], steps=3, repeats=2, regularization=0.02, learning_rate=0.01)
    train, *steps = trained_on
    assert abs(train.mean) < 1e-5 and train.values.min() < 0 < train.values.max() and np.ptp(train.values) == 4
    assert steps == [(0, 1), (1, 3), (4, 3)]
    assert (frame.rmse == 0.5).all() and (frame.mae == 0.25).all()
    assert (frame.updates == 3 * np.count_nonzero(train.by_user.counts)).all()
