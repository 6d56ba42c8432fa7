"""What models are given and cannot use: one error that names it, and the model as it was before."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.stats import uniform

from gpumf import ALS, RBM, SGD, BayesianMF, Blend, ImplicitALS, NotFittedError, cross_validate, search
from gpumf.backends import DeviceError
from gpumf.models import export_factors
from gpumf.ratings import DataError, Ratings
from gpumf.solvers import schedules
from refusals import assert_as_before, refused, state, table


def some(n_users, n_items):
    """Ratings 1 to 5 of two thirds of all pairs."""
    users, items = np.nonzero(np.add.outer(np.arange(n_users), np.arange(n_items)) % 3)
    return Ratings(users, items, 1 + users * items % 5, n_users, n_items)


TRAIN, OTHER = some(12, 9), some(12, 10)
FRAME = pd.DataFrame(
    {
        "user": [f"u{u}" for u in TRAIN.users],
        "item": [f"i{i}" for i in TRAIN.items],
        "rating": TRAIN.values,
    }
)
NAN, INF = (
    Ratings(TRAIN.users, TRAIN.items, np.where(np.arange(TRAIN.nnz) == 3, wrong, TRAIN.values), 12, 9)
    for wrong in (np.nan, np.inf)
)
EMPTY = Ratings([], [], [], 12, 9)

PARAMETERS = {
    "no factors": (lambda: ALS(0), ValueError, "factors must be an integer from 1 .*not 0"),
    "half a factor": (lambda: ALS(2.5), ValueError, "factors must be an integer.*not 2.5"),
    "factors of a word": (lambda: SGD("16"), ValueError, "factors must be an integer.*not '16'"),
    "factors True": (lambda: ImplicitALS(True), ValueError, "factors must be an integer.*not True"),
    "factors None": (lambda: ALS(None), ValueError, "factors must be an integer.*not None"),
    "factors of an array": (lambda: SGD(np.array([1, 2])), ValueError, "factors must be an integer"),
    "too many factors": (lambda: SGD(301), ValueError, "factors must be an integer from 1 to 300, not 301"),
    "too many factors of a solver": (lambda: ALS(303, solver="parallel"), ValueError, "no solver for .*factors=303"),
    "too many of BayesianMF": (lambda: BayesianMF(301), ValueError, "factors must be an integer from 1 to 300"),
    "lambda below 0": (lambda: ALS(2, -0.1), ValueError, "regularization must be a number from 0.*not -0.1"),
    "lambda zero": (lambda: ALS(2, 0), ValueError, "regularization must be positive"),
    "lambda nan": (lambda: SGD(2, np.nan), ValueError, "regularization must be a number.*not nan"),
    "lambda True": (lambda: SGD(2, True), ValueError, "regularization must be a number.*not True"),
    "lambda of items": (lambda: SGD(2, item_regularization=-1), ValueError, "item_regularization must be"),
    "lambda of biases": (lambda: SGD(2, bias_regularization="1"), ValueError, "bias_regularization must be"),
    "lambda of items' biases": (
        lambda: SGD(2, item_bias_regularization=np.nan), ValueError, "item_bias_regularization must be"),
    "lambda inf": (lambda: SGD(2, np.inf), ValueError, "regularization must be a number.*not inf"),
    "lambda beyond 32 bits": (lambda: ALS(2, 1e200), ValueError, r"regularization must be a number.*not 1e\+200"),
    "lambda a word": (lambda: ALS(2, "0.1"), ValueError, "regularization must be a number.*not '0.1'"),
    "lambda an array": (lambda: ALS(2, np.ones(2)), ValueError, "regularization must be a number"),
    "rate zero": (lambda: SGD(2, learning_rate=0), ValueError, "learning_rate must be a number above 0"),
    "rate of an RBM": (lambda: RBM(2, learning_rate=-1), ValueError, "learning_rate must be a number above 0"),
    "rate a complex": (lambda: SGD(2, learning_rate=1j), ValueError, "learning_rate must be a number.*1j"),
    "alpha": (lambda: ImplicitALS(2, alpha=0), ValueError, "alpha must be a number above 0"),
    "weight of all pairs": (lambda: ImplicitALS(2, unobserved_weight=0), ValueError, "unobserved_weight must be"),
    "exponent": (lambda: ImplicitALS(2, regularization_exponent=1e300), ValueError, "exponent must be .* up to 100"),
    "start": (lambda: ALS(2, init="zeros"), ValueError, "init must be .*, not 'zeros'"),
    "spread of the start": (lambda: SGD(2, init_std=0), ValueError, "init_std must be .*, not 0"),
    "biases a word": (lambda: ALS(2, biases="yes"), ValueError, "biases must be 'damped', True or False, not 'yes'"),
    "biases of SGD": (lambda: SGD(2, biases="mean"), ValueError, "biases must be .damped., True, False"),
    "biases a number": (lambda: SGD(2, biases=1), ValueError, "biases must be .*, not 1"),
    "clip": (lambda: ALS(2, clip=1), ValueError, "clip must be True or False, not 1"),
    "weighted": (lambda: ALS(2, weighted="no"), ValueError, "weighted must be True or False, not 'no'"),
    "seed below 0": (lambda: ALS(2, seed=-1), ValueError, "seed must be an integer from 0"),
    "seed of a word": (lambda: RBM(2, seed="a"), ValueError, "seed must be an integer.*not 'a'"),
    "seed too large": (
        lambda: SGD(2, seed=2**64), ValueError, "seed must be an integer from 0 to 18446744073709551615"),
    "unknown solver": (lambda: ALS(2, solver="qr"), ValueError, "ALS has no solver 'qr'; choose from"),
    "solver of another": (lambda: SGD(2, solver="cg"), ValueError, "SGD has no solver 'cg'; choose from"),
    "solver a list": (lambda: SGD(2, solver=["fast"]), ValueError, r"SGD has no solver \['fast'\]"),
    "unknown device": (lambda: ALS(2, device="tpu"), ValueError, "device must be 'auto'.*not 'tpu'"),
    "device a number": (lambda: ALS(2, device=0), ValueError, "device must be 'auto'.*not 0"),
    "device a list": (lambda: ALS(2, device=["cpu"]), ValueError, "device must be 'auto'"),
    "nothing to transfer": (
        lambda: RBM(2, solver="sequential", weights="transfer", device="cpu"), ValueError, "it takes no 'transfer'"),
    "threads": (lambda: ALS(2, threads=0), ValueError, "threads must be an integer from 1"),
    "threads without a solver": (
        lambda: SGD(2, threads=8, device="emulator"),
        TypeError,
        "threads: for one solver alone",
    ),
    "chunk on the CPU": (lambda: ALS(2, chunk=5, device="cpu"), ValueError, "it takes no chunk"),
    "chunk below 1": (lambda: ALS(2, chunk=0, device="cpu"), ValueError, "chunk must be an integer from 1"),
    "chunk of SGD": (lambda: SGD(2, solver="parallel", chunk=0), ValueError, "chunk must be an integer from 1"),
    "clip of BayesianMF": (lambda: BayesianMF(2, clip=2), ValueError, "clip must be"),
    "solver of BayesianMF": (lambda: BayesianMF(2, solver="parallel"), ValueError, "has no solver .parallel"),
    "device of BayesianMF": (lambda: BayesianMF(2, device="gpu"), ValueError, "device must be"),
    "steps": (lambda: ALS(2, cg_steps=0), ValueError, "cg_steps must be an integer from 1"),
    "too many steps": (lambda: ALS(2, cg_steps=10**400), ValueError, "cg_steps must be an integer"),
    "tolerance": (lambda: ALS(2, cg_tolerance=1), ValueError, "cg_tolerance must be a number from 0 and below 1"),
    "option without a solver": (lambda: SGD(2, row_rates=True), TypeError, "row_rates: for one solver alone"),
    "unknown option": (
        lambda: SGD(2, solver="parallel", device="cpu", blocks=3), TypeError, "'parallel' has no options .'blocks'"),
    "schedule a word": (lambda: SGD(2, schedule="Power"), ValueError, "schedule must be one of"),
    "schedule unknown": (lambda: SGD(2, schedule={"name": "Step"}), ValueError, "schedule must be one of"),
    "schedule, other words": (
        lambda: SGD(2, schedule={"name": "Power", "gamma": 1}), ValueError, "schedule Power has no gamma"),
    "schedule, name a list": (lambda: SGD(2, schedule={"name": []}), ValueError, "schedule must be one of"),
    "schedule's range": (lambda: schedules.Power(beta=-1), ValueError, "beta must be a number from 0"),
    "hidden": (lambda: RBM(0), ValueError, "hidden must be an integer from 1 to 512"),
    "samples": (lambda: BayesianMF(2, samples=0), ValueError, "samples must be an integer from 1"),
    "too many hidden": (lambda: RBM(513), ValueError, "hidden must be an integer from 1 to 512"),
    "batch": (lambda: RBM(2, batch=0), ValueError, "batch must be an integer from 1"),
    "momentum": (lambda: RBM(2, momentum=1), ValueError, "momentum must be a number from 0 and below 1"),
    "decay": (lambda: RBM(2, weight_decay=-1), ValueError, "weight_decay must be a number from 0"),
    "decay of all": (lambda: RBM(2, learning_rate=1, weight_decay=1), ValueError, "must be below 1, not 1 . 1"),
    "average": (lambda: RBM(2, average="user"), ValueError, "average must be 'batch' or 'item', not 'user'"),
    "initial biases": (lambda: RBM(2, initial_biases=0), ValueError, "initial_biases must be 'shares' or 'normal'"),
    "weights": (lambda: RBM(2, weights="emulator"), ValueError, "weights must be 'device' or 'transfer'"),
    "no batches to transfer": (
        lambda: RBM(2, solver="sequential", batches="transfer", device="cpu"), ValueError, "it takes no .transfer"),
    "batches": (lambda: RBM(2, batches="emulator"), ValueError, "batches must be"),
    "too many levels": (lambda: RBM(2, levels=33), ValueError, "levels must be an integer from 2 to 32"),
    "one level": (lambda: RBM(2, levels=1), ValueError, "levels must be an integer from 2 to 32"),
    "no steps": (lambda: RBM(2, gibbs_steps=0), ValueError, "gibbs_steps must be a positive integer or .*not 0"),
    "steps of nothing": (lambda: RBM(2, gibbs_steps=()), ValueError, "gibbs_steps must be"),
    "steps, late": (lambda: RBM(2, gibbs_steps=((1, 1),)), ValueError, "gibbs_steps must be"),
    "steps, none later": (lambda: RBM(2, gibbs_steps=((0, 1), (5, 0))), ValueError, "gibbs_steps must be"),
    "steps, words": (lambda: RBM(2, gibbs_steps=(("a", 1),)), ValueError, "gibbs_steps must be"),
    "steps, triples": (lambda: RBM(2, gibbs_steps=((0, 1, 2),)), ValueError, "gibbs_steps must be"),
    "steps, fractions": (lambda: RBM(2, gibbs_steps=((0, 1.5),)), ValueError, "gibbs_steps must be"),
    "steps, many": (lambda: RBM(2, gibbs_steps=2**31), ValueError, "all below 2147483648, not 2147483648"),
    "steps, True": (lambda: RBM(2, gibbs_steps=True), ValueError, "gibbs_steps must be"),
    "blend of nothing": (lambda: Blend(), ValueError, "a blend needs at least one model"),
    "blend of a word": (lambda: Blend("ALS"), TypeError, "a blend is of models, .* not of str"),
    "weights too many": (lambda: Blend(ALS(2), weights=[0.5, 0.5]), ValueError, "weights must be 1 numbers"),
    "weights below 0": (lambda: Blend(ALS(2), ALS(2), weights=[2, -1]), ValueError, "weights must be 2 numbers"),
    "weights nan": (lambda: Blend(ALS(2), weights=[np.nan]), ValueError, "weights must be 1 numbers from 0 of sum 1"),
    "weights words": (lambda: Blend(ALS(2), weights=["a"]), ValueError, "weights must be 1 numbers from 0 of sum 1"),
    "set, out of range": (lambda: ALS(2).set_params(factors=0), ValueError, "factors must be an integer"),
}  # fmt: skip


@table(PARAMETERS)
def test_parameters_out_of_range(case):
    refused(*case)


KINDS = {
    "als": lambda: ALS(2, device="cpu"),
    "sgd": lambda: SGD(2, device="cpu"),
    "implicit": lambda: ImplicitALS(2, device="cpu"),
    "rbm": lambda: RBM(4, biases=False, device="cpu"),
}


@pytest.fixture(scope="module")
def models():
    """A fitted model of each kind, of named users and items, and one of positions alone."""
    made = {name: make().fit(FRAME, 1) for name, make in KINDS.items()}
    made["positions"] = ALS(2, device="cpu").fit(TRAIN, 1)
    return made | {"blend": Blend(made["als"], made["sgd"], weights=[0.5, 0.5])}


FIT = {
    "nothing": (None, {}, TypeError, "train must be Ratings, .* not NoneType"),
    "a list": ([1, 2], {}, TypeError, "train must be Ratings, .* not list"),
    "triples": ([(1, 2, 3), (1, 3, 4), (2, 3, 5)], {}, TypeError, "not a list of tuples"),
    "an array": (np.ones((3, 3)), {}, TypeError, r"train must be Ratings .*not an array \(3, 3\)"),
    "a file's name": ("ratings.csv", {}, TypeError, "train must be Ratings, .* not str"),
    "columns of words": (([1, 2], [1, 2], ["a", "b"]), {}, ValueError, "rating a is not a finite number"),
    "a frame of other columns": (FRAME.rename(columns={"item": "i"}), {}, ValueError, "no column 'item'"),
    "an empty frame": (FRAME.head(0), {}, ValueError, "train holds no ratings"),
    "an empty matrix": (sparse.coo_array((3, 3)), {}, ValueError, "train holds no ratings"),
    "a matrix of words": (
        sparse.coo_array(([1.0, np.inf], ([0, 1], [0, 1]))), {}, ValueError, "rating inf is not a finite"),
    "empty": (EMPTY, {}, ValueError, "the training set is empty"),
    "nan": (NAN, {}, ValueError, "train: rating 3 is nan; remove it"),
    "inf": (INF, {}, ValueError, "train: rating 3 is inf; remove it"),
    "epochs below 0": (TRAIN, {"epochs": -1}, ValueError, "epochs must be an integer from 0"),
    "half an epoch": (TRAIN, {"epochs": 0.5}, ValueError, "epochs must be an integer.*not 0.5"),
    "epochs of a word": (TRAIN, {"epochs": "all"}, ValueError, "epochs must be an integer.*not 'all'"),
    "a validation set for epochs": (TRAIN, {"epochs": TRAIN}, ValueError, "epochs must be an integer"),
    "other validation": (TRAIN, {"validation": OTHER}, ValueError, "validation set has other users or items"),
    "validation empty": (TRAIN, {"validation": EMPTY}, ValueError, "the validation set is empty"),
    "validation nan": (TRAIN, {"validation": NAN}, ValueError, "validation: rating 3 is nan"),
    "validation a number": (TRAIN, {"validation": 0.2}, TypeError, "validation must be Ratings, .*not float"),
    "validation, unknown": (
        FRAME, {"validation": FRAME.assign(item="new").head(1)}, ValueError, "validation: 1 items, such as 'new'"),
    "keep": (TRAIN, {"keep": "first"}, ValueError, "keep must be 'last' or 'best', not 'first'"),
    "keep without validation": (TRAIN, {"keep": "best"}, ValueError, "keep='best' needs a validation set"),
    "patience alone": (TRAIN, {"patience": 2}, ValueError, "patience goes with keep='best'"),
    "patience": (
        TRAIN, {"patience": 0, "keep": "best", "validation": TRAIN},
        ValueError, "patience must be an integer from 1"),
    "stop": (TRAIN, {"stop": 3}, TypeError, "stop and callbacks must be functions.*not 3"),
    "callbacks": (TRAIN, {"callbacks": [print, "x"]}, TypeError, "stop and callbacks must be functions.*not 'x'"),
    "one callback": (TRAIN, {"callbacks": print}, TypeError, "callbacks must be a list of functions, not"),
    "callbacks None": (TRAIN, {"callbacks": None}, TypeError, "callbacks must be a list of functions, not None"),
    "warm start": (TRAIN, {"warm_start": "yes"}, ValueError, "warm_start must be True or False, not 'yes'"),
    "progress": (TRAIN, {"progress": "bar"}, ValueError, "progress must be True or False, not 'bar'"),
    "ids": (TRAIN, {"ids": 1}, ValueError, "ids must be True or False, not 1"),
    "warm start of others": (OTHER, {"warm_start": True}, ValueError, "warm_start needs ratings of the same users"),
}  # fmt: skip


@table(FIT)
@pytest.mark.parametrize("kind", ["als", "rbm"])
def test_sets_that_no_model_is_fitted_to(case, kind, models):
    train, options, error, words = case
    for model in (models[kind], KINDS[kind]()):
        if options.get("warm_start") is True and model.history is None:
            error, words = NotFittedError, "has not been fitted; call fit"
        before = state(model)
        refused(lambda model=model: model.fit(train, **{"epochs": 1} | options), error, words)
        assert_as_before(model, before)


NOT_FITTED = {
    "predict": lambda model: model.predict(0, 0),
    "recommend": lambda model: model.recommend(0),
    "rank": lambda model: model.evaluate_ranking(TRAIN),
    "score": lambda model: model.score(TRAIN),
    "similar_items": lambda model: model.similar_items(0),
    "similar_users": lambda model: model.similar_users(0),
    "fold_in": lambda model: model.fold_in({0: 3}),
    "list_diversity": lambda model: model.list_diversity(),
    "evaluate_sampled": lambda model: model.evaluate_sampled(TRAIN),
    "save": lambda model: model.save("none.npz"),
    "warm_start": lambda model: model.fit(TRAIN, warm_start=True),
    "partial_fit": lambda model: model.partial_fit(TRAIN),
}


@pytest.mark.parametrize("method", NOT_FITTED)
def test_before_fit_there_is_nothing_to_use(method, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for make in KINDS.values():
        model = make()
        before = state(model)
        refused(
            lambda model=model: NOT_FITTED[method](model), NotFittedError, "has not been fitted; call fit|no weights"
        )
        assert_as_before(model, before)
    if method in ("predict", "recommend", "rank", "score", "fold_in", "save"):
        refused(lambda: NOT_FITTED[method](Blend(ALS(2))), NotFittedError, "this Blend has no weights; call fit")
        blend = Blend(ALS(2), weights=[1])
        refused(lambda: NOT_FITTED[method](blend), NotFittedError, "this ALS has not been fitted; call fit")
    assert not list(tmp_path.iterdir())


# Of which model, what is called with it.
USE = {
    "unknown user": ("als", lambda m: m.predict("x", "i1"), KeyError, "no user of the training set has the id 'x'"),
    "unknown item": ("als", lambda m: m.predict("u1", "x"), KeyError, "no item of the training set has the id 'x'"),
    "a position for an id": ("als", lambda m: m.recommend(0), KeyError, "id 0; ids are such as .u0.; with ids=False"),
    "an id for a position": ("positions", lambda m: m.recommend("u1"), TypeError, "pass ids=True"),
    "position too large": ("positions", lambda m: m.predict(12, 0), IndexError, "user positions must lie in 0..11"),
    "position below 0": ("positions", lambda m: m.predict(0, -1), IndexError, "item positions must lie in 0..8"),
    "one of two positions below 0": (
        "positions", lambda m: m.predict([1, 0], [-1, 3]), IndexError, "item positions must lie in 0..8"),
    "half a position": ("positions", lambda m: m.predict(0.5, 0), TypeError, "user positions must be integers"),
    "a duration as a position": (
        "positions", lambda m: m.predict(np.zeros(2, "m8[s]"), 0), TypeError, "must be integers, not timedelta64"),
    "a duration as k": ("als", lambda m: m.recommend("u1", k=np.timedelta64(2, "s")), ValueError, "k must be an int"),
    "a bool position": ("positions", lambda m: m.predict(True, 0), TypeError, "user positions must be integers"),
    "None": ("positions", lambda m: m.predict(None, 0), TypeError, "user positions must be integers"),
    "nan id": ("als", lambda m: m.predict(np.nan, "i1"), KeyError, "has the id nan"),
    "None id": ("als", lambda m: m.predict(None, "i1"), KeyError, "has the id None"),
    "ragged positions": (
        "positions", lambda m: m.predict([[0], [1, 2]], 0), ValueError, "users must be one value each"),
    "ragged ids": ("als", lambda m: m.predict([["u1"], ["u1", "u2"]], "i1"), ValueError, "users must be one value"),
    "other lengths": (
        "positions", lambda m: m.predict([0, 1], [0, 1, 2]), ValueError, "users .*2.* items .*3.* broadcast"),
    "lengths of a blend": ("blend", lambda m: m.predict(["u1"] * 2, ["i1"] * 3), ValueError, "broadcast"),
    "unknown of a blend": ("blend", lambda m: m.predict("x", "i1"), KeyError, "no user of the training set"),
    "ids not a flag": ("als", lambda m: m.predict("u1", "i1", ids="yes"), ValueError, "ids must be True or False"),
    "no users": ("als", lambda m: m.recommend(), TypeError, "recommend.. needs users, or the ratings"),
    "users and ratings": ("als", lambda m: m.recommend("u1", ratings={"i1": 3}), TypeError, "and not both"),
    "no items": ("als", lambda m: m.recommend("u1", k=0), ValueError, "k must be an integer from 1"),
    "k a word": ("als", lambda m: m.recommend("u1", k="5"), ValueError, "k must be an integer.*not '5'"),
    "k too large": ("als", lambda m: m.recommend("u1", k=2**40), ValueError, "k must be an integer"),
    "users of two dimensions": (
        "positions", lambda m: m.recommend([[0, 1], [2, 3]]), ValueError, r"users must be one or .*not \(2, 2\)"),
    "seen of others": ("als", lambda m: m.recommend("u1", seen=OTHER), ValueError, "other users or items"),
    "seen a number": ("als", lambda m: m.recommend("u1", seen=5), TypeError, "seen must be Ratings.*not int"),
    "candidates unknown": ("als", lambda m: m.recommend("u1", candidates=["x"]), KeyError, "no item .*'x'"),
    "candidates outside": (
        "positions", lambda m: m.recommend(0, candidates=[99]), IndexError, "item positions must lie"),
    "candidates a mask": (
        "positions", lambda m: m.recommend(0, candidates=np.ones(9, bool)),
        TypeError, "item positions must be integers"),
    "candidates a dict": (
        "als", lambda m: m.recommend("u1", candidates={1: 2}), TypeError, "ids must be integers or"),
    "filter unknown": ("als", lambda m: m.recommend("u1", filter_items=["x"]), KeyError, "no item .*'x'"),
    "rank of others": ("positions", lambda m: m.evaluate_ranking(OTHER), ValueError, "other users or items"),
    "rank of none": (
        "positions", lambda m: m.evaluate_ranking(EMPTY), ValueError, "none of the users has a test item",
    ),
    "rank of nobody": (
        "positions", lambda m: m.evaluate_ranking(TRAIN, users=[]), ValueError, "none of the users|users must",
    ),
    "rank a number": ("als", lambda m: m.evaluate_ranking(3), TypeError, "test must be Ratings.*not int"),
    "rank, k": ("als", lambda m: m.evaluate_ranking(TRAIN, k=0), ValueError, "k must be an integer from 1"),
    "rank of strangers": (
        "als", lambda m: m.evaluate_ranking(FRAME.assign(user="new").head(1)), ValueError, "1 users, such as 'new'"),
    "score of none": ("positions", lambda m: m.score(EMPTY), ValueError, "no ratings to score on"),
    "score of others": ("positions", lambda m: m.score(OTHER), ValueError, "other users or items"),
    "score of a blend": ("blend", lambda m: m.score(OTHER), ValueError, "other users or items"),
    "similar to none": ("als", lambda m: m.similar_items("x"), KeyError, "no item of the training set"),
    "similar outside": ("positions", lambda m: m.similar_users(12), IndexError, "user positions must lie in 0..11"),
    "similar, k": ("rbm", lambda m: m.similar_items("i1", k=-1), ValueError, "k must be an integer from 1"),
    "fold in an empty frame": ("als", lambda m: m.fold_in(FRAME.head(0)), ValueError, "ratings holds no ratings"),
    "fold in a list": ("als", lambda m: m.fold_in([1, 2, 3, 4]), TypeError, "ratings must be Ratings.*not list"),
    "fold in unknown": ("als", lambda m: m.fold_in({"x": 3}), KeyError, "no item of the training set has the id 'x'"),
    "fold in words": ("als", lambda m: m.fold_in({"i1": "good"}), ValueError, "numbers"),
    "fold in nan": ("als", lambda m: m.fold_in({"i1": np.nan}), ValueError, "must be finite numbers"),
    "fold in beyond 32 bits": ("als", lambda m: m.fold_in({"i1": 1e39}), ValueError, "must be finite numbers"),
    "recommend beyond 32 bits": (
        "als", lambda m: m.recommend(ratings={"i1": 1e39}), ValueError, "must be finite numbers"),
    "fold in pairs": ("als", lambda m: m.fold_in([("i1", 4.0), ("i2", 2.0)]), TypeError, "not a list of tuples"),
    "recommend to pairs": (
        "als", lambda m: m.recommend(ratings=[("i1", 4.0), ("i2", 2.0), ("i3", 1.0)]), TypeError, "list of tuples"),
    "score of triples": (
        "als", lambda m: m.score([(1, 2, 3), (1, 3, 4), (2, 3, 5)]), TypeError, "not a list of tuples"),
    "fold in twice": ("als", lambda m: m.fold_in((["i1", "i1"], [1, 2])), ValueError, "rates an item twice"),
    "fold in lengths": ("als", lambda m: m.fold_in((["i1"], [1, 2])), ValueError, "1 items and 2 ratings"),
    "fold in others": (
        "positions", lambda m: m.fold_in(OTHER), ValueError, "ratings are of 10 items, the model of 9"),
    "fold in outside": ("positions", lambda m: m.fold_in({9: 3}), IndexError, "item positions must lie in 0..8"),
    "fold into a machine": ("rbm", lambda m: m.fold_in({"i1": 99}), ValueError, "scale|level"),
    "explain unknown": ("implicit", lambda m: m.explain("u1", "x"), KeyError, "no item of the training set"),
    "explain nobody": ("implicit", lambda m: m.explain(None, "i1"), KeyError, "no user|has the id None"),
    "explain several": ("implicit", lambda m: m.explain(["u1", "u2"], "i1"), ValueError, "one user and one item"),
    "explain, items": ("implicit", lambda m: m.explain("u1", ["i1", "i2"]), ValueError, "one user and one item"),
    "explain, k": ("implicit", lambda m: m.explain("u1", "i1", k=0), ValueError, "k must be an integer from 1"),
    "explain, both": ("implicit", lambda m: m.explain("u1", "i1", ratings={"i2": 5.0}), ValueError, "not both"),
    "explain several new": (
        "implicit", lambda m: m.explain(None, "i1", ratings=FRAME.head(20)), ValueError, "of one user; ratings has"),
    "explain, new": (
        "implicit", lambda m: m.explain(None, "i1", ratings=([1],)), TypeError, "ratings must be Ratings.*not tuple"),
    "more of others": ("als", lambda m: m.partial_fit(OTHER), ValueError, "other users or items"),
    "more of nan": ("positions", lambda m: m.partial_fit(NAN), ValueError, "rating 3 is nan"),
    "more of nothing": ("positions", lambda m: m.partial_fit(EMPTY), ValueError, "the training set is empty"),
    "more of a number": ("als", lambda m: m.partial_fit(7), TypeError, "new must be Ratings.*not int"),
    "more of strangers": (
        "sgd", lambda m: m.partial_fit(FRAME.assign(user="new").head(1)), ValueError, "1 users, such as 'new'"),
    "more, epochs": (
        "sgd", lambda m: m.partial_fit(TRAIN, epochs=-1), ValueError, "epochs must be an integer from 0"),
    "more, progress": (
        "sgd", lambda m: m.partial_fit(TRAIN, progress=2), ValueError, "progress must be True or False"),
    "more of a machine": ("rbm", lambda m: m.partial_fit(OTHER), ValueError, "other users or items"),
    "more, off the scale": (
        "rbm", lambda m: m.partial_fit(FRAME.head(1).assign(rating=99.0)),
        ValueError, "whole or half steps of 1.0 to 99.0"),
    "list_diversity, k": ("als", lambda m: m.list_diversity(k=0), ValueError, "k must be an integer from 1"),
    "list_diversity of nobody": (
        "als", lambda m: m.list_diversity(users=[]), ValueError, "none of the users gets an item",
    ),
    "sampled, negatives": ("als", lambda m: m.evaluate_sampled(FRAME, negatives=0), ValueError, "negatives must be"),
    "sampled, memory": (
        "als", lambda m: m.evaluate_sampled(FRAME, negatives=2**31 - 1), DeviceError, "negatives of .* takes .* GiB"),
    "sampled, seed": ("als", lambda m: m.evaluate_sampled(FRAME, seed="a"), ValueError, "seed must be an integer"),
    "sampled of none": ("positions", lambda m: m.evaluate_sampled(EMPTY), ValueError, "no test ratings"),
    "export a machine": ("rbm", lambda m: export_factors(m), TypeError, "RBM does not predict by inner products"),
    "export a word": ("als", lambda m: export_factors("als"), TypeError, "str does not predict by inner products"),
    "export, cosine": ("als", lambda m: export_factors(m, cosine="yes"), ValueError, "cosine must be True or False"),
    "SGD from a machine": ("rbm", lambda m: SGD.from_model(m), TypeError, "ALS, ImplicitALS or SGD, not RBM"),
    "SGD from nothing": ("als", lambda m: SGD.from_model(None), TypeError, "ALS, ImplicitALS or SGD, not NoneType"),
    "blend, metric": ("blend", lambda m: m.fit(FRAME, metric="mse"), ValueError, "metric must be 'rmse' or 'mae'"),
    "blend on none": ("blend", lambda m: m.fit(EMPTY), ValueError, "no ratings|weights need"),
    "blend on others": ("blend", lambda m: m.fit(OTHER), ValueError, "other users or items"),
    "blend on a number": ("blend", lambda m: m.fit(3), TypeError, "held_out must be Ratings.*not int"),
    "cross-validate a word": (
        "als", lambda m: cross_validate("als", TRAIN), TypeError, "model must be one of gpumf, .*not str"),
    "cross-validate nothing": ("als", lambda m: cross_validate(m, []), ValueError, "no splits"),
    "cross-validate a list": (
        "als", lambda m: cross_validate(m, [TRAIN, TRAIN]), TypeError, "list of pairs .*not list of Ratings"),
    "cross-validate a number": ("als", lambda m: cross_validate(m, 5), TypeError, "must be Ratings.*not int"),
    "cross-validate a frame with columns of pairs": (
        "als", lambda m: cross_validate(m, pd.concat({"a": FRAME}, axis=1)), DataError, "no column 'user' among"),
    "cross-validate a small matrix": (
        "als", lambda m: cross_validate(m, sparse.coo_array(np.eye(3))), ValueError, "between 2 and the 3 ratings"),
    "cross-validate, epochs": (
        "als", lambda m: cross_validate(m, TRAIN, -1), ValueError, "epochs must be an integer"),
    "cross-validate, k": (
        "als", lambda m: cross_validate(m, TRAIN, 1, k=0), ValueError, "k must be an integer from 1"),
    "search nothing": ("als", lambda m: search(m, {}, TRAIN), ValueError, "parameters must name values to try"),
    "search no values": (
        "als", lambda m: search(m, {"factors": []}, TRAIN), ValueError, "parameters must name values"),
    "search one value": (
        "als", lambda m: search(m, {"factors": 8}, TRAIN), ValueError, "parameters must name values"),
    "search one value and several": (
        "als", lambda m: search(m, {"factors": [2], "seed": 8}, TRAIN), ValueError, "parameters must name values"),
    "search a list": ("als", lambda m: search(m, ["factors"], TRAIN), ValueError, "parameters must name values"),
    "search out of range": ("als", lambda m: search(m, {"factors": [2, 0]}, TRAIN), ValueError, "factors must be an"),
    "search what there is not": (
        "als", lambda m: search(m, {"size": [1]}, TRAIN), TypeError, "ALS has no parameter .size"),
    "search, metric": (
        "als", lambda m: search(m, {"factors": [2]}, TRAIN, 1, metric="mse"), ValueError, "metric must be 'rmse'"),
    "search, budget": (
        "als", lambda m: search(m, {"factors": [2]}, TRAIN, strategy="random", budget=0), ValueError, "budget must"),
    "search, no budget": (
        "als", lambda m: search(m, {"factors": [2]}, TRAIN, strategy="random"), ValueError, "need a budget"),
    "search a grid, budget": (
        "als", lambda m: search(m, {"factors": [2]}, TRAIN, budget=1), ValueError, "without a budget"),
    "search a grid of draws": (
        "als", lambda m: search(m, {"regularization": uniform()}, TRAIN), ValueError, "'halving' draw settings"),
    "search, seed": ("als", lambda m: search(m, {"factors": [2]}, TRAIN, seed=-1), ValueError, "seed must be"),
    "search, epochs": ("als", lambda m: search(m, {"factors": [2]}, TRAIN, 0), ValueError, "epochs must be"),
    "search, folds": ("als", lambda m: search(m, {"factors": [2]}, TRAIN, folds=1), ValueError, "k must lie between"),
    "search, pairs": (
        "als", lambda m: search(m, {"factors": [2]}, TRAIN, folds=[TRAIN]), TypeError, "folds must be .*pairs"),
    "search, no pairs": ("als", lambda m: search(m, {"factors": [2]}, TRAIN, folds=[]), ValueError, "no splits"),
    "search, strategy": (
        "als", lambda m: search(m, {"factors": [2]}, TRAIN, strategy="tree"), ValueError, "strategy must be 'grid'"),
    "search, resource": (
        "als", lambda m: search(m, {"factors": [2]}, TRAIN, resource="users"), ValueError, "resource must be"),
    "search, factor": ("als", lambda m: search(m, {"factors": [2]}, TRAIN, factor=1), ValueError, "factor must be"),
    "search, first rung": (
        "als", lambda m: search(m, {"factors": [2]}, TRAIN, 3, min_resources=4), ValueError, "at most 3, the epochs"),
    "search, jobs": ("als", lambda m: search(m, {"factors": [2]}, TRAIN, n_jobs=0), ValueError, "n_jobs must be"),
    "search, keep": ("als", lambda m: search(m, {"factors": [2]}, TRAIN, keep="first"), ValueError, "keep must be"),
    "search, memory": (
        "als", lambda m: search(m, {"factors": [2]}, TRAIN, memory=9), ValueError, "at least .* bytes.*, not 9"),
    "search a word": ("als", lambda m: search("als", {"factors": [2]}, TRAIN), TypeError, "not str"),
}  # fmt: skip


@table(USE)
@pytest.mark.filterwarnings("error")
def test_questions_that_have_no_answer(case, models):
    name, ask, error, words = case
    model = models[name]
    before = state(model)
    refused(lambda: ask(model), error, words)
    assert_as_before(model, before)


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_question_after_a_fit_leaves_the_model_as_it_was(kind):
    model = KINDS[kind]().fit(FRAME, 1)  # whichever question of those above comes first in a process
    before = state(model)
    refused(lambda: model.predict("x", "i1"), KeyError, "no user of the training set has the id 'x'")
    assert_as_before(model, before)


def test_sgd_of_the_most_factors_and_biases_folds_in():
    model = SGD(300, device="cpu").fit(TRAIN, 0)
    assert model.fold_in({0: 3.0}).user_factors.shape == (1, 302)


@pytest.mark.parametrize("kind", [ALS, ImplicitALS, RBM, SGD])
def test_a_parameter_that_there_is_not_is_named_with_the_model(kind):
    for make in (lambda: kind(n_factors=4), lambda: kind().set_params(n_factors=4)):
        with pytest.raises(TypeError, match=f"{kind.__name__} has no parameter 'n_factors'"):
            make()
