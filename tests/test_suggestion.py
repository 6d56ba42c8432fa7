"""Which of ALS and SGD is suggested for a training set, and what is said of what was not measured."""

import math
from itertools import product

import numpy as np
import pandas as pd
import pytest

from gpumf import ALS, SGD, backends, suggest, suggestion
from gpumf.ratings import Ratings
from gpumf_study import generated, results
from gpumf_study.experiments import _expected
from gpumf_study.experiments.thesis import crossover
from support import ragged_ratings

SOLVERS = {
    "ALS": {"tensor_core": {"weights": [-10.0, 0.5, 0.5, 1.0], "within": 2.0, "options": {}}},
    "SGD": {
        "fast": {"weights": [-10.0, 1.0, 0.0, 0.0], "within": 3.0, "options": {}},
        "hogwild": {"weights": [-11.0, 1.0, 0.0, 0.5], "within": 4.0, "options": {"threads": 64}},
    },
}
MEASURED = {"users": [10, 100], "items": [10, 100], "ratings": [10, 1000], "factors": [4, 128]}
MEASURED |= {"density": [0.01, 1], "ratings of a row": [0.1, 100]}
FITS = {"cpu": {"solvers": SOLVERS, "measured": MEASURED, "accuracy": 0.75, "majority": 0.5}}


def expected(solver, n_users, n_items, nnz, factors):
    w = {name: of["weights"] for solvers in SOLVERS.values() for name, of in solvers.items()}[solver]
    return math.exp(w[0]) * nnz ** w[1] * (n_users + n_items) ** w[2] * factors ** w[3]


@pytest.mark.parametrize(("n_users", "nnz", "factors"), list(product((12, 90), (60, 590), (4, 20, 100))))
def test_the_soonest_is_named_with_the_seconds_of_both(monkeypatch, n_users, nnz, factors):
    monkeypatch.setattr(
        suggestion, "_MODELS", {"ALS": lambda f, **p: ("ALS", f, p), "SGD": lambda f, **p: ("SGD", f, p)}
    )
    found = suggestion.answer(FITS, "cpu", n_users, 50, nnz, factors)
    seconds = {name: expected(name, n_users, 50, nnz, factors) for name in ("tensor_core", "fast", "hogwild")}
    of_sgd = min(("fast", "hogwild"), key=seconds.get)
    assert found.seconds == pytest.approx({"ALS": seconds["tensor_core"], "SGD": seconds[of_sgd]})
    assert found.solvers == {"ALS": "tensor_core", "SGD": of_sgd} and found.within["ALS"] == 2
    name, f, parameters = found.model
    assert name == min(found.seconds, key=found.seconds.get) and f == factors
    assert parameters["solver"] == found.solvers[name] and found.caveats == ()
    assert parameters.get("threads") == (64 if parameters["solver"] == "hogwild" else None)
    assert found.measured_on == "cpu" and (found.accuracy, found.majority) == (0.75, 0.5)


@pytest.mark.parametrize(
    ("shape", "what"),
    [
        ((5, 50, 100, 8), ["users"]),
        ((50, 500, 600, 8), ["items"]),
        ((50, 50, 2000, 8), ["ratings"]),
        ((50, 50, 100, 2), ["factors"]),
        ((90, 90, 50, 200), ["factors", "density"]),
        ((50, 50, 100, 8), []),
    ],
)
def test_what_was_not_measured_is_said(monkeypatch, shape, what):
    monkeypatch.setattr(suggestion, "_MODELS", {"ALS": lambda *p, **q: ALS(), "SGD": lambda *p, **q: SGD()})
    found = suggestion.answer(FITS, "cpu", *shape)
    named = [caveat.removeprefix("Not measured: ").split(" of ")[0] for caveat in found.caveats]
    assert named == what and all(caveat in str(found) for caveat in found.caveats)


def test_a_device_without_times_gets_those_of_the_first_one_and_hears_of_it(monkeypatch):
    monkeypatch.setattr(backends, "available", lambda: False)
    found = suggest(ragged_ratings(n_users=1000, n_items=400, seed=0))
    recorded_on = results.reference("crossover")
    assert found.measured_on == recorded_on and recorded_on in found.caveats[0]
    assert "recorded on cpu" in found.caveats[0] and found.model.device == "cpu"
    assert recorded_on in str(found)
    assert np.isfinite(found.model.fit(ragged_ratings(seed=0), 1).user_factors).all()


def test_the_recorded_choice_is_reproduced_as_often_as_stated(monkeypatch):
    monkeypatch.setattr(suggestion, "_MODELS", {"ALS": lambda *p, **q: "ALS", "SGD": lambda *p, **q: "SGD"})
    for recorded in generated.recordings():
        versions = _expected.fastest_versions(crossover.counting(recorded.frame))
        shape = _expected.SHAPE
        seconds = versions.groupby(["data", *shape, "model"]).seconds.min().unstack("model").dropna()
        told = []
        for (_, *of), row in zip(seconds.index, seconds.itertuples(), strict=True):
            found = suggestion.answer(suggestion.recorded(), recorded.device, *of)
            assert not found.caveats
            told.append(found.model == ("ALS" if row.ALS < row.SGD else "SGD"))
        fit = suggestion.recorded()[recorded.device]
        assert len(told) == fit["settings"] and np.mean(told) == pytest.approx(fit["told"])
        assert found.accuracy == fit["accuracy"]


def test_a_frame_counts_as_its_ratings():
    train = ragged_ratings(seed=0)
    frame = pd.DataFrame({"user": train.users, "item": train.items, "rating": train.values})
    assert suggest(frame, device="cpu").seconds == suggest(Ratings.from_pandas(frame), device="cpu").seconds


def test_bad_input_is_refused():
    train = ragged_ratings(seed=0)
    with pytest.raises(TypeError, match="train must be Ratings"):
        suggest((943, 1682, 100_000))
    with pytest.raises(ValueError, match="empty"):
        suggest(Ratings([], [], [], 3, 3))
    for factors in (0, 257, 8.5, "8"):
        with pytest.raises(ValueError, match="factors must be an integer from 1 to 256"):
            suggest(train, factors)
    with pytest.raises(ValueError, match="device must be"):
        suggest(train, device="emulator")
    if not backends.available():
        with pytest.raises(backends.DeviceError):
            suggest(train, device="cuda")


def test_a_measured_gpu_gets_its_own_times(cuda):
    found = suggest(ragged_ratings(n_users=1000, n_items=400, longest=200, seed=0))
    assert (found.measured_on == results.device_name()) == (results.device_name() in suggestion.recorded())
    assert found.model.device == "cuda" and np.isfinite(found.model.fit(ragged_ratings(seed=0), 1).user_factors).all()
