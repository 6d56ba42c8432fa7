"""What is chosen as a default by the held-out ratings, and what its findings say of it."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from gpumf.ratings import Ratings
from gpumf_study.experiments.gpumf import defaults
from support import ragged_ratings

WEAK, STRONG = json.dumps({"regularization": 0.1}), json.dumps({"regularization": 0.2})


def frame_of(errors, seeds=3, gains=1.0):
    """Of a set whose baselines are 1.0 and 0.9, popularity's precision and NDCG 0.2 and 0.1."""
    rows = []
    for step in ("choice", "test"):
        rows += [
            (step, "biases", kind, 0, error, np.nan, np.nan) for kind, error in (("means", 1.0), ("damped", 0.9))
        ]
        rows += [(step, "popularity", "", 0, np.nan, 0.2, 0.1)]
    rows += [("choice", "ALS", kind, 0, errors[kind], np.nan, np.nan) for kind in (WEAK, STRONG)]
    for seed in range(seeds):
        rows += [("test", "ALS", kind, seed, errors[kind] + 0.01 * seed, np.nan, np.nan) for kind in errors]
        rows += [("test", "ImplicitALS", "{}", seed, np.nan, 0.2 * gains, 0.1 * gains)]
    columns = ["step", "model", "parameters", "seed", "rmse", "precision", "ndcg"]
    return pd.DataFrame(rows, columns=columns).assign(data="ml-100k", mae=0.7, kernel="parallel", epochs=20)


def judged(name, frame):
    finding = next(finding for finding in defaults.FINDINGS if finding.id == name)
    value, spread, _ = finding.value(frame)
    return value, finding.rule.word(value, spread)


@pytest.mark.parametrize(("default", "word"), [(0.80, "reproduced"), (0.885, "tie"), (1.2, "contradicted")])
def test_a_default_is_held_to_the_better_baseline(default, word):
    frame = frame_of({"{}": default, WEAK: 0.85, STRONG: 0.7})
    value, found = judged("defaults-als-ml-100k", frame)
    assert value == pytest.approx((default + 0.01) / 0.9) and found == word


@pytest.mark.parametrize(("gains", "word"), [(1.5, "reproduced"), (1.0, "tie"), (0.9, "contradicted")])
@pytest.mark.parametrize("metric", ["precision", "ndcg"])
def test_lists_are_held_to_popularity(metric, gains, word):
    frame = frame_of({"{}": 0.8, WEAK: 0.85, STRONG: 0.7}, gains=gains)
    assert judged(f"defaults-implicit-{metric}-ml-100k", frame) == (pytest.approx(gains), word)


@pytest.mark.parametrize(("worst", "word"), [(0.80, "reproduced"), (0.90, "tie"), (1.1, "contradicted")])
def test_a_set_of_its_own_choice_is_held_to_its_baseline_and_the_worst_set_counts(worst, word):
    first = frame_of({"{}": 1.5, WEAK: 0.7, STRONG: 1.2})
    second = frame_of({"{}": 0.1, WEAK: 1.2, STRONG: worst - 0.01}).assign(data="jester-1")
    # The default is no choice where the search did not try it.
    assert judged("defaults-own-als", pd.concat([first, second])) == (pytest.approx(worst / 0.9), word)
    assert np.isnan(judged("defaults-own-rbm", first)[0])
    unjudged = (second.step == "test") & (second.parameters == STRONG)
    assert np.isnan(judged("defaults-own-als", pd.concat([first, second[~unjudged]]))[0])
    table = defaults.ratios(pd.concat([first, second])).loc["ALS", :]
    assert table["defaults"].to_dict() == pytest.approx({"jester-1": 0.11 / 0.9, "ml-100k": 1.51 / 0.9})
    assert table["the set's own choice"].to_dict() == pytest.approx({"jester-1": worst / 0.9, "ml-100k": 0.71 / 0.9})
    assert table["one choice for all"].to_dict() == pytest.approx({"jester-1": 1.21 / 0.9, "ml-100k": 0.71 / 0.9})
    own = defaults.own_choices(pd.concat([first, second])).groupby("data").parameters.unique()
    assert own["ml-100k"] == [WEAK] and own["jester-1"] == [STRONG]


def test_a_set_that_was_not_measured_says_nothing():
    assert np.isnan(judged("defaults-sgd-jester-1", frame_of({"{}": 1, WEAK: 1, STRONG: 1}))[0])


def test_one_choice_is_the_best_on_average_over_sets():
    first = frame_of({"{}": 1.0, WEAK: 0.80, STRONG: 0.85})
    second = frame_of({"{}": 1.0, WEAK: 1.00, STRONG: 0.90}).assign(data="jester-1")
    both = pd.concat([first, second])
    assert defaults.choice(first).parameters["ALS"] == {"regularization": 0.1}
    assert defaults.choice(both).parameters["ALS"] == {"regularization": 0.2}
    assert defaults.choice(both).error["ALS"] == pytest.approx((0.85 + 0.90) / 2 / 0.9)
    # What the test ratings say is of no account.
    worse = both.assign(rmse=both.rmse.where((both.step == "choice") | (both.parameters != STRONG), 9.0))
    assert defaults.choice(worse).parameters["ALS"] == {"regularization": 0.2}
    table = defaults.summary(both).set_index(["data", "model", "parameters"])
    assert table.rmse["ml-100k", "ALS", STRONG] == pytest.approx(0.86)
    assert table.spread["ml-100k", "ALS", STRONG] == pytest.approx(0.01)


def test_lists_are_chosen_by_precision_and_ndcg():
    rows = [("choice", "popularity", "", 0.2, 0.1), ("choice", "ImplicitALS", WEAK, 0.3, 0.1)]
    rows += [("choice", "ImplicitALS", STRONG, 0.2, 0.2), ("choice", "biases", "means", np.nan, np.nan)]
    frame = pd.DataFrame(rows, columns=["step", "model", "parameters", "precision", "ndcg"])
    frame = frame.assign(data="ml-100k", rmse=frame.precision.where(frame.model == "biases", np.nan).fillna(np.nan))
    assert defaults.choice(frame).parameters["ImplicitALS"] == {"regularization": 0.2}


def test_a_part_of_a_set_has_all_ratings_of_its_users():
    ratings = ragged_ratings(seed=2)
    part = defaults.part_of(ratings, 300)
    assert 200 < part.nnz <= 300 and part.n_items == ratings.n_items and part.scale == ratings.scale
    whole = {tuple(sorted(zip(ratings.by_user.indices[a:b], ratings.by_user.values[a:b], strict=True)))
             for a, b in zip(ratings.by_user.indptr, ratings.by_user.indptr[1:], strict=False)}  # fmt: skip
    rows = part.by_user
    of_part = [tuple(sorted(zip(rows.indices[a:b], rows.values[a:b], strict=True)))
               for a, b in zip(rows.indptr, rows.indptr[1:], strict=False)]  # fmt: skip
    assert len(of_part) == part.n_users > 5 and set(of_part) <= whole
    assert defaults.part_of(ratings, ratings.nnz) is ratings


def test_damped_biases_find_what_was_planted_and_stay_small_for_few_ratings():
    rng = np.random.default_rng(0)
    of_user, of_item = rng.standard_normal(400), rng.standard_normal(300)
    users, items = (a.ravel() for a in np.indices((400, 300)))
    found = defaults.damped_biases(Ratings(users, items, of_user[users] + of_item[items], 400, 300))
    assert np.corrcoef(found[0], of_user)[0, 1] > 0.999 and np.corrcoef(found[1], of_item)[0, 1] > 0.999
    few = Ratings([0, 1], [0, 1], [1, 5], 2, 2)
    assert np.abs(defaults.damped_biases(few)[0]).max() < 2 / 5


def test_als_after_biases_adds_factors_of_what_they_leave():
    train, test = ragged_ratings(60, 40, 12, seed=3).split(0.2)
    (_, damped) = [errors["rmse"] for model, _, errors in defaults.baselines(train, test) if model == "biases"]
    # So much regularization leaves the biases alone, the other one finds what they cannot say.
    stiff, loose = (defaults.AfterBiases(factors=2, regularization=of, device="cpu", seed=0) for of in (1e6, 0.1))
    for model in (stiff, loose):
        model.fit(train, 10)
    assert stiff.score(test)["rmse"] == pytest.approx(damped, rel=1e-5) and stiff.solver
    of_user, of_item = defaults.damped_biases(train)
    rest = train.values - train.mean - of_user[train.users] - of_item[train.items]
    assert loose.score(train)["rmse"] < 0.9 * np.sqrt(np.mean(rest**2))


def test_baselines_are_those_of_the_training_ratings():
    train, test = ragged_ratings(seed=2).split(0.2)
    found = [(model, kind, errors) for model, kind, errors in defaults.baselines(train, test)]
    assert [row[:2] for row in found] == [("biases", "means"), ("biases", "damped"), ("popularity", "counts")]
    of_user, of_item = defaults.damped_biases(train)
    error = np.clip(train.mean + of_user[test.users] + of_item[test.items], 1, 5) - test.values
    assert found[1][2]["rmse"] == pytest.approx(np.sqrt(np.mean(error**2)))
    assert 0 < found[2][2]["ndcg"] <= 1


@pytest.mark.slow
def test_the_defaults_are_among_what_is_chosen_from(monkeypatch):
    monkeypatch.setattr(defaults, "load_ratings", lambda name: ragged_ratings(seed=2))
    grids = {"ALS": {"factors": [4], "regularization": [0.1, 100.0]}}
    frame = defaults.run(["ragged"], 10_000, grids, 2, 1, "cpu")
    tried = frame[(frame.step == "choice") & (frame.model == "ALS")].set_index("parameters").rmse
    assert len(tried) == 3 and "{}" in tried.index
    chosen = frame[(frame.step == "test") & (frame.model == "ALS")].parameters
    assert set(chosen) == {"{}", tried.idxmin()} and len(chosen) == len(set(chosen))


def test_each_set_is_also_judged_by_its_own_choice_and_epochs_are_a_parameter(monkeypatch):
    sets = {"first": ragged_ratings(seed=2), "second": ragged_ratings(seed=3)}
    sets = {name: replace(ratings, name=name) for name, ratings in sets.items()}
    monkeypatch.setattr(defaults, "load_ratings", sets.get)
    kept = {"first": 2, "second": 5}  # epochs after which the error is the least
    errors = lambda model, judge: {"rmse": abs(model.epoch - kept[judge.name]) + 0.1, "mae": 1.0}  # noqa: E731
    monkeypatch.setattr(defaults.ALS, "score", errors)
    frame = defaults.run(list(sets), 10_000, {"ALS": {"factors": [2], "epochs": [2, 5]}}, 3, 2, "cpu")
    tests = frame[(frame.step == "test") & (frame.model == "ALS")].groupby("data").parameters.unique()
    for name, epochs in kept.items():
        own = json.dumps({"factors": 2, "epochs": epochs})
        assert own in tests[name] and "{}" in tests[name]
        assert set(defaults.own_choices(frame).query("data == @name and model == 'ALS'").parameters) == {own}
    assert (frame.epochs[frame.parameters == json.dumps({"factors": 2, "epochs": 5})] == 5).all()
