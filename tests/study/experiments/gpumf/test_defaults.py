"""What the recorded defaults are held against."""

import json

import numpy as np
import pandas as pd
import pytest

from gpumf import ImplicitALS
from gpumf.ratings import Ratings
from gpumf_study.experiments.gpumf import defaults


def frame_of(values, model="ALS"):
    """values: dict (data, variant, parameters) -> error or NDCG; searched 1.0, and biases 1.0."""
    rows = [("biases", data, kind, "{}", 1.0) for data in "abc" for kind in ("default", "held out")]
    rows += [(model, data, kind, json.dumps(given), value) for (data, kind, given), value in values]
    for name in defaults.RULES:
        rows += [(name, data, "searched", "{}", 1.0) for data in "abc"]
    rows += [("ALS", data, "default", "{}", 0.9) for data in "abc"]
    frame = pd.DataFrame(rows, columns=["model", "data", "variant", "x_parameters", "value"])
    return frame.assign(metric="rmse", repeat=0)


def test_a_strength_is_chosen_by_the_worst_of_the_other_sets():
    errors = {"a": (1.0, 1.01), "b": (1.02, 1.01), "c": (1.1, 1.02)}
    values = [
        ((data, kind, strength), value)
        for kind in ("held out", "tried")
        for data, of_data in errors.items()
        for strength, value in zip(defaults.STRENGTHS, [*of_data, 2, 2, np.nan], strict=True)
    ]
    found = defaults.left_out(frame_of(values)).loc["ALS"]
    first, second = map(json.dumps, defaults.STRENGTHS[:2])
    assert found.rule.to_dict() == {"a": second, "b": second, "c": second}
    assert found.over_search.to_dict() == {"a": 1.01, "b": 1.01, "c": 1.02}
    changed = [((data, *of), 0.9 if data == "c" else value) for (data, *of), value in values]
    assert defaults.left_out(frame_of(changed)).rule["ALS", "b"] == first


def test_the_weight_of_a_rule_grows_while_lists_improve():
    def ndcg(weight, strength):
        return 1 - abs(np.log2(weight / 256)) / 10 - abs(np.log2(strength / 0.55)) / 10

    values = [
        ((data, kind, one), ndcg(**one))
        for data in "abc"
        for kind in ("held out", "tried")
        for one in defaults._SHARES
    ]
    found = defaults.left_out(frame_of(values, "ImplicitALS")).loc["ImplicitALS"]
    assert set(found.rule) == {"from (16, 0.389)"}
    assert found.over_search.tolist() == [1.0] * 3


def test_errors_are_over_those_of_damped_biases():
    assert defaults.ratios(frame_of([])).loc[("ALS", "default")].to_dict() == {"a": 0.9, "b": 0.9, "c": 0.9}


def test_damped_biases_are_between_zero_and_those_that_made_the_ratings():
    rng = np.random.default_rng(0)
    users, items = np.divmod(rng.permutation(400 * 300)[:40_000], 300)
    of_user, of_item = rng.normal(0, 0.5, 400), rng.normal(0, 0.5, 300)
    found = defaults.damped_biases(Ratings(users, items, of_user[users] + of_item[items], 400, 300))
    assert np.corrcoef(found[0], of_user)[0, 1] > 0.99 and np.corrcoef(found[1], of_item)[0, 1] > 0.99


def test_lists_are_judged_against_popularity_in_the_same_splits():
    rows = [
        ("a", repeat, model, variant, value + 0.1 * repeat)
        for repeat in range(3)
        for model, variant, value in (
            ("ImplicitALS", "default", 0.52), ("popularity", "default", 0.5), ("ImplicitALS", "searched", 0.65),
        )
    ]  # fmt: skip
    found = defaults.lists(
        pd.DataFrame(rows, columns=["data", "repeat", "model", "variant", "value"]).assign(metric="ndcg@10")
    ).loc["a"]
    assert found.gain == found.at_least == pytest.approx(0.02)
    assert found.over_search == pytest.approx(0.62 / 0.75)


def test_shares_are_those_of_the_defaults_of_implicit_als():
    rng = np.random.default_rng(0)
    train = Ratings(*np.divmod(rng.permutation(8000)[:500], 100), rng.integers(1, 6, 500), 80, 100)
    model = ImplicitALS(4, device="cpu").fit(train, 1)
    assert defaults.scaled(train, 16, 0.55) == pytest.approx(
        {name: getattr(model.hyperparameters, name) for name in ("unobserved_weight", "regularization")}
    )
