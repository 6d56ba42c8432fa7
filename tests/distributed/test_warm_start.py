"""Going on, on several workers, from what a model has learned."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from gpumf import ALS, SGD, ImplicitALS, NotFittedError
from gpumf.distributed import fit
from gpumf.ratings import DataError, Ratings
from support import scattered

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def sets():
    return scattered(40, 30, 500, seed=11).split(seed=2)


MODELS = {
    "als": partial(ALS, 4, 0.1, device="cpu", solver="parallel"),
    "als without biases": partial(ALS, 4, 0.1, device="cpu", solver="parallel", biases=False),
    "implicit": partial(ImplicitALS, 4, device="cpu", solver="parallel"),
    "sgd": partial(SGD, 4, device="cpu", solver="ordered", biases=True),
}
COLUMNS = ["epoch", "rmse", "mae"]


@pytest.mark.parametrize("name", MODELS)
def test_two_trainings_are_one_of_as_many_epochs(client, sets, name):
    whole = fit(MODELS[name](), *(sets[0], 5, sets[1]), client=client, workers=2, attempts=1)
    parts = fit(MODELS[name](), *(sets[0], 2, sets[1]), client=client, workers=2, attempts=1)
    fit(parts, *(sets[0], 3, sets[1]), client=client, workers=2, warm_start=True, attempts=1)
    assert np.array_equal(parts.history[COLUMNS], whole.history[COLUMNS]) and parts.epoch == 5
    assert parts.history.seconds.is_monotonic_increasing
    assert all(np.array_equal(*pair) for pair in zip(parts._learned, whole._learned, strict=True))


def test_workers_go_on_where_one_estimator_was_and_the_other_way_round(client, sets):
    train, test = sets
    whole = MODELS["als"]().fit(train, 4, test)
    there = fit(MODELS["als"]().fit(train, 2, test), train, 2, test, client=client, warm_start=True, attempts=1)
    back = fit(MODELS["als"](), train, 2, test, client=client, attempts=1).fit(train, 2, test, warm_start=True)
    for model in (there, back):
        assert np.allclose(model.history[COLUMNS], whole.history[COLUMNS], atol=1e-5)
        assert np.allclose(model.user_factors, whole.user_factors, atol=1e-5)


def test_training_on_by_positions_keeps_the_ids(client, sets):
    train, _ = sets
    names = {"user_ids": [f"u{n}" for n in range(train.n_users)], "item_ids": [f"i{n}" for n in range(train.n_items)]}
    named = replace(train, **{side: np.array(ids, object) for side, ids in names.items()})
    one, several = (MODELS["als"]().fit(named, 1, ids=True) for _ in range(2))
    one.fit(train, 1, warm_start=True)
    fit(several, train, 1, client=client, workers=2, warm_start=True, attempts=1)
    for model in (one, several):
        assert model.ids and model.user_ids.tolist() == names["user_ids"]
        assert model.item_ids.tolist() == names["item_ids"]
    assert np.allclose(several.predict("u3", names["item_ids"]), one.predict("u3", names["item_ids"]), atol=1e-4)


def test_who_has_first_ratings_now_starts_as_in_one_process(client, sets):
    train, test = sets
    fewer = train.select(train.users < 30)
    model = MODELS["als without biases"]
    one = model().fit(fewer, 1).fit(train, 1, test, warm_start=True)
    several = fit(model().fit(fewer, 1), train, 1, test, client=client, workers=2, warm_start=True, attempts=1)
    assert np.allclose(several.user_factors, one.user_factors, atol=1e-5)
    assert np.allclose(several.item_factors, one.item_factors, atol=1e-5)


OVERFITS = partial(ALS, 12, 1e-3, clip=False, device="cpu", solver="parallel")


@pytest.mark.parametrize(("make", "before", "best"), [(OVERFITS, 1, 4), (MODELS["sgd"], 2, 2)])
def test_the_best_is_looked_for_from_what_there_is(client, sets, make, before, best):
    train, test = sets
    one = make().fit(train, before)
    several = make().fit(train, before)
    one.fit(train, 3, test, warm_start=True, keep="best")
    fit(several, train, 3, test, client=client, workers=2, warm_start=True, keep="best", attempts=1)
    assert several.epoch == one.epoch == best and len(several.history) == before + 4
    assert abs(several.score(test)["rmse"] - one.score(test)["rmse"]) < 5e-3


def test_what_cannot_go_on_is_refused(client, sets, tmp_path):
    train = sets[0]
    go_on = partial(fit, client=client, warm_start=True)
    with pytest.raises(NotFittedError, match="has not been fitted"):
        go_on(MODELS["als"](), train, 1)
    model = MODELS["als"]().fit(train, 1)
    before, history = model.user_factors, model.history
    with pytest.raises(ValueError, match="warm_start needs ratings of the same users and items"):
        go_on(model, Ratings([0], [0], [1], 2, 2), 1)
    with pytest.raises(ValueError, match="warm_start needs Ratings"):
        go_on(model, tmp_path, 1)
    with pytest.raises(ValueError, match="warm_start must be"):
        fit(model, train, 1, client=client, warm_start="yes")
    with pytest.raises(ValueError, match="epochs"):
        go_on(model, train, -1)
    assert model.user_factors is before and model.history is history
    ids = np.array([f"u{n}" for n in range(train.n_users)], object)
    model = MODELS["als"]().fit(replace(train, user_ids=ids), 1)
    with pytest.raises(DataError, match="position 0 is user 'u39' here and 'u0' in the training set"):
        go_on(model, replace(train, user_ids=ids[::-1]), 1)
    assert model.user_ids[0] == "u0"


def test_a_model_that_workers_trained_learns_from_new_ratings(client, sets):
    """By `partial_fit`, which knows the training set."""
    train, test = sets
    one, several = MODELS["als"]().fit(train, 2), fit(MODELS["als"](), train, 2, client=client, workers=2, attempts=1)
    for model in (one, several):
        model.partial_fit(test)
    assert np.allclose(several.user_factors, one.user_factors, atol=1e-5)


def test_a_checkpoint_goes_before_what_the_model_has(client, sets, tmp_path):
    """A training that went on and was lost goes on from its checkpoint, to as many epochs as were asked for."""
    train, test = sets
    model = MODELS["als"]().fit(train, 1, test)
    whole = fit(MODELS["als"]().fit(train, 1, test), train, 4, test, client=client, workers=2, warm_start=True)

    def interrupted(row):
        if row["epoch"] == 3:
            raise RuntimeError("lost")

    given = {"client": client, "workers": 2, "warm_start": True, "checkpoint": tmp_path / "c", "attempts": 1}
    with pytest.raises(RuntimeError, match="lost"):
        fit(model, train, 4, test, stop=interrupted, **given)
    assert model.epoch == 1 and (tmp_path / "c").exists()
    fit(model, train, 4, test, **given)
    assert np.array_equal(model.history[COLUMNS], whole.history[COLUMNS])
