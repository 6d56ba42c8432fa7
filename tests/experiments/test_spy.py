"""Every experiment under a spy: what is trained with which parameters on which ratings, and what it is judged on."""

from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
import pytest

from gpumf import experiments
from gpumf.datasets import Ratings
from gpumf.models.blend import Blend
from gpumf.models.estimator import Model

TUNED = {
    "ml-100k-twin": {
        "ALS": {"regularization": 0.11},
        "SGD": {"regularization": 0.07, "learning_rate": 0.013},
        "RBM": {"learning_rate": 0.03},
    }
}
# Experiments that train models, in small, with parameters that are told apart and, where they choose, a choice.
TRAINING = {
    "als_convergence": {"parameters": TUNED},
    "als_netflix": {"repeats": 2},
    "als_sgd_rbm": {"repeats": 2, "parameters": TUNED, "epochs": {"ALS": 2, "SGD": 3, "RBM": 1}},
    "blend_ml100k": {
        "seeds": 2,
        "epochs": {"RBM": 1, "SGD": 3, "ALS": 2},
        "grids": {
            "RBM": {"hidden": [2, 4], "learning_rate": [0.05], "beta": [0.01]},
            "SGD": {"factors": [5], "regularization": [0.01, 0.3], "learning_rate": [0.02], "beta": [0.02]},
            "ALS": {"factors": [4], "regularization": [0.05, 0.3]},
        },
    },
    "crossover": {"repeats": 2, "regularization": [0.05, 0.5], "learning_rate": [0.01, 0.1]},
    "first_comparison": {"parameters": TUNED},
    "fit_seconds": {"fits": [["ALS", "parallel", 4, 1], ["SGD", "sequential", 5, 2]]},
    "implicit_quality": {},
    "parameter_search": {
        "repeats": 2,
        "sgd_regularization": [0.02, 0.2],
        "learning_rate": [0.001, 0.05],
        "als_regularization": [0.03, 0.3],
        "als_epochs": 3,
        "rbm": {"data": "ml-100k-twin", "users": 60, "learning_rate": [0.1, 0.4], "epochs": 1},
    },
    "picture_completion": {},
    "rbm_features": {},
    "rbm_tuning": {"seeds": 2},
    "sgd_douban": {},
    "sgd_ml100k": {"seeds": 2, "regularization": [0.01, 0.3], "factors": [4]},
    "sgd_netflix": {"repeats": 2},
    "sgd_schemes": {"repeats": 2},
    "sgd_spread": {},
    "sparsity": {
        "repeats": {"ALS": 2, "SGD": 2, "RBM": 2},
        "regularization": {"ALS": [0.1], "SGD": [0.2], "RBM": [0.004]},
        "epochs": {"ALS": 2, "SGD": 3, "RBM": 1},
        "parameters": TUNED,
    },
    "speedups": {"repeats": 2, "cpu_repeats": 2, "parameters": TUNED},
    "stale_rbm": {"seeds": 2},
}
# Their held-out ratings choose, or they judge by nothing.
WITHOUT_TEST = {"fit_seconds", "picture_completion", "rbm_features", "stale_rbm"}
# The thesis's way, of a search whose result others use, and of the level that two models are compared at.
CHOOSE_BY_TEST = {"parameter_search", "crossover"}
# (model, factors or hidden units, lambda, learning rate, epochs, seed) of all trainings; what is chosen stands below.
EXPECTED = {
    "als_convergence": {("ALS", 8, 0.11, None, 2, 0)},
    "als_netflix": {("ALS", 32, 0.05, None, 2, 0)},
    "als_sgd_rbm": {
        (model, size, regularization, rate, epochs, seed)
        for model, size, regularization, rate, epochs in (
            ("ALS", 16, 0.11, None, 2),
            ("SGD", 16, 0.07, 0.013, 3),
            ("RBM", 128, 0.0, 0.03, 1),
        )
        for seed in (0, 1)
    },
    "first_comparison": {
        *(("ALS", 16, 0.11, None, 3, seed) for seed in (0, 1)),
        *(("SGD", 16, 0.07, 0.013, 2, seed) for seed in (0, 1)),
    },
    "fit_seconds": {("ALS", 4, 0.05, None, 1, 0), ("SGD", 5, 0.05, 0.03, 2, 0)},
    "implicit_quality": {("ImplicitALS", 8, 0.1, None, 1, 0)},
    "picture_completion": {("ALS", 4, 3.0, None, 5, 0), ("ALS", 4, 5.0, None, 5, 0)},
    "rbm_features": {("RBM", 8, 0.01, 0.1, 2, 0)},
    "sgd_douban": {("SGD", 16, 0.06, 0.02, 2, 0)},
    "sgd_netflix": {("SGD", 16, 0.05, 0.02, 2, seed) for seed in (0, 1)},
    "sgd_schemes": {("SGD", 16, 0.05, 0.02, 2, seed) for seed in (0, 1)},
    "sgd_spread": {("SGD", 16, 0.06, 0.02, 2, seed) for seed in (0, 1)},
    "sparsity": {
        *(("ALS", 16, 0.1, None, 2, seed) for seed in (0, 1)),
        *(("SGD", 16, 0.2, 0.013, 3, seed) for seed in (0, 1)),
        *(("RBM", 128, 0.004, 0.03, 1, seed) for seed in (0, 1)),
    },
    "speedups": {
        *(("ALS", 16, 0.11, None, 2, seed) for seed in (0, 1)),
        *(("SGD", 16, 0.07, 0.013, 2, seed) for seed in (0, 1)),
    },
    "stale_rbm": {
        *(("SGD", 4, 0.1, 0.02, 2, seed) for seed in (0, 1)),
        *(("RBM", 8, 0.01, 0.1, epochs, seed) for seed in (0, 1) for epochs in (0, 2)),
    },
}


@dataclass
class Fit:
    """One training: the name of the model's class, its parameters, and what it was given and has learned."""

    model: str
    parameters: dict
    kernel: str | None
    epochs: int
    train: Ratings
    validation: Ratings | None
    warm: bool
    learned: tuple = ()
    rows: int = 0

    @property
    def asked(self):
        """All that a training depends on, as plain values."""
        t = self.train
        ratings = t.n_users, t.n_items, t.users.tobytes(), t.items.tobytes(), t.values.tobytes()
        return self.model, sorted(map(repr, self.parameters.items())), self.epochs, self.warm, ratings


@dataclass
class Seen:
    """What an experiment did, in its order."""

    fits: list = field(default_factory=list)
    judged: list = field(default_factory=list)  # (ratings that a model was trained on, cells that it is judged on)
    splits: list = field(default_factory=list)  # (number of fits before, train, test) of the sets split first


def pairs_of(ratings):
    """Each (user, item) as one number."""
    return ratings.users.astype(np.int64) * ratings.n_items + ratings.items


def common(a, b):
    """How many cells of the matrix are in both sets."""
    return len(np.intersect1d(pairs_of(a), pairs_of(b)))


@cache
def seen(name, mirrored=False):
    """What an experiment does in its smoke profile, with the ratings of its test sets `mirrored` or as they are."""
    log, parts, models = Seen(), [], {}

    def noted(whole, pair):
        train, test = pair
        if not any(whole is part for part in parts):
            parts.append(train)
            if mirrored:
                low, high = test.values.min(), test.values.max()
                test = replace(test, values=low + high - test.values)
            log.splits.append((len(log.fits), train, test))
        return train, test

    def split(self, *arguments, **named):
        return noted(self, plain["split"](self, *arguments, **named))

    def official_split(self):
        return noted(self, plain["official_split"](self))

    def kfold(self, *arguments, **named):
        return (noted(self, pair) for pair in plain["kfold"](self, *arguments, **named))

    def fit(self, train, epochs=20, validation=None, **options):
        made = Fit(
            type(self).__name__,
            dict(self._parameters),
            self.kernel if self._kernel_given else None,
            epochs,
            train,
            validation,
            options.get("warm_start", False),
        )
        log.fits.append(made)
        models[id(self)] = self, train
        try:
            return plain["fit"](self, train, epochs, validation, **options)
        finally:
            if self.history is not None:
                made.learned, made.rows = tuple(a.copy() for a in self._learned), len(self.history)
            if validation is not None:
                log.judged.append((train, validation))

    def score(self, ratings):
        log.judged.append((models[id(self)][1], ratings))
        return plain["score"](self, ratings)

    def rank(self, ratings, *arguments, **named):
        log.judged.append((models[id(self)][1], ratings))
        return plain["rank"](self, ratings, *arguments, **named)

    def blend_fit(self, held_out, metric="rmse"):
        log.judged.extend((models[id(model)][1], held_out) for model in self.models)
        log.fits.append(Fit("Blend", {"metric": metric}, None, 0, held_out, None, False))
        return plain["blend_fit"](self, held_out, metric)

    def blend_score(self, ratings):
        log.judged.extend((models[id(model)][1], ratings) for model in self.models)
        return plain["blend_score"](self, ratings)

    places = {
        "split": (Ratings, "split", split),
        "official_split": (Ratings, "official_split", official_split),
        "kfold": (Ratings, "kfold", kfold),
        "fit": (Model, "fit", fit),
        "score": (Model, "score", score),
        "rank": (Model, "rank", rank),
        "blend_fit": (Blend, "fit", blend_fit),
        "blend_score": (Blend, "score", blend_score),
    }
    plain = {key: getattr(of, attribute) for key, (of, attribute, _) in places.items()}
    experiment = experiments.module(name)
    with pytest.MonkeyPatch.context() as patch:
        for of, attribute, spied in places.values():
            patch.setattr(of, attribute, spied)
        log.frame = experiment.run(**experiment.PROFILES["smoke"] | TRAINING.get(name, {}))
    return log


def what(fit):
    """What a training is told apart by, as in EXPECTED."""
    given = fit.parameters
    size = given.get("factors", given.get("hidden"))
    regularization = given.get("regularization", given.get("weight_decay"))
    return fit.model, size, regularization, given.get("learning_rate"), fit.epochs, given["seed"]


def trained_on(log, nnz):
    """What the models that were trained on so many ratings are told apart by, in order."""
    return [what(fit) for fit in log.fits if fit.train.nnz == nnz and fit.model != "Blend"]


def test_every_experiment_that_trains_is_looked_at():
    assert set(TRAINING) <= set(experiments.names())
    text = {name: experiments.module(name).__spec__.loader.get_source(experiments.module(name).__name__)
            for name in experiments.names()}  # fmt: skip
    fitting = {name for name, source in text.items() if ".fit(" in source or "trained(" in source}
    assert fitting and fitting - {"thread_scaling"} <= set(TRAINING)
    assert set(EXPECTED) | CHOOSE_BY_TEST | {"blend_ml100k", "rbm_tuning", "sgd_ml100k"} == set(TRAINING)


@pytest.mark.parametrize("name", TRAINING)
def test_training_and_what_judges_it_never_meet(name):
    log = seen(name)
    assert log.fits and all(fit.train.nnz for fit in log.fits)
    assert bool(log.judged) == (name not in WITHOUT_TEST - {"picture_completion"})
    for train, judge in log.judged:
        assert judge.nnz and common(train, judge) == 0
    assert bool(log.splits) == (name in set(TRAINING) - WITHOUT_TEST | {"picture_completion"})
    if name in WITHOUT_TEST:
        return
    bounds = [first for first, *_ in log.splits] + [len(log.fits)]
    assert bounds[0] == 0
    for (_, train, test), first, end in zip(log.splits, bounds, bounds[1:], strict=False):
        for fit in log.fits[first:end]:
            assert common(fit.train, test) == 0 and common(fit.train, train) == fit.train.nnz
            if fit.validation is not None and common(fit.validation, test) == 0:
                assert common(fit.validation, train) == fit.validation.nnz
    # What is reported is of the whole test set, not of a part.
    tests = {test.nnz for *_, test in log.splits}
    assert tests <= {judge.nnz for _, judge in log.judged}


@pytest.mark.parametrize("name", sorted(set(TRAINING) - WITHOUT_TEST))
def test_nothing_that_is_trained_depends_on_the_test_ratings_and_the_same_seed_is_the_same(name):
    log, other = seen(name), seen(name, mirrored=True)
    same = [a.asked == b.asked for a, b in zip(log.fits, other.fits, strict=False)]
    if name in CHOOSE_BY_TEST:
        assert not all(same), "it chooses by something else now: take it from the list"
        return
    assert all(same) and len(log.fits) == len(other.fits)
    compared = 0
    for a, b in zip(log.fits, other.fits, strict=True):
        if a.rows == b.rows and (a.model != "SGD" or a.kernel in ("sequential", "ordered")):
            assert all(map(np.array_equal, a.learned, b.learned)), what(a)
            compared += bool(a.learned)
    assert compared
    if "rmse" in log.frame:
        assert not log.frame.rmse.equals(other.frame.rmse), "errors are those on the test ratings"


@pytest.mark.parametrize("name", EXPECTED)
def test_parameters_arrive_and_repeats_have_seeds_of_their_own(name):
    fits = seen(name).fits
    assert {what(fit) for fit in fits} == EXPECTED[name]
    by_seed = {}
    for fit in fits:
        if fit.learned and fit.kernel in (None, "sequential", "parallel") and fit.rows > 1:
            by_seed.setdefault((what(fit)[:-1], fit.kernel, fit.train.nnz), {})[what(fit)[-1]] = fit.learned[0]
    for learned in by_seed.values():
        if len(learned) == 2:
            assert not np.array_equal(*learned.values())
    seeds = {what(fit)[-1] for fit in fits}
    assert any(len(learned) == len(seeds) for learned in by_seed.values())


@pytest.mark.parametrize("name", ["als_sgd_rbm", "first_comparison", "sgd_schemes", "speedups", "parameter_search"])
def test_repeats_split_with_seeds_of_their_own(name):
    tests = [test for *_, test in seen(name).splits]
    assert len(tests) >= 2 and common(tests[0], tests[-1]) < 0.5 * tests[0].nnz


def test_the_search_tries_its_grids_and_only_those():
    tried = {what(fit) for fit in seen("parameter_search").fits}
    rates = {(rate, seed) for rate in (0.001, 0.05) for seed in (0, 1)}
    assert {key for key in tried if key[0] == "ALS"} == {
        ("ALS", 16, value, None, 3, seed) for value in (0.03, 0.3) for seed in (0, 1)
    }
    assert {key for key in tried if key[0] == "RBM"} == {
        ("RBM", 128, 0.0, rate, 1, seed) for rate in (0.1, 0.4) for seed in (0, 1)
    }
    of_sgd = {key for key in tried if key[0] == "SGD"}
    assert {(key[3], key[5]) for key in of_sgd if key[2] not in (0.02, 0.2)} == rates
    # Of the regularizations with the one rate that was best, the same for all repeats.
    chosen = {key[3] for key in of_sgd if key[2] in (0.02, 0.2)}
    assert len(chosen) == 1 and {(key[2], key[5]) for key in of_sgd if key[2] in (0.02, 0.2)} == {
        (value, seed) for value in (0.02, 0.2) for seed in (0, 1)
    }
    frame = seen("parameter_search").frame
    first = frame[(frame.model == "SGD") & (frame.varied == "learning_rate") & (frame.repeat == 0)]
    assert chosen == {first.learning_rate[first.mae.idxmin()]}


def test_sgd_is_judged_with_what_the_held_out_ratings_chose():
    log = seen("sgd_ml100k")
    frame, test = log.frame, log.frame[log.frame.step == "test"]
    assert sorted(set(test.fold)) == [0, 1, 2, 3, 4] and set(test.seed) == {0, 1}
    judged = iter(trained_on(log, 80000))
    for fold in range(5):
        choice = frame[(frame.step == "choice") & (frame.fold == fold)]
        best = choice.loc[choice.rmse.idxmin()]
        for seed in (0, 1):
            assert next(judged) == ("SGD", 4, best.regularization, 0.02, best.epochs, seed)
    assert next(judged, None) is None
    assert set(trained_on(log, 72000)) == {("SGD", 4, value, 0.02, 5, 0) for value in (0.01, 0.3)}


def test_blends_are_of_models_with_what_the_held_out_ratings_chose():
    log = seen("blend_ml100k")
    frame = log.frame[log.frame.model.isin(["RBM", "SGD", "ALS"])]
    judged = iter(trained_on(log, 80000))
    for fold in (0, 1):
        best = {}
        for model, choice in frame[(frame.step == "choice") & (frame.fold == fold)].groupby("model"):
            row = choice.loc[choice.rmse.idxmin()]
            size = row.hidden if model == "RBM" else row.factors
            best[model] = size, 0.0 if model == "RBM" else row.regularization, row.learning_rate, row.epochs
        for seed in (0, 1):
            for model in ("RBM", "SGD", "ALS"):
                size, regularization, rate, epochs = best[model]
                rate = None if model == "ALS" else rate
                assert next(judged) == (model, size, regularization, rate, epochs, seed)
    assert next(judged, None) is None
    # Weights are fitted to held-out ratings alone.
    blends = [fit for fit in log.fits if fit.model == "Blend"]
    assert blends and all(fit.train.nnz == 8000 for fit in blends)


def test_the_machine_is_judged_for_as_long_as_was_best_on_the_held_out_ratings():
    log = seen("rbm_tuning")
    choice, judged = log.frame[log.frame.step == "choice"], trained_on(log, 80000)
    curves = choice.groupby(["hidden", "gibbs_steps"])
    best = choice.loc[curves.rmse.idxmin()].set_index(["hidden", "gibbs_steps"])
    thesis = best.loc[(128, "T = 1")]
    assert judged[:2] == [("RBM", 128, 0.0, 0.02, thesis.epoch, seed) for seed in (0, 1)]
    # First the number of hidden units, then, with that, the steps.
    hidden = best.rmse.xs("T = 1", level="gibbs_steps").idxmin()
    epochs = best.epoch[hidden][best.rmse[hidden].idxmin()]
    assert judged[2:] == [("RBM", hidden, 0.0, 0.02, epochs, seed) for seed in (0, 1)]


def test_a_stale_machine_is_never_shown_what_it_predicts():
    nnz = [fit.train.nnz for fit in seen("stale_rbm").fits]
    assert set(nnz) == {50000, 75000}
    for fit in seen("stale_rbm").fits:
        assert fit.warm == (fit.epochs == 0)
