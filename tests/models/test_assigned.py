"""Attributes that users assign are validated when they are used: one clear error, never another's memory."""

import json
import pickle
import subprocess
import sys
from copy import deepcopy

import numpy as np
import pandas as pd
import pytest

from gpumf import ALS, RBM, SGD, BayesianMF, Blend, ImplicitALS, NotFittedError, backends, search
from gpumf.backends.cpu.shapes import takes
from gpumf.ratings import Ratings, presort
from gpumf.ratings.checks import DataError
from support import ROOT, outside_make, ragged_ratings

TRAIN = ragged_ratings(n_users=23, n_items=17, longest=12, seed=4)
KINDS = pytest.mark.parametrize("kind", [ALS, SGD, ImplicitALS, RBM])
HISTORY = pd.DataFrame({"epoch": [0], "seconds": [0.0], "rmse": [1.0], "mae": [1.0]})


def made(kind, device, **parameters):
    """An unfitted model of few factors, or hidden units."""
    return kind(4, device=device, **parameters)


def uses(model):
    """Calls that go on from what a model has learned."""
    yield lambda: model.partial_fit(TRAIN)
    yield lambda: model.fit(TRAIN, 1, warm_start=True)
    yield lambda: model.fold_in({1: 4.0})
    yield lambda: model.recommend(ratings={1: 4.0})
    yield lambda: model.recommend(3)
    yield lambda: model.recommend([3, 4], 200)
    yield lambda: model.evaluate_ranking(TRAIN, seen=())
    yield lambda: model.score(TRAIN)
    yield lambda: model.predict(0, 0)
    yield lambda: model.similar_items(0)
    yield lambda: model.similar_users(0)
    yield lambda: model.list_diversity()
    yield lambda: model.save("never.npz")


@KINDS
def test_other_factors_than_were_learned_are_told_and_a_new_fit_takes_them(kind, device, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model, size = made(kind, device).fit(TRAIN, 1), "hidden" if kind is RBM else "factors"
    before = [array.copy() for array in model._learned]
    setattr(model, size, 6)
    for use in uses(model):
        with pytest.raises(
            ValueError, match=f"{model._arrays[0]} must be an array, float32 .23, .*assigned since fit"
        ):
            use()
    for array, copy in zip(model._learned, before, strict=True):
        assert np.array_equal(array, copy)
    assert not list(tmp_path.iterdir())
    assert model.get_params()[size] == 6 and f"{size}=6" in repr(model)
    assert model.fit(TRAIN, 1)._learned[0].shape[1] == (6 if kind in (RBM, ImplicitALS) else 8)
    fresh = kind(6, device=device).fit(TRAIN, 1)
    if kind is not SGD:  # whose solvers race
        assert all(np.array_equal(a, b) for a, b in zip(model._learned, fresh._learned, strict=True))


@KINDS
def test_arrays_that_do_not_go_together_are_told(kind, device, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for change, words in (
        (lambda array: array[:10], r"not float32 \(10, "),
        (lambda array: array.astype(np.float64), "not float64"),
        (np.asfortranarray, "not contiguous in C order"),
        (lambda array: np.repeat(array, 2, axis=0)[::2], "not contiguous in C order"),
        (lambda array: array.tolist(), "not list"),
        (lambda array: None, "not NoneType"),
        (lambda array: np.where(np.arange(len(array)) == 3, np.float32(np.nan), array.T).T.copy(), "not finite"),
    ):
        model = made(kind, device).fit(TRAIN, 1)
        name = model._arrays[1]
        setattr(model, name, change(getattr(model, name)))
        for use in uses(model):
            with pytest.raises(ValueError, match=f"{name} .*{words}"):
                use()


def test_a_shape_that_is_assigned_in_place_is_seen():
    model = ALS(4, device="cpu").fit(TRAIN, 1)
    model.recommend(3)
    model.item_factors.shape = 6, 17
    with pytest.raises(
        ValueError, match=r"item_factors must be an array, float32 \(17, 6\), .*not float32 \(6, 17\)"
    ):
        model.recommend(3)
    model.item_factors.shape = 17, 6
    assert len(model.recommend(3)[0])


def test_arrays_of_the_same_shape_may_be_assigned_and_read_only_ones():
    model = ALS(4, device="cpu").fit(TRAIN, 2)
    predicted = model.predict(3, [1, 2, 5])
    for side in ("user", "item"):
        array = getattr(model, f"{side}_factors").copy()
        array.flags.writeable = False
        setattr(model, f"{side}_factors", array)
    assert np.array_equal(model.predict(3, [1, 2, 5]), predicted)
    model.item_factors = model.item_factors * np.float32(2)
    assert not np.array_equal(model.predict(3, [1, 2, 5]), predicted)
    assert model.partial_fit(TRAIN).item_factors.shape == (17, 6)


PARAMETERS = [
    (ALS, "factors", 0, "factors must be an integer from 1 to 2147483645, not 0"),
    (ALS, "solver", "qr", "ALS has no solver 'qr'"),
    (ALS, "device", "tpu", "device must be 'auto'"),
    (ALS, "biases", None, "biases must be 'damped', True or False, not None"),
    (SGD, "learning_rate", np.nan, "learning_rate must be a number above 0"),
    (SGD, "schedule", "Power", "schedule must be one of"),
    (SGD, "threads", 0, "threads must be an integer from 1"),
    (ImplicitALS, "alpha", -1, "alpha must be a number above 0"),
    (RBM, "weight_decay", 500.0, "must be below 1, not .* . 500.0"),
    (RBM, "gibbs_steps", ((0, 10**400),), "all below 2147483648, not"),
]


@pytest.mark.parametrize(("kind", "name", "value", "words"), PARAMETERS)
def test_parameters_are_validated_when_they_are_used(kind, name, value, words, device, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fitted, fresh = made(kind, device).fit(TRAIN, 1), made(kind, device)
    for model in (fitted, fresh):
        setattr(model, name, value)
    for use in (*uses(fitted), lambda: fitted.fit(TRAIN), lambda: fresh.fit(TRAIN), lambda: fresh.make_solver(TRAIN)):
        with pytest.raises((ValueError, TypeError), match=words):
            use()
    assert fresh.history is None


@pytest.mark.parametrize("name", ["biases", "clip", "init", "weighted"])
def test_what_no_parameter_of_implicit_als_changes_is_refused_at_once(name):
    model = made(ImplicitALS, "cpu").fit(TRAIN, 1)
    before, predicted = getattr(model, name), model.predict(3, [1, 2])
    for value in (None, True, "damped", object(), np.array([1, 2])):
        with pytest.raises(AttributeError, match=f"{name} of ImplicitALS is always {before!r}"):
            setattr(model, name, value)
    setattr(model, name, before)
    assert getattr(deepcopy(model), name) is before and np.array_equal(model.predict(3, [1, 2]), predicted)


def test_what_follows_from_parameters_is_renewed():
    model = SGD(4, 0.1, device="cpu", solver="sequential").fit(TRAIN, 1)
    model.regularization, model.biases = 0.4, False
    assert model.fit(TRAIN, 1).item_regularization == 0.4 and model.bias_kind == 0
    model = ALS(4, device="cpu")
    model.solver = "cg"
    assert model.fit(TRAIN, 1).solver == "cg" == model.get_params()["solver"]
    model = ALS(4, device="cpu").fit(TRAIN, 1)
    chosen = model.solver
    model.regularization = np.float32(0.5)
    model.recommend(1)
    assert model.solver == chosen and type(model.regularization) is float and ALS(4, seed=None).seed > 0
    assert model.set_params(seed=3).regularization == 0.5


def test_what_fit_leaves_beside_the_arrays_is_validated(tmp_path):
    for name, value, words in (
        ("mean", "x", "mean must be a number"),
        ("mean", np.nan, "mean must be a number"),
        ("scale", (5, 1), "the scale must be"),
        ("history", [1], "history must be a DataFrame"),
        *(("history", HISTORY.drop(columns=column), "history must be a DataFrame") for column in HISTORY),
        ("epoch", -1, "epoch must be an integer"),
        ("times", None, "times must be Times"),
        ("ids", "yes", "ids must be True or False"),
        ("user_ids", ["a"], r"user_ids must be None, or an array \(23,\)"),
        ("item_ids", np.arange(16), r"item_ids must be None, or an array \(17,\)"),
        ("item_ids", np.zeros(17, int), "some come twice"),
    ):
        model = ALS(4, device="cpu").fit(TRAIN, 1, ids=True)
        setattr(model, name, value)
        with pytest.raises(ValueError, match=words):
            model.predict(0, 0)
    model = RBM(4, device="cpu").fit(TRAIN, 1)
    model.scale = None
    with pytest.raises(ValueError, match="scale of an RBM"):
        model.recommend(1)
    model = ALS(4, device="cpu").fit(Ratings(TRAIN.users, TRAIN.items, TRAIN.values, 23, 17, np.array([1, 5])), 1)
    model.save(tmp_path / "model.npz")
    assert model.scale == (1, 5) == ALS.load(tmp_path / "model.npz", device="cpu").scale
    for kind in (ALS, SGD, RBM, BayesianMF):
        model = kind(4, device="cpu").fit(TRAIN, 1)
        model.history, model.mean = None, 1j  # not fitted, but its biases are counted from that mean
        with pytest.raises(ValueError, match="mean must be a number"):
            model.make_solver(TRAIN)
    model = ALS(4, device="cpu").fit(TRAIN, 1)
    model.history, model.mean = None, 1j
    with pytest.raises(ValueError, match="mean must be a number"):
        model.make_solver(TRAIN, *model.initial_factors(TRAIN))
    model = ALS(4, device="cpu")
    model.history = "none"
    with pytest.raises(NotFittedError):
        model.predict(0, 0)


def test_a_blend_judges_its_weights_when_they_are_used():
    models = [ALS(4, device="cpu").fit(TRAIN, 1), ImplicitALS(4, device="cpu").fit(TRAIN, 1)]
    for weights in ([0.5], [np.nan, 1], [2, -1], "half", [[0.5, 0.5]]):
        blend = Blend(*models, weights=[0.5, 0.5])
        blend.weights = weights
        for method, given in (("predict", (0, 0)), ("recommend", (0,)), ("score", (TRAIN,)), ("fit", (TRAIN,))):
            with pytest.raises(ValueError, match="weights must be 2 numbers from 0 of sum 1"):
                getattr(blend, method)(*given)
    models[0].item_factors = models[0].item_factors[:10]
    with pytest.raises(ValueError, match="item_factors must be an array"):
        Blend(*models, weights=[0.5, 0.5]).recommend(0)


@pytest.mark.parametrize(
    ("column", "value"), [("users", 23), ("items", 17), ("items", -1), ("users", 10**6), ("values", None)]
)
@pytest.mark.parametrize("kind", [ALS, SGD, ImplicitALS, RBM, BayesianMF])
def test_ratings_that_were_changed_reach_no_native_code(kind, column, value):
    """Whatever takes them: a position outside would have it read, or write, memory of others."""

    def new():
        return kind(4, device="cpu")

    def changed():
        ratings = TRAIN.select(slice(None))
        columns = {name: getattr(ratings, name).copy() for name in ("users", "items", "values")}
        if value is None:
            columns["values"] = columns["values"][:5]
        else:
            columns[column][5] = value
        vars(ratings).update(columns)
        return ratings

    model = new().fit(TRAIN, 1)
    for use in (
        lambda: model.score(changed()),
        lambda: model.evaluate_ranking(changed()),
        lambda: model.evaluate_ranking(TRAIN, seen=changed()),
        lambda: model.evaluate_sampled(changed(), 3, 5),
        lambda: model.recommend([3, 4], seen=changed()),
        lambda: model.fold_in(changed()),
        lambda: new().fit(TRAIN, 1, changed()),
        lambda: new().fit(changed(), 1),
        lambda: Blend(model, model, weights=[0.5, 0.5]).score(changed()),
        lambda: search(new(), {"seed": [0]}, TRAIN, 1, folds=[(TRAIN, changed())]),
        lambda: (changed().by_user, changed().user_counts),
        lambda: (changed().by_item, changed().item_counts),
    ):
        with pytest.raises(DataError, match="the Ratings were changed after they were made"):
            use()


@pytest.mark.parametrize("n_items", [17, 10**6])  # which decides how they are ordered
def test_places_that_native_code_reads_cannot_be_written(n_items):
    ratings = Ratings(TRAIN.users, TRAIN.items, TRAIN.values, TRAIN.n_users, n_items)
    made_of = ratings.less(3), presort(ratings.by_user, ratings.by_item)
    for made in (ratings, *made_of, deepcopy(ratings), pickle.loads(pickle.dumps(ratings))):
        for rows in (made.by_user, made.by_item):
            for places in (rows.indptr, rows.indices):
                with pytest.raises(ValueError, match="read-only"):
                    places[0] = 10**9


def test_what_starts_a_trainer_is_checked():
    model = ALS(4, device="cpu", solver="sequential")
    p, q = model.initial_factors(TRAIN)
    for arrays, words in (
        ((p, q.astype(np.float64)), "item_factors must be an array, float32"),
        ((np.asfortranarray(p), q), "user_factors .*not contiguous"),
        ((p, q[:5]), "arrays to start from have the shapes"),
    ):
        with pytest.raises(ValueError, match=words):
            model.make_solver(TRAIN, *arrays)


def test_native_functions_say_what_they_take():
    called = []
    run = takes("int64 rows+1", "", "float32 columns f", f=3)(lambda *arguments: called.append(arguments))
    indptr, q = np.zeros(5, np.int64), np.zeros((7, 3), np.float32)
    run(indptr, "anything", q)
    assert len(called) == 1
    for wrong, error, words in (
        ((indptr.astype(np.int32), 0, q), TypeError, "argument 0 must be int64, contiguous in C order, not int32"),
        ((indptr, 0, q.T), TypeError, "argument 2 must be float32, .* not contiguous"),
        ((indptr, 0, q.tolist()), TypeError, "argument 2 must be an array, not list"),
        ((indptr, 0, q[:, :2].copy()), ValueError, r"argument 2 must have the shape \(7, 3\), not \(7, 2\)"),
        ((indptr, 0, q[0]), ValueError, r"not \(3,\)"),
    ):
        with pytest.raises(error, match=words):
            run(*wrong)
    assert len(called) == 1


@pytest.mark.parametrize("model", [ALS, ImplicitALS])
def test_no_number_of_factors_takes_a_model_off_the_gpu(model, monkeypatch):
    monkeypatch.setattr(backends, "available", lambda: True)
    monkeypatch.setattr(backends, "device", lambda name=None: None)
    found = [model(factors, device=device) for device in ("auto", "cuda") for factors in (5000, 9000)]
    many = {"dense_cuda", *["preconditioned_cg"] * (model is ImplicitALS)}
    assert {(one.device, one.solver) for one in found} == {("cuda", solver) for solver in many}


class OnGpu:
    """What CuPy's arrays are to who does not know them: no implicit copy to the host, and `get`."""

    def __init__(self, values):
        self.__cuda_array_interface__ = {"version": 3}
        self._values = np.asarray(values)
        self.dtype, self.shape, self.ndim = self._values.dtype, self._values.shape, self._values.ndim

    def __len__(self):
        return len(self._values)

    def __array__(self, *_, **__):
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def get(self):
        return self._values


def test_ratings_take_arrays_that_are_on_a_gpu():
    columns = TRAIN.users, TRAIN.items, TRAIN.values
    ratings = Ratings(*map(OnGpu, columns), TRAIN.n_users, TRAIN.n_items)
    for name, column in zip(("users", "items", "values"), columns, strict=True):
        assert np.array_equal(getattr(ratings, name), column)
    model = ALS(4, device="cpu").fit(ratings, 1)
    assert np.array_equal(model.predict(OnGpu([0, 1]), OnGpu([2, 3])), model.predict([0, 1], [2, 3]))

    class Elsewhere(OnGpu):
        get = None

    with pytest.raises(DataError, match="ratings: users are on a GPU, of type Elsewhere; copy them to the host"):
        Ratings(Elsewhere(TRAIN.users), TRAIN.items, TRAIN.values, TRAIN.n_users, TRAIN.n_items)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "trials"),
    [("cpu", 150), pytest.param("emulator", 40, marks=pytest.mark.emulator)],
    ids=["cpu", "emulator"],
)
def test_whatever_is_assigned_there_is_a_result_or_an_error(where, trials):
    if why := where == "emulator" and backends.why_unavailable("emulator"):
        pytest.skip(why)
    command = [sys.executable, "-W", "ignore", ROOT / "tests/assigned.py", "0", str(trials), where]
    path = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}"}
    done = subprocess.run(command, capture_output=True, text=True, env=outside_make() | path)
    last = done.stderr.strip().split("\n")[-1]
    assert done.returncode == 0, f"ended by {done.returncode} at: {last}"
    found = json.loads(done.stdout)
    assert found["wrong"] == [] and min(found["result"], found["refused"]) > trials
