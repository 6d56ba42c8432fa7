"""SGD beside Surprise: searches of the same size on the same ratings."""

import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from gpumf_study import schema
from gpumf_study.experiments.gpumf import peers_ml100k as experiment
from support import ragged_ratings

COLUMNS = ["program", "fold", "step", "seed", "rmse", "mae", "train", "wall"]


def rows(ours, svd):
    """Two folds and seeds of each program, and a choice and a timing."""
    found = []
    for program, error in ((experiment.OURS, ours), (experiment.SVD, svd), (experiment.SVD_PLUS_PLUS, 0.9)):
        found += [(program, 0, "choice", 0, 0.5, 0.5, None, None), (program, 0, "timed", 0, 0.1, 0.1, 2.0, 3.0)]
        for fold in (0, 1):
            found += [(program, fold, "test", seed, error + fold / 10, error, None, None) for seed in (0, 1)]
    return experiment.in_rows(pd.DataFrame(found, columns=COLUMNS))


def test_the_summary_is_of_the_test_ratings_and_of_what_was_timed_alone():
    frame = schema.validated(rows(0.90, 0.91))
    table = experiment.summary(frame)
    assert table.rmse[experiment.SVD] == pytest.approx(0.96) and (table.tried == 1).all()
    assert table.loc[experiment.OURS, ["train", "end_to_end"]].to_list() == [2, 3]
    claims = {claim.id: claim.estimate(frame).value for claim in experiment.CLAIMS}
    assert claims["peers-ml100k-rmse-svd"] == pytest.approx(0.01)
    assert np.isnan(claims["peers-ml100k-rmse-svd-plus-plus"]), "it has no peer of its size"


def test_errors_of_the_summary_differ_by_what_the_claims_say():
    """Of seeds whose mean is not their median."""
    frame = rows(0.90, 0.91)
    lucky = (frame.model == experiment.SVD) & (frame.x_step == "test") & (frame["repeat"] == 0)
    third = frame[frame.x_step == "test"].assign(repeat=2)
    frame = pd.concat([frame.assign(value=frame.value.mask(lucky, frame.value - 0.3)), third], ignore_index=True)
    errors = experiment.summary(frame).rmse
    claims = {claim.id: claim.estimate(frame).value for claim in experiment.CLAIMS}
    assert errors[experiment.SVD] - errors[experiment.OURS] == pytest.approx(claims["peers-ml100k-rmse-svd"])


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
    frame = schema.validated(experiment.run("ml-100k-synthetic", 2, grids, 2, 1))
    timed, frame = frame[frame.phase.notna()], frame[frame.metric == "rmse"]
    for (program, _), of in frame.groupby(["model", "x_fold"]):
        choices, tests = of[of.x_step == "choice"], of[of.x_step == "test"]
        assert len(choices) == (0 if program == experiment.BIASES else 2) and len(tests) == 2, program
        if len(choices):
            assert (tests.x_regularization == choices.x_regularization[choices.value.idxmin()]).all()
    # Nine is outside the scale: all are judged by what can be rated.
    svd = frame[(frame.model == experiment.SVD) & (frame.x_step == "test")]
    assert svd.x_regularization.eq(0.05).all() and svd.value.max() < 2.5
    assert {arguments["n"] for arguments in peer} == {72000, 80000}
    assert all(arguments["init_std_dev"] == 0.2 for arguments in peer if "reg_all" in arguments)
    assert np.isfinite(timed.seconds).all() and set(timed.x_step) == {"timed"} and len(timed) == 2 * len(grids)


def test_what_is_chosen_does_not_depend_on_the_test_ratings(monkeypatch):
    ratings = ragged_ratings(n_users=80, seed=2)
    _, test = next(iter(ratings.kfold(5)))
    judged = np.isin(ratings.users * ratings.n_items + ratings.items, test.users * ratings.n_items + test.items)
    mirrored = replace(ratings, values=np.where(judged, 6 - ratings.values, ratings.values).astype(np.float32))
    grid = {"factors": [4], "regularization": [0.01, 0.5], "learning_rate": [0.02], "epochs": [1, 3]}
    monkeypatch.setattr(experiment, "_all", lambda sets, jobs: [experiment._trained(sets, job) for job in jobs])
    monkeypatch.setattr(experiment, "version", lambda package: "0")
    frames = []
    for made in (ratings, mirrored):
        monkeypatch.setattr(experiment, "load_ratings", lambda data, made=made: made)
        frames.append(experiment.run("a", 1, {experiment.OURS: grid}, seeds=2, repeats=0).set_index("x_step"))
    choices, tests = ([frame.loc[step] for frame in frames] for step in ("choice", "test"))
    pd.testing.assert_frame_equal(*choices)
    chosen = ["factors", "x_regularization", "x_learning_rate", "epoch"]
    assert tests[0][chosen].equals(tests[1][chosen]) and (tests[0].value != tests[1].value).all()
    best = choices[0][choices[0].metric == "rmse"].sort_values("value").iloc[0]
    assert (tests[0][chosen] == best[chosen]).all(axis=None)


def test_a_run_that_is_stopped_goes_on_where_it_was(peer, repository, monkeypatch):
    grids = {experiment.SVD: {"regularization": [0.05, 0.5]}, experiment.BIASES: {}}
    monkeypatch.setattr(
        experiment._kept.results, "provenance", lambda: {"clean": True, "commit": "c0ffee", "started": "2026"}
    )
    trained = experiment._trained

    def stopped(sets, job):
        if job[2] == "timed":
            raise KeyboardInterrupt
        return trained(sets, job)

    monkeypatch.setattr(experiment, "_trained", stopped)
    with pytest.raises(KeyboardInterrupt), experiment._kept.measured("peers_ml100k", grids):
        experiment.run("ml-100k-synthetic", 1, grids, 1, 1)
    made = len(peer)
    monkeypatch.setattr(experiment, "_trained", trained)
    with experiment._kept.measured("peers_ml100k", grids):
        frame = experiment.run("ml-100k-synthetic", 1, grids, 1, 1)
    assert made == 2 + 2 and len(peer) == made + 2, "two choices and two tests, then the two timings"
    assert frame[frame.metric == "rmse"].x_step.value_counts().to_dict() == {"choice": 2, "test": 2, "timed": 2}
