"""One core's versions beside plain C."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from cases import order_of
from gpumf import ALS, SGD
from gpumf.backends.cpu import reference
from gpumf_study.experiments import load_ratings
from gpumf_study.experiments.gpumf import cpu_baselines
from outcomes import promise_words
from support import ragged_ratings, random_factors


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


def test_versions_with_biases_are_held_against_the_plain_c_that_has_them():
    of_sgd = measured().query("model == 'SGD'")
    more = of_sgd.assign(version=of_sgd.version + ", biases", seconds=10 * of_sgd.seconds)
    table = cpu_baselines.summary(pd.concat([of_sgd, more])).set_index("version")
    assert table.times_plain.to_list() == [1, 1.5] * 2 and table.seconds["plain C, biases"] == 40


@pytest.mark.parametrize(
    ("times", "word"), [((0.9, 0.7, 1.0), "target"), ((0.8, 0.7, 0.9), "stretch"), ((1.1, 1.0, 1.4), "short")]
)
def test_epochs_with_biases_are_held_against_those_beside_them(times, word):
    """Epochs of which each takes ten times as long as the one before: only pairs of neighbours say something."""
    versions = "plain C, biases", "ordered, biases"
    rows = [
        ("SGD", version, epoch, 10**epoch * of)
        for epoch, ratio in enumerate(times, 1)
        for version, of in zip(versions, (1, ratio), strict=True)
    ]
    columns = ["model", "version", "epoch", "seconds"]
    assert promise_words("sgd-cpu-baseline-biases", columns, rows) == word
    assert promise_words("sgd-cpu-baseline-biases", columns, rows[::2]) == "missing"
    without = [("SGD", version.removesuffix(", biases"), *row) for _, version, *row in rows]
    assert promise_words("sgd-cpu-baseline-biases", columns, without) == "missing"


@pytest.mark.parametrize("biases", [False, True])
def test_the_plain_loop_follows_a_replay_of_its_order(biases):
    if why := cpu_baselines.why_unavailable():
        pytest.skip(why)
    ratings = ragged_ratings(seed=3)
    centred = ratings.less(ratings.mean) if biases else ratings
    rated = [counts > 0 for counts in (ratings.user_counts, ratings.item_counts)]
    model = SGD(16, 0.1, learning_rate=0.05, solver="ordered", device="cpu", biases=biases, side=5)
    p, q = (random_factors(len(known), model.columns, 1) * known[:, None] for known in rated)
    if biases:
        p[:, -1] = q[:, -2] = 1
    model.initial_factors = lambda train: (p, q)
    trainer = cpu_baselines._PlainSGD(model, centred)
    replayed, steps = (p, q), (0.05, *[0.1] * 4)
    for epoch in range(2):
        trainer.epoch(epoch)
        order = [rating for rating, _ in order_of(model, centred, epoch)]
        assert sorted(order) == list(range(ratings.nnz))
        replayed = reference.sgd_replay(centred, order, *replayed, steps, model.bias_kind)
    for learned, right in zip(trainer.factors(), replayed, strict=True):
        assert learned.shape == right.shape and learned.dtype == np.float32
        assert np.abs(learned - right).max() < 1e-5 * max(1, np.abs(right).max())


def test_versions_are_drawn_from_top_to_bottom():
    (axis,) = cpu_baselines.figure(measured()).axes
    names = [text.get_text() for text in axis.get_yticklabels()]
    assert names == ["ALS, plain C", "ALS, sequential", "SGD, plain C", "SGD, ordered"]
    assert list(axis.lines[0].get_xdata()) == [2, 1, 4, 6] and axis.get_xscale() == "log"


def test_every_version_of_a_model_has_the_same_parameters(monkeypatch):
    made = []

    def model(name):
        def make(factors, regularization, **options):
            parameters = factors, regularization, options.get("learning_rate"), options["biases"]
            made.append((name, options["solver"], *parameters))
            factors_ = np.zeros((12, 16), np.float32), np.zeros((9, 16), np.float32)
            trainer = SimpleNamespace(epoch=lambda number: None, factors=lambda: factors_)
            return SimpleNamespace(make_solver=lambda train: trainer)

        return make

    for name in ("ALS", "SGD"):
        monkeypatch.setattr(cpu_baselines, name, model(name))
        monkeypatch.setattr(cpu_baselines, f"_Plain{name}", lambda model, train: model.make_solver(train))
    monkeypatch.setattr(cpu_baselines.als, "numba_half_sweep", lambda factors, parallel: None)
    ratings = ragged_ratings(n_users=12, n_items=9, longest=7, seed=0)
    monkeypatch.setattr(cpu_baselines, "load_ratings", lambda name: ratings)
    monkeypatch.setattr(cpu_baselines.first_comparison, "threshold", lambda name: 0.7)
    frame = cpu_baselines.run("x", epochs=2, als_regularization=0.5, sgd_regularization=0.3, learning_rate=0.1)
    assert made == [
        ("ALS", "sequential", 16, 0.5, None, False),
        ("SGD", "ordered", 16, 0.3, 0.1, False),
        ("SGD", "sequential", 16, 0.3, 0.1, False),
        ("SGD", "ordered", 16, 0.3, 0.1, True),
    ]
    assert frame.groupby(["model", "version"]).epoch.agg(list).map([1, 2].__eq__).all()


def test_errors_are_those_of_the_same_training_by_the_api():
    if why := cpu_baselines.why_unavailable():
        pytest.skip(why)
    smoke = cpu_baselines.PROFILES["smoke"]
    frame = cpu_baselines.run(**smoke).set_index(["model", "version"]).mae
    train, test = load_ratings(smoke["data"]).split(0.2)
    common = {"device": "cpu", "biases": False, "clip": False}
    models = {
        ("ALS", "sequential"): ALS(16, smoke["als_regularization"], solver="sequential", **common),
        ("SGD", "ordered"): SGD(
            16, smoke["sgd_regularization"], learning_rate=smoke["learning_rate"], solver="ordered", **common
        ),
    }
    for version, model in models.items():
        expected = model.fit(train, smoke["epochs"], test).history.mae[1:]
        np.testing.assert_allclose(frame[version], expected, rtol=1e-5)
