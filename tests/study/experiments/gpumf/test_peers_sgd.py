"""SGD beside LIBMF: seconds and errors of what held-out ratings chose."""

import os
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from gpumf_study import schema
from gpumf_study.experiments.gpumf import peers_sgd as experiment
from support import ragged_ratings

COLUMNS = ["model", "x_step", "repeat", "x_regularization", "epoch", "x_chosen", "train", "wall", "rmse"]


def rows():
    """Two repeats of LIBMF, 10 s at what was chosen, and of the GPU's; and what chose, which counts for nothing."""
    found = [(experiment.PEER, "choice", 0, 0.05, 50, 1, None, None, 0.1)]
    for repeat in (0, 1):
        for epochs, share, more in ((5, 0.4, 0.1), (20, 1.0, 0.0), (40, 2.0, -0.3))[repeat : 3 - repeat]:
            chosen = int(epochs == 20)
            found.append((experiment.PEER, "test", repeat, 0.05, epochs, chosen, None, 10 * share, 0.92 + more))
            found.append(("gpumf, GPU", "test", repeat, 0.08, epochs, chosen, share, share, 0.9 + more))
    return schema.validated(experiment.in_rows(pd.DataFrame(found, columns=COLUMNS)).assign(data="a", task="fit"))


def test_programs_are_timed_to_the_error_that_all_reach():
    found = experiment.reached(rows().assign(x_learning_rate=0.1)).set_index(["model", "repeat"]).seconds
    assert found[experiment.PEER].to_list() == [10, 10] and found["gpumf, GPU"].to_list() == [1, 1]
    assert experiment.reached(rows()).empty, "a frame whose rates were not searched"


def test_every_program_chooses_and_is_judged(monkeypatch):
    def libmf(factors, file, mean, judge, epochs, regularization, rate):
        assert np.load(file).shape[1] == 3
        setting = {"x_regularization": regularization, "x_learning_rate": rate, "epoch": epochs}
        return setting | {"train": np.nan, "wall": 1.0, "rmse": 1.0 / epochs}

    monkeypatch.setattr(experiment, "libmf", libmf)
    monkeypatch.setattr(experiment, "version", {"libmf": "0.9"}.__getitem__)
    frame = schema.validated(experiment.run(**experiment.PROFILES["smoke"]))
    assert {experiment.PEER, experiment.CORES} <= set(frame.model)
    assert set(frame.groupby("model").x_step.nunique()) == {2}
    most = experiment.PROFILES["smoke"]["epochs"]
    assert set(frame.epoch[(frame.model == experiment.PEER) & (frame.x_chosen == 1)]) == {max(most)}


@pytest.mark.slow
def test_libmf_is_trained_on_the_ratings_that_it_is_given(monkeypatch):
    train, judge = ragged_ratings(12, 9, 6, seed=1).split(0.2)
    asked = {}

    class Factorization:
        """In the place of the package's class; has factors, of ones and twos, only of what it was fitted to."""

        def __init__(self, **options):
            asked.update(options)

        def fit(self, triples):
            np.testing.assert_array_equal(triples, np.column_stack([train.users, train.items, train.values]))
            self.fitted = np.ones((train.n_users, 2)), 2 * np.ones((train.n_items, 2))

        def p_factors(self):
            return self.fitted[0]

        def q_factors(self):
            return self.fitted[1]

    monkeypatch.setitem(sys.modules, "libmf", SimpleNamespace(mf=SimpleNamespace(MF=Factorization)))
    monkeypatch.setattr(experiment, "_apart", lambda function, *arguments: function(*arguments))
    with experiment.taken(experiment.PEER, train) as file:
        (row,) = experiment._fitted(experiment.PEER, 2, file, judge, [7], 0.05, 0.1, 0, True)
    assert not file.exists()
    assert (asked["k"], asked["nr_iters"], asked["eta"], asked["lambda_p2"], asked["lambda_q2"]) == (
        2, 7, 0.1, 0.05, 0.05
    )  # fmt: skip
    assert asked["lambda_p1"] == asked["lambda_q1"] == 0
    assert row["epoch"] == 7 and row["rmse"] == pytest.approx(np.sqrt(np.mean((4 - judge.values) ** 2)))


def test_a_process_of_its_own():
    assert experiment._apart(os.getpid) != os.getpid()


def test_who_has_no_factors_gets_the_mean():
    ratings = ragged_ratings(12, 9, 6, seed=1)
    users, items = np.ones((5, 2), np.float32), np.ones((ratings.n_items, 2), np.float32)
    users[0] = np.nan
    expected = np.where((ratings.users < 5) & (ratings.users > 0), 2.0, 3.0)
    error = np.sqrt(np.mean((expected - ratings.values) ** 2))
    assert experiment._rmse(users, items, 3.0, ratings) == pytest.approx(error)


def test_ours_has_walls_where_they_are_asked_for_and_rates_of_rows(monkeypatch):
    train, judge = ragged_ratings(12, 9, 6, seed=1).split(0.2)
    fitted = []
    monkeypatch.setattr(experiment, "wall_seconds", lambda model, *of: fitted.append(model) or 1.0)
    for timed in (True, False):
        found = experiment._fitted("gpumf, CPU", 3, train, judge, [1, 2], 0.1, 0.01, 0, timed)
        assert [row["epoch"] for row in found] == [1, 2] and all(np.isfinite(row["rmse"]) for row in found)
        assert [row["wall"] == 1 for row in found] == [timed, timed]
    assert len(fitted) == 2 and all(model.options["row_rates"] for model in fitted)


@pytest.mark.parametrize(
    ("code", "machine", "missing"),
    [(b"_Z6calc_zRDv8_fiPf GOMP_parallel", "x86_64", None), (b"_Z6calc_zRDv8_fiPf __kmpc_fork_call", "x86_64", None),
     (b"calc_z GOMP_parallel", "x86_64", "AVX"), (b"calc_z GOMP_parallel", "aarch64", None),
     (b"Dv8_f", "x86_64", "OpenMP"), (b"calc_z", "aarch64", "OpenMP")],
)  # fmt: skip
def test_a_slow_build_of_the_package_is_none(code, machine, missing, monkeypatch, tmp_path):
    monkeypatch.setattr(experiment.platform, "machine", lambda: machine)
    library = tmp_path / "libmf.so"
    library.write_bytes(code)
    listed = [SimpleNamespace(suffix=path.suffix, locate=lambda path=path: path) for path in (library, tmp_path)]
    monkeypatch.setattr(experiment, "files", {"libmf": listed}.__getitem__)
    monkeypatch.setattr(experiment, "find_spec", {"libmf": True}.__getitem__)
    why = experiment.why_unavailable()
    assert (why is None) if missing is None else missing in why
    monkeypatch.setattr(experiment, "find_spec", {"libmf": None}.__getitem__)
    assert "not installed" in experiment.why_unavailable()
