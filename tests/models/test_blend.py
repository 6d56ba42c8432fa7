"""Blends of models: their weights are the best convex ones, whatever the models predict."""

from itertools import product

import numpy as np
import pytest

from gpumf import ALS, SGD, Blend, ImplicitALS
from gpumf.models import blend as blend_module
from gpumf.models.blend import convex_weights
from gpumf.models.checks import NotFittedError
from support import ragged_ratings


class Told:
    """A model that predicts what it was told, rating by rating."""

    def __init__(self, predictions):
        self.predictions = predictions

    def predict(self, users, items):
        return self.predictions


ERRORS = {
    "rmse": lambda predictions, values: np.sqrt(np.mean((predictions - values) ** 2)),
    "mae": lambda predictions, values: np.abs(predictions - values).mean(),
}


@pytest.mark.parametrize("metric", ERRORS)
@pytest.mark.parametrize("models", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", range(5))
def test_no_convex_weights_on_a_grid_are_better(models, seed, metric):
    rng = np.random.default_rng(seed)
    values = rng.integers(1, 6, 200).astype(float)
    # Errors of several sizes and a bias each: some models are worth nothing beside the others.
    predictions = values[:, None] + rng.standard_normal((200, models)) * rng.uniform(0.2, 3, models)
    predictions += rng.standard_normal((200, 1)) * rng.uniform(0, 2, models) + rng.uniform(-1, 1, models)
    weights = convex_weights(predictions, values, metric)
    assert weights.min() >= 0 and weights.sum() == pytest.approx(1)
    error, steps = ERRORS[metric], 10
    grid = [np.array(w) / steps for w in product(range(steps + 1), repeat=models) if sum(w) == steps]
    best = min(error(predictions @ w, values) for w in grid)
    assert error(predictions @ weights, values) <= best + 1e-12


def test_two_models_have_the_weights_of_the_closed_form():
    rng = np.random.default_rng(0)
    values = rng.standard_normal(50)
    a, b = (values + rng.standard_normal(50) * size for size in (0.5, 0.7))
    share = np.dot(b - values, b - a) / np.dot(b - a, b - a)
    assert 0 < share < 1
    np.testing.assert_allclose(convex_weights(np.stack([a, b], 1), values), [share, 1 - share], rtol=1e-9)


@pytest.mark.parametrize("metric", ERRORS)
def test_models_that_are_equal_right_or_useless(metric):
    values = np.random.default_rng(1).standard_normal(30) * 40
    noisy = values + np.random.default_rng(2).standard_normal(30)
    twice = convex_weights(np.stack([noisy, noisy], 1), values, metric)
    assert twice.sum() == pytest.approx(1) and twice.min() >= 0
    np.testing.assert_allclose(convex_weights(np.stack([noisy, values], 1), values, metric), [0, 1], atol=1e-9)
    worse = values + 3 * (noisy - values)
    np.testing.assert_allclose(convex_weights(np.stack([noisy, worse], 1), values, metric), [1, 0], atol=1e-9)
    assert convex_weights(values[:, None], values, metric) == [1]


def test_a_blend_of_trained_models_is_no_worse_than_its_parts_on_what_it_was_fitted_to():
    train, held_out = ragged_ratings(seed=3).split(0.3)
    models = [ALS(4, 0.1, device="cpu", biases=False).fit(train, 5), SGD(3, biases=True, device="cpu").fit(train, 10)]
    blend = Blend(*models).fit(held_out)
    assert blend.score(held_out)["rmse"] <= min(model.score(held_out)["rmse"] for model in models) + 1e-6
    w = blend.weights
    by_hand = sum(v * model.predict(np.arange(4)[:, None], [1, 2]) for v, model in zip(w, models, strict=True))
    np.testing.assert_allclose(blend.predict(np.arange(4)[:, None], [1, 2]), by_hand, rtol=1e-6)
    assert blend.predict([0], [0]).dtype == np.float32


def test_known_weights_are_used_as_they_are():
    told = Told(np.float32([1, 2])), Told(np.float32([3, 6]))
    np.testing.assert_array_equal(Blend(*told, weights=[0.5, 0.5]).predict([0, 0], [0, 1]), [2, 4])


def test_weights_of_nothing_or_of_no_numbers_are_refused():
    for predictions, values in (
        (np.ones((0, 2)), []),
        (np.ones((3, 0)), np.ones(3)),
        (np.ones(3), np.ones(3)),
        (np.ones((3, 2)), np.ones(2)),
        (np.full((3, 2), np.nan), np.ones(3)),
        (np.ones((3, 2)), np.full(3, np.inf)),
    ):
        with pytest.raises(ValueError, match="weights need"):
            convex_weights(predictions, values)
    nothing = ragged_ratings(seed=3)
    nothing = nothing.select(np.zeros(nothing.nnz, bool))
    with pytest.raises(ValueError, match="weights need"):
        Blend(Told(np.zeros(0)), Told(np.zeros(0))).fit(nothing)
    with pytest.raises(ValueError, match="no ratings"):
        Blend(Told(np.zeros(0)), weights=[1]).score(nothing)
    with pytest.raises(TypeError, match="not by Told"):
        Blend(Told(0), weights=[1]).recommend(0)


@pytest.mark.parametrize("found", [np.ones((3, 1)), np.ones(1), [1.0, np.nan, 2.0]])
def test_predictions_of_another_shape_or_not_finite_are_refused(found):
    with pytest.raises(ValueError, match=r"Told.predict must give \(3,\) finite numbers"):
        Blend(Told(found), weights=[1]).predict([0, 1, 2], 0)


def test_a_blend_that_load_would_refuse_is_not_saved(tmp_path):
    items, values, path = list("xyyzxz"), [1, 2, 3, 4, 5, 2], tmp_path / "blend.npz"
    one, other = (ALS(2, device="cpu").fit((list(users), items, values), 1) for users in ("aabbcc", "ppqqrr"))
    Blend(one, one, weights=[0.5, 0.5]).save(path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="other user_ids than each other"):
        Blend(one, other, weights=[0.5, 0.5]).save(path)
    assert path.read_bytes() == before


def test_a_blend_tells_those_apart_whom_one_of_its_models_does(monkeypatch):
    alone = np.array([[True, True, False, False], [True, False, True, False]])
    monkeypatch.setattr(Blend, "_of_models", lambda self, name: [lambda of=of: of for of in alone])
    assert Blend(Told([1.0]), Told([1.0]), weights=[0.5, 0.5])._personalized().tolist() == [True, True, True, False]


def test_models_that_learned_nothing_are_refused():
    for held_out in (ragged_ratings(seed=0), (["ann"], ["alien"], [3])):
        with pytest.raises(NotFittedError, match="ALS has not been fitted"):
            Blend(ALS(2), SGD(2)).fit(held_out)


def test_what_all_models_saw_is_left_out(tmp_path):
    """Models that made Ratings of one frame, each its own, in another order, from a file, or with users folded in."""
    columns = ["ann", "ann", "bob", "eve"], ["alien", "heat", "alien", "up"], [5, 2, 4, 3]
    turned = tuple(column[::-1] for column in columns)
    one, two, three = (ALS(2, device="cpu").fit(data, 2) for data in (columns, columns, turned))
    one.save(tmp_path / "one.npz", seen=True)
    three.save(tmp_path / "three.npz")
    kept, without = (ALS.load(tmp_path / name, device="cpu") for name in ("one.npz", "three.npz"))
    for models in ((one, two), (one, three), (kept, two), (kept, kept), (three, kept, one)):
        blend = Blend(*models, weights=np.full(len(models), 1 / len(models)))
        assert blend.recommend("ann")[0].tolist() == ["up"]
        assert np.array_equal(blend.recommend("ann")[1], blend.recommend("ann", seen=columns)[1])
        assert blend.evaluate_ranking((["bob"], ["up"], [5]), k=1) is not None
        assert sorted(blend.recommend(ratings={"alien": 5})[0]) == ["heat", "up"]
    fewer = ALS(2, device="cpu").fit((columns[0] + ["eve"], columns[1] + ["heat"], columns[2] + [1]), 2)
    for models in ((one, fewer), (one, without)):
        with pytest.raises(ValueError, match="pass seen=train"):
            Blend(*models, weights=[0.5, 0.5]).recommend("ann")


def test_what_models_saw_is_compared_once_as_long_as_they_stay(monkeypatch):
    columns = ["ann", "ann", "bob", "eve"], ["alien", "heat", "alien", "up"], [5, 2, 4, 3]
    models, calls = [ALS(2, device="cpu").fit(columns, 2) for _ in range(2)], []
    common = blend_module._common
    monkeypatch.setattr(blend_module, "_common", lambda known: calls.append(known) or common(known))
    blend = Blend(*models, weights=[0.5, 0.5])
    assert len({tuple(blend.recommend("ann")[0]) for _ in range(3)}) == len(calls) == 1
    models[0].partial_fit((["eve"], ["heat"], [1]))
    with pytest.raises(ValueError, match="pass seen=train"):
        blend.recommend("ann")
    models[1].partial_fit((["eve"], ["heat"], [1]))
    assert blend.recommend("eve")[0].tolist() == ["alien"] and len(calls) == 3


def test_factor_models_rank_as_one_by_joined_factors(device, monkeypatch):
    """As by their predictions pair by pair, also of who is new to some of the models or to all."""
    whole = ragged_ratings(n_users=30, n_items=20, longest=12, seed=4)
    parts = [whole.select(np.random.default_rng(seed).random(whole.nnz) < 0.4) for seed in range(4)]
    kinds = ALS(3, device=device), ALS(4, biases=False, device=device), SGD(3, device=device)
    models = [kind.fit(part, 2) for kind, part in zip((*kinds, ImplicitALS(2, device=device)), parts, strict=True)]
    for chosen in (models, models[:2], [models[1], models[3]]):
        blend = Blend(*chosen, weights=np.full(len(chosen), 1 / len(chosen)))

        def lists(blend=blend):
            folded = blend.fold_in((whole.users, whole.items, whole.values))
            limited = {"seen": (), "filter_items": [[3, 5], [7]]}
            found = blend.recommend(range(30), 6, whole), blend.recommend([4, 2], 19, **limited)
            return *found, folded.recommend(range(20), ids=False), [*blend.evaluate_ranking(whole, seen=()).values()]

        found = lists()
        with monkeypatch.context() as patch:
            patch.setattr(blend_module, "Factorization", ())
            wanted = lists()
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12)
        monkeypatch.setattr(Blend, "_scores_at", None)
        blend.recommend(0, seen=())
        monkeypatch.undo()


def test_joined_factors_are_those_of_the_parts_as_they_are():
    ratings = ragged_ratings(seed=3)
    models = [ALS(2, device="cpu", seed=seed).fit(ratings, 1) for seed in range(2)]
    blend = Blend(*models, weights=[1, 0])
    for weights in ([1, 0], [0, 1]):
        blend.weights[:] = weights
        assert np.array_equal(blend.recommend(0)[0], models[weights.index(1)].recommend(0)[0])
    with pytest.raises(ValueError, match="read-only"):
        models[1].user_factors[0] = 0
    models[1].fit(ratings, 3, warm_start=True)
    assert np.array_equal(blend.recommend(0)[0], models[1].recommend(0)[0])


def test_weights_that_are_assigned_while_factors_are_joined_count(monkeypatch):
    ratings, join = ragged_ratings(seed=3), blend_module.joined
    models = [ALS(2, device="cpu", seed=seed).fit(ratings, 1) for seed in range(2)]
    blend = Blend(*models, weights=[1, 0])

    def joined(models, weights):
        found, blend.weights = join(models, weights), np.array([0.0, 1.0])
        return found

    with monkeypatch.context() as patch:
        patch.setattr(blend_module, "joined", joined)
        blend.recommend(0)
    assert np.array_equal(blend.recommend(0)[0], models[1].recommend(0)[0])


def test_a_part_without_weight_knows_nobody(monkeypatch):
    whole = ragged_ratings(n_users=30, seed=4)
    models = [
        ALS(2, biases=False, device="cpu").fit(whole.select(of), 1) for of in (whole.users < 20, whole.users > 9)
    ]
    blend, (wanted, _) = Blend(*models, weights=[1, 0]), models[0].recommend(range(30), 5, ())
    assert np.array_equal(blend.recommend(range(20, 30), 1, ())[0], wanted[20:, :1])
    monkeypatch.setattr(blend_module, "Factorization", ())
    assert np.array_equal(blend.recommend(range(20, 30), 1, ())[0], wanted[20:, :1])
