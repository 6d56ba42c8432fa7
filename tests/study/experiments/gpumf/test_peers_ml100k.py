"""SGD beside Surprise: searches of the same size on the same ratings."""

import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from gpumf_study import figure_style as style
from gpumf_study.experiments.gpumf import peers_ml100k as experiment
from outcomes import labelled, promise_words
from support import ragged_ratings

COLUMNS = ["program", "fold", "step", "seed", "rmse", "mae", "train", "wall"]


def rows(ours, svd, apart=0.0):
    """Two folds and seeds of each program, seeds `apart` from each other, and a choice and a timing."""
    found = []
    for program, error in ((experiment.OURS, ours), (experiment.SVD, svd), (experiment.SVD_PLUS_PLUS, 0.9)):
        found += [(program, 0, "choice", 0, 0.5, 0.5, None, None)] * 2 + [
            (program, 0, "timed", 0, 0.1, 0.1, 2.0, 3.0)
        ]
        for fold in (0, 1):
            found += [(program, fold, "test", s, error + fold / 10 + s * apart, error, None, None) for s in (0, 1)]
    return found


def test_who_is_better_is_told_beyond_the_spread_of_the_seeds():
    for ours, svd, apart, expected in (
        (0.90, 0.91, 0.0, "reproduced"),
        (0.92, 0.91, 0.0, "contradicted"),
        (0.905, 0.91, 0.02, "tie"),
    ):
        assert promise_words("peers-ml100k-rmse-svd", COLUMNS, rows(ours, svd, apart)) == expected
    assert promise_words("peers-ml100k-mae-svd", COLUMNS, rows(0.92, 0.91)) == "contradicted"
    assert promise_words("peers-ml100k-rmse-svd-plus-plus", COLUMNS, rows(0.91, 0.95)) == "contradicted"
    without = [row for row in rows(0.9, 0.91) if row[0] != experiment.SVD]
    assert promise_words("peers-ml100k-rmse-svd", COLUMNS, without) == "missing"


def test_the_summary_is_of_the_test_ratings_and_of_what_was_timed_alone(stored):
    frame = pd.DataFrame(rows(0.90, 0.91), columns=COLUMNS)
    table = experiment.summary(frame)
    assert table.rmse[experiment.SVD] == pytest.approx(0.96) and (table.tried == 2).all()
    assert table.loc[experiment.OURS, ["train", "wall"]].to_list() == [2, 3]
    figure = style.save(experiment.figure(frame), stored(frame))
    assert len(figure.axes[0].lines[0].get_xdata()) == 6 and labelled(figure)


@pytest.fixture
def peer(monkeypatch):
    """A package in Surprise's place: it predicts 9, or 1 where it is regularized much; and what it was given."""
    given = []

    class Model:
        def __init__(self, **arguments):
            given.append(arguments)
            self.est = 1.0 if arguments.get("reg_all", 0) > 0.1 else 9.0

        def fit(self, trainset):
            given[-1]["n"] = len(trainset)

        def predict(self, user, item):
            return SimpleNamespace(est=self.est)

    class Dataset:
        @staticmethod
        def load_from_df(columns, reader):
            return SimpleNamespace(build_full_trainset=lambda: columns)

    package = SimpleNamespace(SVD=Model, SVDpp=Model, BaselineOnly=Model, Dataset=Dataset, Reader=lambda **_: None)
    monkeypatch.setitem(sys.modules, "surprise", package)
    monkeypatch.setattr(experiment, "version", lambda name: "0")
    monkeypatch.setattr(experiment, "_all", lambda sets, jobs: [experiment._trained(sets, job) for job in jobs])
    return given


def test_settings_are_chosen_on_held_out_training_ratings_and_judged_on_the_test_ratings(peer):
    grid = {"factors": [4], "regularization": [0.05, 0.5], "learning_rate": [0.01], "epochs": [2], "init_std": [0.2]}
    grids = {experiment.OURS: grid, experiment.SVD: grid, experiment.BIASES: {}}
    frame = experiment.run("ml-100k-synthetic", 2, grids, 2, 1)
    for (program, fold), of in frame.groupby(["program", "fold"]):
        choices, tests = of[of.step == "choice"], of[of.step == "test"]
        assert len(choices) == (0 if program == experiment.BIASES else 2) and len(tests) == 2, (program, fold)
        if len(choices):
            assert (tests.regularization == choices.loc[choices.rmse.idxmin(), "regularization"]).all()
    # Nine is outside the scale: all are judged by what can be rated.
    svd = frame[(frame.program == experiment.SVD) & (frame.step == "test")]
    assert svd.regularization.eq(0.05).all() and svd.rmse.max() < 2.5
    assert {arguments["n"] for arguments in peer} == {72000, 80000}
    assert all(arguments["init_std_dev"] == 0.2 for arguments in peer if "reg_all" in arguments)
    assert np.isfinite(frame.wall[frame.step == "timed"]).all() and frame.wall[frame.step != "timed"].isna().all()


def test_choices_at_an_edge_of_the_grid_are_those_of_a_program():
    rows = [(name, fold, "choice", 0, value, 0.1, 0.01, 50)
            for name in (experiment.OURS, experiment.SVD) for fold in (0, 1) for value in (1, 2, 3)]  # fmt: skip
    rows += [(experiment.OURS, fold, "test", 0, fold + 1, 0.1, 0.01, 50) for fold in (0, 1)]
    rows += [(experiment.SVD, fold, "test", 0, 2, 0.1, 0.01, 50) for fold in (0, 1)]
    columns = ["program", "fold", "step", "seed", "regularization", "init_std", "learning_rate", "epochs"]
    frame = pd.DataFrame(rows, columns=columns)
    assert experiment.at_edges(frame, experiment.OURS).to_dict() == {"regularization": 1}
    assert experiment.at_edges(frame, experiment.SVD).to_dict() == {"regularization": 0}


def test_what_is_chosen_does_not_depend_on_the_test_ratings(monkeypatch):
    ratings = ragged_ratings(n_users=80, seed=2)
    _, test = next(iter(ratings.kfold(5)))
    judged = np.isin(ratings.users * ratings.n_items + ratings.items, test.users * ratings.n_items + test.items)
    mirrored = replace(ratings, values=np.where(judged, 6 - ratings.values, ratings.values).astype(np.float32))
    grid = {"factors": [4], "regularization": [0.01, 0.5], "learning_rate": [0.02], "epochs": [1, 3]}
    monkeypatch.setattr(experiment, "_all", lambda sets, jobs: [experiment._trained(sets, job) for job in jobs])
    monkeypatch.setattr(experiment, "version", lambda package: "0")
    monkeypatch.setattr(experiment, "identity", lambda ratings: {})
    frames = []
    for made in (ratings, mirrored):
        monkeypatch.setattr(experiment, "load_ratings", lambda data, made=made: made)
        frames.append(experiment.run("a", 1, {experiment.OURS: grid}, seeds=2, repeats=0).set_index("step"))
    choices, tests = ([frame.loc[step] for frame in frames] for step in ("choice", "test"))
    pd.testing.assert_frame_equal(*choices)
    assert tests[0][list(grid)].equals(tests[1][list(grid)]) and (tests[0].rmse != tests[1].rmse).all()
    best = choices[0].sort_values("rmse").iloc[0]
    assert (tests[0][list(grid)] == best[list(grid)]).all(axis=None)
