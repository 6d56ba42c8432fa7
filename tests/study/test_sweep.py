"""Trainings as rows, and what is read off them."""

import numpy as np
import pandas as pd

from gpumf import ALS, SGD
from gpumf_study import schema, sweep
from support import ragged_ratings


def courses(**of_solver):
    """Runs of two repeats; of each solver (seconds an epoch, values after each epoch from 0 on)."""
    lots = []
    for solver, (seconds, values) in of_solver.items():
        for repeat in (0, 1):
            epochs = np.arange(len(values))
            labels = {"data": "small", "solver": solver, "repeat": repeat}
            each = {"epoch": epochs, "phase": "train", "seconds": epochs * seconds, "metric": "rmse", "value": values}
            lots.append(pd.DataFrame(labels | each))
            phases = {"phase": ["preprocess", "compile", "end_to_end"], "seconds": [1.0, 3.0, 10.0]}
            lots.append(pd.DataFrame(labels | phases))
    return schema.validated(pd.concat(lots, ignore_index=True))


def read(found, *columns):
    return found.set_index(["solver", "repeat"])[list(columns)].loc[:, 0, :].to_dict("index")


def test_epochs_and_errors_are_those_of_each_run():
    frame = courses(fast=(0.5, [2.0, 1.0, 1.25, 1.5]), slow=(2.0, [2.0, 1.5, 1.25, 1.0]))
    assert read(sweep.last_epoch(frame), "epoch", "value") == {
        "fast": {"epoch": 3, "value": 1.5},
        "slow": {"epoch": 3, "value": 1.0},
    }
    assert read(sweep.best_epoch(frame), "epoch", "value") == {
        "fast": {"epoch": 1, "value": 1.0},
        "slow": {"epoch": 3, "value": 1.0},
    }
    assert read(sweep.time_to_error(frame, 1.25), "epoch", "seconds") == {
        "fast": {"epoch": 1, "seconds": 0.5},
        "slow": {"epoch": 2, "seconds": 4.0},
    }
    assert sweep.time_to_error(frame, 0.5).empty
    assert sweep.time_to_error(frame, 3.0).epoch.unique() == 1, "an untrained model has not reached anything"
    by_data = sweep.time_to_error(frame, pd.Series({"small": 1.0}))
    assert by_data.groupby("solver").epoch.first().to_dict() == {"fast": 1, "slow": 3}
    assert sweep.epoch_seconds(frame).groupby("solver").seconds.agg(["count", "max"]).to_numpy().tolist() == [
        [6, 0.5],
        [6, 2.0],
    ]


def test_phases_are_those_of_the_whole_run():
    frame = courses(fast=(0.5, [2.0, 1.0]))
    assert sweep.phase_seconds(frame).seconds.tolist() == [10, 10]
    assert sweep.phase_seconds(frame, "end_to_end", without=("compile", "preprocess")).seconds.tolist() == [6, 6]


def test_what_diverged_has_no_speed():
    frame = courses(fast=(0.5, [2.0, np.nan]), slow=(2.0, [2.0, 1.0]))
    assert sweep.diverged(frame).groupby(frame.solver).all().to_dict() == {"fast": True, "slow": False}
    for found in (sweep.last_epoch, sweep.best_epoch, sweep.epoch_seconds, sweep.phase_seconds):
        assert set(found(frame).solver) == {"slow"}
    assert set(sweep.time_to_error(frame, 9.0).solver) == {"slow"}


def test_models_are_trained_on_every_split():
    def models(train, repeat):
        yield {"variant": "one"}, ALS(2, device="cpu", seed=repeat)
        yield {"variant": "two", "epochs": 3}, SGD(3, device="cpu", seed=repeat)

    frame = sweep.sweep(models, ["ml-100k-synthetic"], 2, 2, part=(60, 50), metrics=("rmse", "mae"))
    frame = schema.validated(frame)
    last = sweep.last_epoch(frame, "mae").set_index(["model", "repeat"])
    assert last.epoch.to_dict() == {("ALS", 0): 2, ("SGD", 0): 3, ("ALS", 1): 2, ("SGD", 1): 3}
    assert last.factors.to_dict()["SGD", 1] == 3 and set(last.device) == {"cpu"} and set(last.task) == {"fit"}
    assert last.value.nunique() == 4 and last.x_nnz.gt(0).all()
    assert set(frame.phase) == set(schema.PHASES)
    whole, train = (sweep.phase_seconds(frame, phase).seconds for phase in ("end_to_end", "train"))
    assert (whole > train).all()


def test_a_diverged_training_ends_with_missing_values():
    def models(train, repeat):
        yield {}, SGD(2, learning_rate=1e6, solver="sequential", device="cpu", biases=False)

    with np.errstate(all="ignore"):
        frame = sweep.sweep(models, ["ml-100k-synthetic"], 3, 1, part=(60, 50))
    assert sweep.diverged(frame).all() and schema.validated(frame).value.isna().any()


def test_without_a_test_set_epochs_have_seconds_alone():
    def models(train, repeat):
        yield {}, SGD(2, solver="sequential", device="cpu", seed=repeat)

    frame = sweep.sweep(models, ["ml-100k-synthetic"], 2, 2, held_out=0, part=(60, 50), metrics=())
    frame = schema.validated(frame)
    assert "metric" not in frame and not sweep.diverged(frame).any()
    assert sweep.epoch_seconds(frame).groupby("repeat").epoch.agg(list).tolist() == [[1, 2], [1, 2]]
    assert len(sweep.phase_seconds(frame)) == 2


def test_a_corner_has_the_first_users_and_items_and_nothing_else():
    whole = ragged_ratings(seed=1)
    part = sweep.corner(whole, (5, 4))
    inside = (whole.users < 5) & (whole.items < 4)
    assert (part.n_users, part.n_items, part.nnz) == (5, 4, inside.sum()) and 0 < part.nnz < whole.nnz
    np.testing.assert_array_equal(part.values, whole.values[inside])
    assert sweep.corner(whole, None) is whole and sweep.corner(whole, (10**6, 10**6)).nnz == whole.nnz
