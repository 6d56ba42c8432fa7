"""One core's versions beside plain C."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from gpumf.experiments.gpumf import cpu_baselines
from support import ragged_ratings


def measured():
    """Three epochs of two versions of each model, plain C the quicker of one and the slower of the other."""
    seconds = {("ALS", "plain C"): 2.0, ("ALS", "sequential"): 1.0, ("SGD", "plain C"): 4.0, ("SGD", "ordered"): 6.0}
    rows = [
        (model, version, epoch, of + epoch / 8 - 0.25, 1 - epoch / 10, 0.8)
        for (model, version), of in seconds.items()
        for epoch in (1, 2, 3)
    ]
    return pd.DataFrame(rows, columns=["model", "version", "epoch", "seconds", "mae", "threshold"])


def test_versions_are_held_against_plain_c_of_their_model():
    table = cpu_baselines.summary(measured()).set_index(["model", "version"])
    assert table.times_plain.to_list() == [1, 0.5, 1, 1.5] and table.seconds.to_list() == [2, 1, 4, 6]
    assert (table.epochs == 2).all() and table.seconds_to_threshold.to_list() == [3.875, 1.875, 7.875, 11.875]
    assert table.mae.to_list() == pytest.approx([0.7] * 4)
    never = cpu_baselines.summary(measured().assign(threshold=0.1))
    assert never[["epochs", "seconds_to_threshold"]].isna().all(axis=None)


def test_versions_are_drawn_from_top_to_bottom():
    (axis,) = cpu_baselines.figure(measured()).axes
    names = [text.get_text() for text in axis.get_yticklabels()]
    assert names == ["ALS, plain C", "ALS, sequential", "SGD, plain C", "SGD, ordered"]
    assert list(axis.lines[0].get_xdata()) == [2, 1, 4, 6] and axis.get_xscale() == "log"


def test_every_version_of_a_model_has_the_same_parameters(monkeypatch):
    made = []

    def model(name):
        def make(factors, regularization, **options):
            made.append((name, options["solver"], factors, regularization, options.get("learning_rate")))
            factors_ = np.zeros((12, 16), np.float32), np.zeros((9, 16), np.float32)
            trainer = SimpleNamespace(epoch=lambda number: None, factors=lambda: factors_)
            return SimpleNamespace(trainer=lambda train: trainer)

        return make

    for name in ("ALS", "SGD"):
        monkeypatch.setattr(cpu_baselines, name, model(name))
        monkeypatch.setattr(cpu_baselines, f"_Plain{name}", lambda model, train: model.trainer(train))
    monkeypatch.setattr(cpu_baselines.als, "numba_half_sweep", lambda factors, parallel: None)
    ratings = ragged_ratings(n_users=12, n_items=9, longest=7, seed=0)
    monkeypatch.setattr(cpu_baselines, "load_ratings", lambda name: ratings)
    monkeypatch.setattr(cpu_baselines.first_comparison, "threshold", lambda name: 0.7)
    frame = cpu_baselines.run("x", epochs=2, als_regularization=0.5, sgd_regularization=0.3, learning_rate=0.1)
    assert made == [
        ("ALS", "sequential", 16, 0.5, None), ("SGD", "ordered", 16, 0.3, 0.1), ("SGD", "sequential", 16, 0.3, 0.1)
    ]  # fmt: skip
    assert frame.groupby(["model", "version"]).epoch.agg(list).map([1, 2].__eq__).all()
