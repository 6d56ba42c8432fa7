"""Search: settings are scored as by a fit alone, losers are dropped, and nothing done is lost."""

import json
import os
import re
import time
from dataclasses import replace
from threading import Lock

import numpy as np
import pandas as pd
import pytest
from scipy.stats import loguniform

from gpumf import ALS, RBM, SGD, BayesianMF, DivergedError, ImplicitALS, cross_validate, search
from gpumf.models import trials
from gpumf.models.ranking import METRICS, PredictedRanking
from gpumf.models.trials import Trial, Trials
from gpumf.ratings import DeviceRatings, Ratings
from support import least_peak, ragged_ratings

RATINGS = ragged_ratings(n_users=30, n_items=20, longest=12, seed=4)
GRID = {"factors": [1, 3], "regularization": [0.01, 0.1, 1.0]}
SETTINGS = {
    "ALS": (ALS(device="cpu"), GRID, "rmse"),
    "ALS, exact": (ALS(device="cpu", solver="sequential", biases=False), GRID, "mae"),
    "ImplicitALS": (ImplicitALS(device="cpu"), {"factors": [2, 3], "alpha": [1.0, 9.0]}, "ndcg@3"),
    "SGD": (SGD(3, device="cpu"), {"learning_rate": [0.01, 0.05], "seed": [0, 1]}, "rmse"),
    "SGD, row rates": (SGD(3, solver="ordered", row_rates=True), {"side": [4, 8], "biases": [True, False]}, "rmse"),
    "RBM": (RBM(4, device="cpu"), {"learning_rate": [0.01, 0.1], "batch": [5, 9]}, "rmse"),
    "BayesianMF": (BayesianMF(3), {"factors": [2, 3], "samples": [2, 9]}, "rmse"),
    "RBM, momentum": (RBM(4, device="cpu"), {"momentum": [0.0, 0.5]}, "rmse"),
}
EACH = pytest.mark.parametrize(("model", "grid", "metric"), SETTINGS.values(), ids=SETTINGS)
HALVING = {"strategy": "halving", "factor": 2}


def plain(frame):
    """What of a frame does not depend on how fast the machine is."""
    return frame.drop(columns="seconds")


def same(a, b):
    return plain(a.results).equals(plain(b.results)) and plain(a.trials).equals(plain(b.trials))


@EACH
def test_every_setting_has_the_scores_of_a_fit_alone(model, grid, metric):
    found = search(model, grid, RATINGS, 4, folds=2, metric=metric, refit=False, seed=3)
    folds = list(RATINGS.kfold(2, 3))
    assert len(found.trials) == 2 * np.prod([len(values) for values in grid.values()])
    for row in found.trials.to_dict("records"):
        train, test = folds[row["fold"]]
        alone = type(model)(**model.get_params() | {name: row[name] for name in grid}).fit(train, 4)
        assert row[metric] == (
            alone.evaluate_ranking(test, 3)["ndcg"] if "@" in metric else alone.score(test)[metric]
        )


@EACH
def test_the_number_of_jobs_changes_nothing_and_halving_ends_as_the_grid(model, grid, metric):
    one, two = (search(model, grid, RATINGS, 4, folds=2, metric=metric, n_jobs=jobs, **HALVING) for jobs in (1, 2))
    assert same(one, two) and one.best_parameters == two.best_parameters
    assert same(one, search(model, grid, RATINGS, 4, folds=2, metric=metric, n_jobs=-1, refit=False, **HALVING))
    assert all(np.array_equal(*both) for both in zip(one.best_model._learned, two.best_model._learned, strict=True))
    whole = plain(search(model, grid, RATINGS, 4, folds=2, metric=metric, refit=False).trials)
    last = plain(one.trials)[one.trials["rung"] == len(one.n_resources) - 1]
    assert len(last) == 2 * one.n_candidates[-1]
    assert last.drop(columns="rung").merge(whole.drop(columns="rung")).shape[0] == len(last)  # equal in all columns


@pytest.mark.parametrize(("resource", "least"), [("epochs", {"min_resources": 3}), ("folds", {})])
def test_halving_finds_the_winner_of_the_grid(resource, least):
    rng = np.random.default_rng(0)
    users, items = np.divmod(rng.permutation(60 * 40)[:1500], 40)
    p, q = rng.normal(size=(60, 2)), rng.normal(size=(40, 2))
    values = 3 + (p[users] * q[items]).sum(axis=1) + rng.normal(0, 0.3, 1500)
    ratings = Ratings(users, items, values, 60, 40)
    grid = {"regularization": [1e-4, 0.003, 0.03, 0.3, 3.0, 30.0, 100.0, 300.0, 1000.0], "factors": [2]}
    whole, halved = (
        search(
            ALS(biases=True, device="cpu"), grid, ratings, 27, folds=4, strategy=strategy, resource=resource, **least
        )
        for strategy in ("grid", "halving")
    )
    assert halved.best_parameters == whole.best_parameters and halved.best_score == whole.best_score
    assert halved.n_candidates == {"epochs": (9, 3, 1), "folds": (9, 3)}[resource]
    assert halved.n_resources == {"epochs": (3, 9, 27), "folds": (1, 4)}[resource]
    assert len(halved.trials) == {"epochs": 13 * 4, "folds": 9 + 3 * 3}[resource]
    assert np.array_equal(halved.best_model.user_factors, whole.best_model.user_factors)


def test_a_setting_that_diverges_has_no_score_and_the_others_do():
    grid = {"learning_rate": [0.01, 1e20, 0.02]}
    found = search(SGD(2, biases=True, device="cpu"), grid, RATINGS, 2, folds=2)
    assert found.results.learning_rate.tolist()[-1] == 1e20
    assert found.results.rmse.isna().tolist() == [False, False, True]
    assert search(SGD(2, biases=True, device="cpu"), grid, RATINGS, 4, folds=2, **HALVING).best_score < 3
    with pytest.raises(ValueError, match="every setting; lower learning_rate"):
        search(SGD(2, biases=True, device="cpu"), {"learning_rate": [1e20]}, RATINGS, 2, folds=2)


class Interrupted:
    """Raises KeyboardInterrupt in a model's `fit` after so many calls."""

    def __init__(self, monkeypatch, calls):
        fit, self.left = ALS.fit, calls

        def counted(*arguments, **named):
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt
            return fit(*arguments, **named)

        monkeypatch.setattr(ALS, "fit", counted)


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("options", [{}, HALVING, {"keep": "best"}], ids=["grid", "halving", "best epoch"])
def test_a_search_goes_on_after_an_interrupt(jobs, options, tmp_path, monkeypatch):
    path = tmp_path / "search.json"
    arguments = ALS(device="cpu"), GRID, RATINGS, 4
    options = {"folds": 2, "n_jobs": jobs, **options}
    whole = search(*arguments, **options)

    def trained(found):
        return len(found.trials if "keep" not in options else found.trials.query("epochs == 4"))

    with monkeypatch.context() as patched:
        Interrupted(patched, 7)
        with pytest.warns(RuntimeWarning, match="interrupted"):
            part = search(*arguments, resume=path, **options)
    assert not part.complete and part.best_model is None and 0 < trained(part) <= 7
    assert plain(part.trials).merge(plain(whole.trials)).shape[0] == len(part.trials)
    with monkeypatch.context() as patched:
        fits = Interrupted(patched, 1000)
        again = search(*arguments, resume=path, **options)
    assert same(again, whole) and 1000 - fits.left == trained(whole) - trained(part) + 1
    assert list(tmp_path.iterdir()) == [path]


def test_an_interrupt_before_anything_is_done(monkeypatch):
    Interrupted(monkeypatch, 0)
    with pytest.warns(RuntimeWarning, match="interrupted"):
        found = search(ALS(device="cpu"), GRID, RATINGS, 2, folds=2)
    assert found.results.empty and found.best_parameters is None and np.isnan(found.best_score)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not the file of a search"),
        (b"\x00\xff", "not the file of a search"),
        (b"[1, 2]", "not the file of a search"),
        (b'{"rmse": 1}', "not the file of a search"),
        ("cut", "not the file of a search"),
        ("row", "not the file of a search"),
        ("digit", "not the file of a search"),
        ("other", "belongs to another search"),
    ],
)
def test_a_file_of_something_else_is_refused_and_stays(content, words, tmp_path):
    path = tmp_path / "file"
    search(ALS(device="cpu"), {"factors": [1]}, RATINGS, 1, folds=2, resume=path)
    whole = path.read_bytes()
    if content == "cut":
        content = whole[:-9]
    elif content == "row":
        content = json.dumps(json.loads(whole) | {"scores": [[0, 0]]}).encode()
    elif content == "digit":
        content = json.loads(whole)
        content["scores"][0][3] /= 2
        content = json.dumps(content).encode()
    elif content == "other":
        content = whole
    path.write_bytes(content)
    with pytest.raises(ValueError, match=words):
        search(ALS(device="cpu"), {"factors": [1, 2]}, RATINGS, 1, folds=2, resume=path)
    assert path.read_bytes() == content
    path.write_bytes(whole)
    with pytest.raises(ValueError, match="belongs to another search"):  # its epochs have no scores
        search(ALS(device="cpu"), {"factors": [1]}, RATINGS, 1, folds=2, resume=path, keep="best")
    with pytest.raises(OSError, match="No such file"):  # before anything is trained
        search(ALS(device="cpu"), {"factors": [1]}, RATINGS, 1, folds=2, resume=tmp_path / "none" / "file")


@pytest.fixture
def meanwhile(monkeypatch):
    """A function that has another one called as the fourth setting trains; scores are written after each."""
    fit, write, writing = ALS.fit, Trials.write, Lock()
    monkeypatch.setattr(trials, "_SECONDS", 0)

    def when(change):
        fits = []

        def fitted(self, *arguments, **named):
            fits.append(self)
            if len(fits) == 4:
                with writing:
                    change()
            return fit(self, *arguments, **named)

        def written(self):
            with writing:
                write(self)

        monkeypatch.setattr(ALS, "fit", fitted)
        monkeypatch.setattr(Trials, "write", written)

    return when


def replaced(path):
    path.unlink()
    path.write_bytes(b"my notes")


def made_a_folder(path):
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("change", [replaced, made_a_folder])
def test_a_file_that_becomes_something_else_stays_and_so_do_the_scores(change, jobs, meanwhile, tmp_path):
    path, arguments = tmp_path / "scores", (ALS(device="cpu"), {"factors": [1, 2, 3]}, RATINGS, 2)
    options = {"folds": 2, "refit": False, "n_jobs": jobs}
    meanwhile(lambda: change(path))
    with pytest.raises(ValueError, match=f"resume: {path} has become another file") as error:
        search(*arguments, resume=path, **options)
    assert path.is_dir() if change is made_a_folder else path.read_bytes() == b"my notes"
    (beside,) = set(tmp_path.iterdir()) - {path}
    assert str(beside) in str(error.value) and 3 <= len(json.loads(beside.read_bytes())["scores"]) <= 6
    assert same(search(*arguments, resume=beside, **options), search(*arguments, **options))


def test_a_file_may_become_a_folder_just_before_it_is_replaced(monkeypatch, tmp_path):
    path, calls, put_there = tmp_path / "scores", [], os.replace
    monkeypatch.setattr(trials, "_SECONDS", 0)

    def late(beside, to):
        calls.append(to)
        if len(calls) == 3:
            made_a_folder(path)
        put_there(beside, to)

    monkeypatch.setattr("os.replace", late)
    with pytest.raises(ValueError, match=f"resume: {path} has become another file"):
        search(ALS(device="cpu"), {"factors": [1, 2, 3]}, RATINGS, 2, folds=2, resume=path)
    (beside,) = set(tmp_path.iterdir()) - {path}
    assert path.is_dir() and json.loads(beside.read_bytes())["scores"]


def test_a_file_that_is_gone_or_cannot_be_replaced_is_no_other_one(meanwhile, tmp_path, monkeypatch):
    path, arguments = tmp_path / "scores", (ALS(device="cpu"), {"factors": [1, 2, 3]}, RATINGS, 2)
    meanwhile(path.unlink)
    search(*arguments, folds=2, resume=path)
    assert len(json.loads(path.read_bytes())["scores"]) == 6 and list(tmp_path.iterdir()) == [path]
    path.unlink()

    def full(*_):
        raise OSError(28, "No space left on device")

    meanwhile(lambda: monkeypatch.setattr("os.fsync", full))
    with pytest.raises(OSError, match="No space left"):
        search(*arguments, folds=2, resume=path)


def test_draws_are_those_of_the_seed_and_come_once():
    drawn = {"factors": [1, 2, 3], "regularization": loguniform(0.01, 10)}
    found = [
        search(ALS(device="cpu"), drawn, RATINGS, 1, folds=2, strategy="random", budget=4, seed=seed)
        for seed in (1, 1, 2)
    ]
    assert same(*found[:2]) and not same(*found[1:]) and found[0].results.regularization.between(0.01, 10).all()
    of_lists = search(ALS(device="cpu"), GRID, RATINGS, 1, folds=2, strategy="random", budget=5).results
    assert len(of_lists.drop_duplicates(["factors", "regularization"])) == 5
    assert len(search(ALS(device="cpu"), GRID, RATINGS, 1, folds=2, strategy="random", budget=50).results) == 6


def test_ids_and_given_pairs():
    names = [f"u{user}" for user in RATINGS.users], [f"i{item}" for item in RATINGS.items], RATINGS.values
    found = search(ALS(device="cpu"), {"factors": [1, 2]}, names, 1, folds=2)
    assert found.best_model.ids and len(found.best_model.recommend("u1", k=3)[0]) == 3
    pairs = [RATINGS.split(0.3, seed=1)]
    one = search(ALS(device="cpu"), {"factors": [2]}, RATINGS, 2, folds=pairs)
    assert one.best_score == cross_validate(ALS(2, device="cpu"), pairs, 2).rmse[0] and one.results.folds[0] == 1
    assert one.best_model.user_factors.shape[0] == RATINGS.n_users and not one.best_model.ids


def test_a_test_rating_that_is_not_finite_is_named():
    test = Ratings([1, 0], [0, 1], [3, np.nan], RATINGS.n_users, RATINGS.n_items)
    with pytest.raises(ValueError, match="validation: rating 1 is nan"):
        search(ALS(2, device="cpu"), {"factors": [2]}, RATINGS, 1, folds=[(RATINGS, test)])


def named(offset):
    return replace(RATINGS, user_ids=np.arange(RATINGS.n_users)[::-1] + offset)


@pytest.mark.parametrize("name", ["ALS", "BayesianMF", "RBM"])
@pytest.mark.parametrize(
    "pair",
    [
        (RATINGS, Ratings([0, 900], [0, 1], [3, 3], 901, RATINGS.n_items)),
        (RATINGS, Ratings([0], [0], [3], 2, 2)),
        (named(100), named(101)),
        (RATINGS, RATINGS.select([])),
    ],
    ids=["more users", "fewer users", "other ids", "empty"],
)
def test_a_test_set_of_others_is_refused_as_by_fit(name, pair, tmp_path, monkeypatch):
    model, grid, _ = SETTINGS[name]
    with pytest.raises(ValueError) as of_fit:
        type(model)(**model.get_params()).fit(pair[0], 1, validation=pair[1])
    monkeypatch.setattr(type(model), "fit", None)
    with pytest.raises(type(of_fit.value), match=re.escape(str(of_fit.value))):
        search(model, grid, RATINGS, 1, folds=[RATINGS.split(), pair], resume=tmp_path / "scores")
    assert not list(tmp_path.iterdir())


def test_parameters_that_a_model_does_not_have():
    with pytest.raises(TypeError, match="size"):
        search(ALS(device="cpu"), {"size": [1]}, RATINGS)


def test_a_seed_that_was_drawn_is_that_of_all_settings():
    model = ALS(device="cpu", seed=None)
    found = [search(model, GRID, RATINGS, 2, folds=2) for _ in range(2)]
    assert same(*found) and found[0].best_model.seed == model.seed


@pytest.mark.parametrize("more", [{}, {"regularization": loguniform(0.1, 1)}], ids=["all", "drawn"])
def test_values_may_be_a_set_or_a_series(more):
    budget = {"strategy": "random", "budget": 4} if more else {}
    for values in ({2, 3}, pd.Series([2, 3], index=[7, 9])):
        found = search(ALS(device="cpu"), {"factors": values} | more, RATINGS, 1, folds=2, refit=False, **budget)
        assert set(found.results.factors) <= {2, 3} and len(found.results) == (4 if more else 2)


def test_models_that_wait_to_be_continued_take_memory():
    made = Trials([ALS(2, device="cpu")], [RATINGS.split(0.2, seed=1)], "rmse", n_jobs=1, again=True)
    before = made._left
    for epochs in (1, 2):
        made.run([Trial(0, 0, epochs)], lambda _: None)
        assert made._models and before - made._left == sum(map(trials._learned_bytes, made._models.values()))


@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize("model", [ALS, ImplicitALS, SGD, RBM])
def test_memory_is_predicted_and_kept(model, every):
    folds = [ragged_ratings(n_users=3000, n_items=2000, longest=90, seed=1).split(0.2, seed=1)]
    one = model(32, device="cpu")
    of_one = trials._bytes([one], folds[0][0], every)[0]
    assert Trials([one] * 3, folds, "rmse", n_jobs=2, memory=of_one, every=every).jobs == 1
    made = Trials([one], folds, "rmse", n_jobs=1, every=every)
    made.run([Trial(0, 0, 1)], lambda _: None)  # compiles, and makes what all settings share
    peak = least_peak(lambda epochs: made.run([Trial(0, 0, epochs)], lambda _: None), (2, 3, 4))
    assert (0.6 if model is RBM else 0.85) * of_one < peak <= of_one


def test_models_are_made_again_where_they_do_not_fit(monkeypatch):
    arguments = ALS(4, device="cpu"), {"regularization": [0.01, 0.1, 1.0]}, RATINGS, 4
    options = {"folds": 2, "refit": False, **HALVING}
    least = trials._bytes([ALS(4, device="cpu")], max((pair[0] for pair in RATINGS.kfold(2)), key=lambda x: x.nnz))[0]
    warm, epochs, fit = [], [], ALS.fit

    def counted(self, train, n, **named):
        warm.append(named["warm_start"]), epochs.append(n)
        return fit(self, train, n, **named)

    monkeypatch.setattr(ALS, "fit", counted)
    kept = search(*arguments, **options)
    assert any(warm) and sum(epochs) == (3 * 2 + 2 * 2) * 2
    warm.clear(), epochs.clear()
    again = search(*arguments, memory=least, **options)
    assert not any(warm) and sum(epochs) == (3 * 2 + 2 * 4) * 2 and same(kept, again)


@pytest.mark.parametrize("model", [ALS, ImplicitALS, SGD, RBM])
def test_settings_on_a_gpu_have_the_scores_of_a_fit_alone(model, device, monkeypatch):
    copies, of = [], DeviceRatings.of.__func__
    monkeypatch.setattr(DeviceRatings, "of", classmethod(lambda *given: copies.append(given) or of(*given)))
    grid = {"hidden": [4, 3]} if model is RBM else {"factors": [2], "regularization": [0.1, 1.0]}
    found = search(model(device=device), grid, RATINGS, 2, folds=2, metric="rmse", n_jobs=2, refit=False, **HALVING)
    assert len(copies) in (0, 2 * 2)  # no further one for a setting; 0 of solvers that take them from the host
    row = found.trials.to_dict("records")[-1]
    train, test = list(RATINGS.kfold(2))[row["fold"]]
    alone = model(**{name: row[name] for name in grid}, device=device).fit(train, row["epochs"])
    assert row["rmse"] == pytest.approx(alone.score(test)["rmse"], rel=1e-6)


def test_attributes_are_named_as_those_of_scikit_learn():
    found = search(ALS(device="cpu"), GRID, RATINGS, 4, folds=2, **HALVING)
    results = found.cv_results_
    assert results["params"][0] == found.best_params_ == found.best_parameters
    assert results["mean_test_score"][0] == found.best_score_ == -found.best_score
    assert results["std_test_score"].tolist() == found.results.rmse_std.tolist()
    assert results["param_factors"].tolist() == found.results.factors.tolist()
    assert results["rank_test_score"].tolist() == [1, 2, 3, 4, 5, 6] and results["iter"][0] == 2
    assert found.best_estimator_ is found.best_model
    assert found.n_candidates_ == [6, 3, 2] and found.n_resources_ == [1, 2, 4]
    by_lists = search(ALS(device="cpu"), {"factors": [1, 2]}, RATINGS, 1, folds=2, metric="ndcg@3")
    assert by_lists.best_score_ == by_lists.best_score == by_lists.cv_results_["mean_test_score"][0]


def of_groups(n_users=60, n_items=30, groups=3):
    """Ratings of users who mostly rate the items of one group, its first ones more often, and like these better."""
    users, items = np.indices((n_users, n_items))
    likes = users % groups == items % groups
    rated = np.random.default_rng(0).random(likes.shape) < np.where(likes, 0.9 - 0.5 * items / n_items, 0.05)
    return Ratings(*np.nonzero(rated), np.where(likes, 5, 1)[rated] - items[rated] // groups % 2, n_users, n_items)


def bounds(model, test, metric):
    """(least, most) of a metric on a test set, of predictions as far from a model's as rounding may take them.

    That is eight times the rounding of half precision, 2**-8 of the range of the predictions.
    """
    scores = model.predict(*np.indices((test.n_users, test.n_items)))
    rounding = 2**-8 * np.ptp(scores)
    if metric == "rmse":
        score = model.score(test)["rmse"]
        return score - rounding, score + rounding
    found, tested = [], np.full(scores.shape, -1)
    tested[test.users, test.items] = 1
    for sign in (-1, 1):  # all test items lower and all others higher, and the other way round
        shifted = (scores + sign * rounding * tested).astype(np.float32)
        known = model._item_counts > 0, model._training.by_user
        ranking = PredictedRanking(lambda *at, of=shifted: of[at], shifted.shape, *known)
        of_users = ranking.metrics(test.by_user, np.flatnonzero(test.user_counts), int(metric[-1]))
        found.append(of_users.mean(axis=0)[METRICS.index("ndcg")])
    return found


@pytest.mark.parametrize(
    ("model", "metric", "regularization"), [(ALS, "rmse", (0.3, 10)), (ImplicitALS, "ndcg@3", (0.003, 0.03))]
)
def test_the_result_of_a_seed_is_that_of_any_device_but_for_rounding(model, metric, regularization, device):
    drawn = {"factors": [1, 3], "regularization": loguniform(*regularization)}
    options, ratings = {"folds": 2, "strategy": "halving", "budget": 6, "seed": 5, "metric": metric}, of_groups()
    here, there = (search(model(device=name), drawn, ratings, 9, **options) for name in ("cpu", device))
    assert (here.n_candidates, here.n_resources) == (there.n_candidates, there.n_resources) == ((6, 2), (3, 9))
    tried = ["setting", "factors", "regularization", "fold", "epochs"]
    assert here.trials.query("rung == 0")[tried].equals(there.trials.query("rung == 0")[tried])
    assert len(here.trials) == len(there.trials) == 2 * (6 + 2)
    pairs, widths = list(ratings.kfold(2, 5)), []
    for row in there.trials.to_dict("records"):
        train, test = pairs[row["fold"]]
        alone = model(row["factors"], row["regularization"], device="cpu").fit(train, row["epochs"])
        least, most = bounds(alone, test, metric)
        assert least <= row[metric] <= most
        widths.append(most - least)
    assert np.median(widths) < np.ptp(there.trials[metric]) / 4, "these bounds would tell no setting from another"


@EACH
def test_the_best_epoch_is_that_of_the_mean_over_the_folds(model, grid, metric):
    found = search(model, grid, RATINGS, 4, folds=2, metric=metric, keep="best", seed=3)
    pairs, best = list(RATINGS.kfold(2, 3)), max if "@" in metric else min
    assert len(found.trials) == 2 * 4 * len(found.results) and {*found.trials.epochs} == {1, 2, 3, 4}
    for row in found.results.to_dict("records"):
        setting, means = {name: row[name] for name in grid}, []
        for epochs in (1, 2, 3, 4):
            alone = [type(model)(**model.get_params() | setting).fit(train, epochs) for train, _ in pairs]
            scores = [
                one.evaluate_ranking(test, 3)["ndcg"] if "@" in metric else one.score(test)[metric]
                for one, (_, test) in zip(alone, pairs, strict=True)
            ]
            means.append(np.mean(scores))
        assert row["epochs"] == means.index(best(means)) + 1 and row[metric] == best(means)
    assert found.best_score == best(found.results[metric])
    whole = type(model)(**model.get_params() | found.best_parameters).fit(RATINGS, found.results.epochs[0])
    assert all(np.array_equal(*both) for both in zip(found.best_model._learned, whole._learned, strict=True))


def test_a_setting_that_diverges_late_has_the_scores_of_the_epochs_before(monkeypatch):
    grid, epoch = {"regularization": [0.1, 1.0]}, ALS._epoch

    def poisoned(self, solver, number, rows):
        if self.regularization == 1.0 and number == 2:
            raise DivergedError(3, "")
        epoch(self, solver, number, rows)

    given = ALS(2, device="cpu"), grid, RATINGS
    three = search(*given, 2, folds=2, keep="best").results
    monkeypatch.setattr(ALS, "_epoch", poisoned)
    found = search(*given, 4, folds=2, keep="best", refit=False)
    assert found.trials.query("regularization == 1.0").rmse.isna().tolist() == [False, False, True] * 2
    assert (
        three.query("regularization == 1.0").rmse.item() == found.results.query("regularization == 1.0").rmse.item()
    )


def test_halving_by_best_epochs_ends_with_those_of_the_grid():
    given = SGD(8, 0.0, learning_rate=0.1, solver="sequential", device="cpu"), {"factors": [1, 4, 8, 12]}, RATINGS, 12
    found, whole = (search(*given, folds=2, keep="best", refit=False, **how) for how in (HALVING, {}))
    assert found.results.epochs[0] < 12, "it overfits"
    last = found.results[found.results["rung"] == len(found.n_resources) - 1]
    assert len(plain(last).drop(columns="rung").merge(plain(whole.results))) == len(last) == found.n_candidates[-1]


@pytest.mark.parametrize("strategy", [{}, HALVING], ids=["grid", "halving"])
def test_the_seconds_of_all_trials_are_no_more_than_those_of_the_search(strategy):
    started = time.perf_counter()
    found = search(SGD(solver="ordered"), {"factors": [2, 3, 4]}, RATINGS, 4, n_jobs=1, refit=False, **strategy)
    elapsed = time.perf_counter() - started
    assert found.trials.seconds.min() > 0 and found.trials.seconds.sum() <= elapsed


def test_settings_of_a_search_are_as_they_were_given():
    given = {"cg_steps": [None, 2], "factors": [2, 3]}
    found = search(ALS(2, device="cpu"), given, RATINGS, epochs=1, folds=2, refit=False)
    settings = found.cv_results_["params"]
    assert settings[0] == found.best_parameters and len(settings) == 4
    assert {(type(one["cg_steps"]), type(one["factors"])) for one in settings} == {(type(None), int), (int, int)}
    for one in settings:
        ALS(device="cpu", **one)


@pytest.mark.parametrize(("model", "epochs"), [(ALS(2, device="cpu"), 20), (BayesianMF(2, samples=5), 100)])
def test_a_training_has_by_default_as_many_epochs_as_fit(model, epochs):
    def as_of(given):
        found = cross_validate(model, RATINGS.kfold(2), given)
        return found.rmse.tolist(), search(model, {"factors": [2]}, RATINGS, given, folds=2).best_score

    assert as_of(None) == as_of(epochs)
    assert search(model, {"factors": [2]}, RATINGS, folds=2).best_model.epoch == epochs
    assert as_of(None) != as_of(2)


def test_lists_judge_what_predicts_no_ratings():
    found = search(ImplicitALS(2, device="cpu"), {"factors": [2, 3]}, RATINGS, 2, folds=2, refit=False)
    assert found.metric == "ndcg@10" and "ndcg@10" in found.results
    assert search(ALS(2, device="cpu"), {"factors": [2]}, RATINGS, 2, folds=2, refit=False).metric == "rmse"


def test_a_class_is_no_model():
    for judged in (lambda: search(SGD, {"factors": [2]}, RATINGS), lambda: cross_validate(SGD, RATINGS)):
        with pytest.raises(TypeError, match=r"an instance, as SGD\(\), not the class"):
            judged()
