"""Implicit ALS beside the package implicit."""

import sys
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from gpumf_study import schema
from gpumf_study.experiments.gpumf import peers_als as experiment
from outcomes import word
from support import ragged_ratings


def fits(ours, theirs=2.0, apart=0.0, **more):
    """Fits of two numbers of iterations, two repeats, that all begin with seven seconds."""
    rows = [(model, {"implicit": "cg"}.get(model, "tensor_core"), "cuda", f, n, repeat,
             7 + n * seconds * (1 + apart * repeat))
            for f in (64, 128) for model, seconds in (("implicit", theirs), ("ImplicitALS", ours))
            for repeat in range(2) for n in (5, 10)]  # fmt: skip
    columns = ["model", "solver", "device", "factors", "x_iterations", "repeat", "seconds"]
    return schema.validated(pd.DataFrame(rows, columns=columns).assign(**more))


def test_an_iteration_is_what_more_of_them_take_more():
    found = experiment.iteration_seconds(fits(0.5)).set_index(["factors", "model"]).seconds
    assert found[64, "implicit"].to_list() == [2, 2] and found[128, "ImplicitALS"].to_list() == [0.5, 0.5]
    for ours, apart, said in ((1.0, 0.0, "replicated"), (3.0, 0.0, "not replicated"), (1.9, 0.5, "inconclusive")):
        assert word("peers-als-gpu-64", fits(ours, apart=apart, x_cg_steps=3)) == said
    assert word("peers-als-cores-64", fits(1.0, x_cg_steps=3)) == "missing"
    assert word("peers-als-gpu-64", fits(1.0)) == "missing", "the programs made other steps"


def test_all_programs_make_as_many_steps_of_conjugate_gradient(monkeypatch):
    train, made = ragged_ratings(seed=0), []
    of_ours = SimpleNamespace(times=SimpleNamespace(end_to_end=9.0, compile=2.0))

    class Model:
        def __init__(self, factors, regularization, iterations=None, **named):
            made.append((self, factors, regularization, named))
            self.user_factors = self.item_factors = SimpleNamespace(to_numpy=lambda: "factors")

        def fit(self, matrix, n=None, show_progress=None):
            return of_ours

    module = SimpleNamespace(AlternatingLeastSquares=Model)
    monkeypatch.setitem(sys.modules, "implicit.cpu.als", module)
    monkeypatch.setitem(sys.modules, "implicit.gpu.als", module)
    monkeypatch.setitem(sys.modules, "threadpoolctl", SimpleNamespace(threadpool_limits=lambda *what: nullcontext()))
    monkeypatch.setattr(experiment, "ImplicitALS", Model)
    arguments = train, experiment.confidences(train, 2.0), 8, 4, 5
    for device in ("cpu", "cuda"):
        assert len(experiment._peer(device, *arguments)[1]) == 2
    for solver in ("parallel_cg", "tensor_core"):
        assert experiment._ours(solver, *arguments)[0] == 7
    assert [model.cg_steps for model, *_ in made[:2]] == [5, 5]
    assert [(named["cg_steps"], named["cg_tolerance"]) for *_, named in made[2:]] == [(5, 0), (5, 0)]
    assert {tuple(of) for _, *of, _ in made} == {(8, experiment.REGULARIZATION)}
    assert all(profile["steps"] == 3 for profile in experiment.PROFILES.values())


def test_the_loss_is_that_of_all_pairs():
    train, rng = ragged_ratings(seed=0), np.random.default_rng(0)
    users, items = rng.normal(size=(train.n_users, 3)), rng.normal(size=(train.n_items, 3))
    confidence, wanted = np.ones((train.n_users, train.n_items)), np.zeros((train.n_users, train.n_items))
    confidence[train.users, train.items] += experiment.ALPHA * train.values
    wanted[train.users, train.items] = 1
    whole = np.sum(confidence * (wanted - users @ items.T) ** 2)
    whole += experiment.REGULARIZATION * (np.sum(users**2) + np.sum(items**2))
    assert experiment._loss(train, users, items) == pytest.approx(whole / train.nnz)


def test_every_fit_but_the_first_has_its_seconds_and_the_longest_its_loss(monkeypatch):
    train = ragged_ratings(seed=0)

    def fit(where, ratings, matrix, factors, n, steps):
        return 10.0 * n, (np.zeros((train.n_users, factors)), np.zeros((train.n_items, factors)))

    for name in ("_peer", "_ours"):
        monkeypatch.setattr(experiment, name, fit)
    monkeypatch.setattr(experiment, "version", lambda name: "1")
    monkeypatch.setattr(experiment, "load_ratings", lambda name: train)
    monkeypatch.setattr(experiment.backends, "available", lambda: False)
    frame = schema.validated(experiment.run("ragged", [8], {"cpu": [2, 5]}, repeats=2, steps=3))
    of_one = frame[frame.model == "ImplicitALS"]
    assert set(frame.model) == {"ImplicitALS", experiment.PEER} and set(frame.device) == {"cpu"}
    assert of_one.seconds.to_list() == [20, 50, 20, 50] and of_one.repeat.to_list() == [0, 0, 1, 1]
    assert (frame.metric == "loss").to_list() == (frame.x_iterations == 5).to_list()
