"""The tables of calls for users of other packages: each row's call runs, and gives what the row says."""

import re
from importlib.resources import files

import numpy as np
import pytest

import gpumf
from gpumf import ALS, RBM, SGD, BayesianMF, Blend, ImplicitALS, backends, cross_validate, search
from gpumf.backends.cpu import als
from gpumf.ratings import Ratings
from support import ROOT


def rows():
    """What is to be done -> the call of this package, of all tables of the page."""
    found = {}
    for line in (ROOT / "book/use/coming_from.md").read_text(encoding="utf-8").splitlines():
        cells_of_row = [cell.strip() for cell in line.split("|")[1:-1]]
        if call := len(cells_of_row) > 2 and re.match(r"`(.+?)`$", cells_of_row[1]):
            assert cells_of_row[0] not in found
            found[cells_of_row[0]] = call[1]
    return found


@pytest.fixture(scope="module")
def given():
    """What the calls are about: twenty users u0.., fifteen items i0.., half of the pairs rated."""
    import pandas as pd
    from scipy.sparse import coo_array

    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((20, 15)) < 0.5)
    values = rng.integers(1, 6, len(users)).astype(np.float32)
    names = [f"u{user}" for user in users], [f"i{item}" for item in items]
    frame = pd.DataFrame({"user": names[0], "item": names[1], "rating": values})
    train, test = Ratings.from_pandas(frame, scale=(1, 5)).split(test=0.3, seed=0)
    return {
        "frame": frame,
        "matrix": coo_array((values, (users, items)), shape=(20, 15)).tocsr(),
        "train": train,
        "test": test,
        "validation": test,
        "rated": ALS(4, device="cpu").fit(frame, epochs=2),
    }


@pytest.fixture
def run(given, monkeypatch, tmp_path):
    """A function that runs a call, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    model = ImplicitALS(4, device="cpu").fit(given["frame"], epochs=2)
    model.save("model.npz")
    names = {kind.__name__: kind for kind in (ALS, BayesianMF, Blend, ImplicitALS, RBM, SGD)} | {"files": files}
    names |= {"search": search, "cross_validate": cross_validate, "model": model, **given}
    return lambda call, **more: eval(call, names | more)


def rated(given, user):
    return set(given["frame"].item[given["frame"].user == user])


# What a row's call gives, of `given`.
CHECKS = {
    "fit a sparse matrix": lambda found, given: len(found.recommend(0, k=3)[0]) == 3 and not found.ids,
    "fit a data frame": lambda found, given: found.ids and len(found.user_factors) == 20,
    "fit a data frame of ratings": lambda found, given: found.ids and found.history.rmse.isna().all(),
    "recommend, ids in and out": lambda found, given: set(found[0]).isdisjoint(rated(given, "u1")),
    "recommend to many": lambda found, given: found[0].shape == (2, 3),
    "keep rated items": lambda found, given: len(found[0]) == 3,
    "leave items out": lambda found, given: "i1" not in found[0],
    "choose among some items": lambda found, given: set(found[0]) == {"i1", "i2", "i3"},
    "recommend to a new user": lambda found, given: len(found[0]) == 3 and "i1" not in found[0],
    "new users as a model": lambda found, given: len(found.user_factors) == 1,
    "learn new ratings": lambda found, given: isinstance(found, ImplicitALS),
    "learn after loading": lambda found, given: isinstance(found, ImplicitALS) and len(found.user_ids) == 20,
    "implicit: `AlternatingLeastSquares(64, regularization=30, alpha=5)`": lambda found, given: (
        (found.regularization, found.alpha, found.unobserved_weight, found.regularization_exponent) == (30, 5, 1, 0)
    ),
    "Surprise: `SVD()`": lambda found, given: (
        (found.factors, found.regularization, found.learning_rate, found.biases, found.init_std)
        == (100, 0.02, 0.005, True, 0.1)
    ),
    "`iterations=15`, `n_epochs=15`": lambda found, given: found.epoch == 15,
    "`random_state=0`, `num_threads=2`": lambda found, given: (found.seed, found.threads) == (0, 2),
    "find similar items": lambda found, given: len(found[0]) == 3 and "i1" not in found[0],
    "explain": lambda found, given: set(found[1]) <= rated(given, "u1") and found[0] == pytest.approx(sum(found[2])),
    "predict a rating": lambda found, given: found.shape == () and np.isfinite(found),
    "errors": lambda found, given: set(found) == {"rmse", "mae"},
    "ranking metrics": lambda found, given: set(found) == {"precision", "recall", "map", "ndcg"},
    "cross-validate": lambda found, given: len(found) == 5 and found.rmse.gt(0).all(),
    "search a grid": lambda found, given: found.best_parameters["factors"] == found.results.factors[0],
    "stop early": lambda found, given: len(found.history) < 31 and found.epoch == found.history.rmse.idxmin(),
    "save": lambda found, given: found is None and ImplicitALS.load("model.npz").ids,
    "load": lambda found, given: found.recommend("u1", k=3, seen=())[0].shape == (3,),
    "a GPU": lambda found, given: found.device == ("cuda" if backends.available() else "cpu"),
    "biases": lambda found, given: found.shape == (15,) and np.abs(found).max() > 0,
    "other models": lambda found, given: all(hasattr(one, "recommend") for one in found),
    "types for a checker": lambda found, given: found.is_file(),
    "`fit(X)` returns the estimator": lambda found, given: isinstance(found, ALS),
    "`get_params()`": lambda found, given: found["factors"] == 4,
    "`set_params(n_components=8)`": lambda found, given: found.factors == 8 and found.history is None,
    "`transform(X)` of new rows": lambda found, given: found.shape == (given["frame"][:5].user.nunique(), 4),
    "`score(X)`, the larger the better": lambda found, given: 0 < found["mae"] <= found["rmse"],
    "`GridSearchCV(estimator, grid)`": lambda found, given: found.best_score == found.results.rmse.min(),
    "`random_state=0`": lambda found, given: repr(found) == "ALS(seed=0)" and ALS().seed == 0,
    "`joblib.dump(estimator, path)`": lambda found, given: ImplicitALS.load("model.npz").factors == 4,
}
APART = {"several GPUs or hosts", "a CPU, without a compiler"}


def test_every_row_is_tried():
    assert set(rows()) == CHECKS.keys() | APART


@pytest.mark.parametrize("what", CHECKS)
def test_the_call_of_a_row_gives_what_it_says(what, run, given):
    assert CHECKS[what](run(rows()[what]), given)


def test_the_call_for_several_workers_gives_a_fitted_model(run, given):
    distributed = pytest.importorskip("gpumf.distributed", exc_type=ImportError)
    with distributed.local_cluster(1) as client:
        found = run(rows()["several GPUs or hosts"], distributed=distributed, client=client)
    assert found.score(given["test"])["rmse"] > 0 and found.epoch == 2


def test_the_call_without_a_compiler_needs_none(run, given, monkeypatch):
    monkeypatch.setattr(als, "native_update", lambda *_: None)
    by_numba = run(rows()["a CPU, without a compiler"])
    assert by_numba.device == "cpu" and by_numba.recommend("u1", k=1)[0].shape == (1,)


def test_the_page_names_the_exported_models(run):
    assert {one.__name__ for one in run(rows()["other models"])} <= set(gpumf.__all__)


def test_the_program_at_the_top_of_the_readme_runs(monkeypatch, tmp_path):
    import pandas as pd

    monkeypatch.chdir(tmp_path)
    rows = [("anna", "alien", 5), ("anna", "heat", 2), ("ben", "alien", 4), ("ben", "up", 3), ("eve", "heat", 1)]
    pd.DataFrame(rows, columns=["user", "item", "rating"]).to_csv("ratings.csv", index=False)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    names = {}
    exec(re.search(r"```python\n(.*?)```", text, re.DOTALL)[1], names)
    assert names["items"].tolist() == ["up"]
