"""One core's versions beside plain C."""

from types import SimpleNamespace

import numpy as np
import pytest

from cases import order_of
from gpumf import ALS, SGD
from gpumf.backends.cpu import reference
from gpumf_study import schema
from gpumf_study.experiments import load_ratings
from gpumf_study.experiments.gpumf import cpu_baselines
from support import ragged_ratings, random_factors


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
    monkeypatch.setattr(cpu_baselines.als, "numba_update", lambda factors, parallel: None)
    ratings = ragged_ratings(n_users=12, n_items=9, longest=7, seed=0)
    monkeypatch.setattr(cpu_baselines, "load_ratings", lambda name: ratings)
    frame = cpu_baselines.run("x", epochs=2, als_regularization=0.5, sgd_regularization=0.3, learning_rate=0.1)
    assert made == [("ALS", "sequential", 16, 0.5, None, False), ("SGD", "ordered", 16, 0.3, 0.1, False),
                    ("SGD", "sequential", 16, 0.3, 0.1, False), ("SGD", "ordered", 16, 0.3, 0.1, True)]  # fmt: skip
    assert schema.validated(frame).groupby(["model", "solver", "variant"]).repeat.agg(list).map([0, 1].__eq__).all()


def test_errors_are_those_of_the_same_training_by_the_api():
    if why := cpu_baselines.why_unavailable():
        pytest.skip(why)
    smoke = cpu_baselines.PROFILES["smoke"]
    frame = cpu_baselines.run(**smoke)
    frame = frame[frame.variant == cpu_baselines.PLAIN].set_index(["model", "solver"]).value
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
