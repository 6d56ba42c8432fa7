"""A stored model has every parameter that it was made with, and goes on as if it had not been stored."""

import inspect
from dataclasses import astuple

import numpy as np
import pandas as pd
import pytest

from gpumf import ALS, RBM, SGD, BayesianMF, ImplicitALS
from gpumf.solvers import schedules
from support import ragged_ratings

# Of every parameter a value that is not its default.
OTHERS = {
    ALS: {
        "factors": 3,
        "regularization": 0.3,
        "biases": False,
        "init": "unit",
        "clip": False,
        "weighted": True,
        "cg_steps": 9,
        "cg_tolerance": 0.01,
        "seed": 2**63 + 5,
    },
    ImplicitALS: {
        "factors": 3,
        "regularization": 0.3,
        "alpha": 2.5,
        "unobserved_weight": 0.3,
        "regularization_exponent": 0.5,
        "cg_steps": 9,
        "cg_tolerance": 0.01,
        "seed": 5,
    },
    SGD: {
        "factors": 3,
        "regularization": 0.11,
        "learning_rate": 0.013,
        "item_regularization": 0.12,
        "bias_regularization": 0.13,
        "item_bias_regularization": 0.14,
        "biases": False,
        "init": "unit",
        "init_std": 0.3,
        "clip": False,
        "schedule": schedules.Power(0.3, 0.7),
        "seed": 5,
    },
    RBM: {
        "hidden": 3,
        "learning_rate": 0.013,
        "gibbs_steps": [(0, 1), (2, 3)],
        "batch": 7,
        "momentum": 0.3,
        "weight_decay": 0.02,
        "average": "item",
        "initial_biases": "normal",
        "biases": False,
        "schedule": schedules.Power(0.3, 0.7),
        "levels": 6,
        "seed": 5,
    },
    BayesianMF: {"factors": 3, "samples": 1, "clip": False, "seed": 5},
}
# Where and how it is computed: a stored model may be used on another machine, with what is fastest there.
NOT_STORED = {"solver", "device", "threads", "chunk", "weights", "batches", "options"}
KERNELS = {ALS: "sequential", ImplicitALS: "parallel", SGD: "sequential", RBM: "sequential", BayesianMF: "gibbs"}
PAIRS = [(model, name) for model, others in OTHERS.items() for name in others]


@pytest.fixture(scope="module")
def train():
    """Ratings of every level, so that a model may have one level more."""
    return ragged_ratings(seed=3)


def made(model, **parameters):
    learned = {"biases": True} if {"bias_regularization", "item_bias_regularization"} & set(parameters) else {}
    return model(**{"device": "cpu", "solver": KERNELS[model]} | learned | parameters)


@pytest.mark.parametrize("model", OTHERS)
def test_values_of_every_parameter_are_tried_and_none_is_the_default(model):
    parameters = dict(inspect.signature(model).parameters)
    assert set(parameters) - NOT_STORED == set(OTHERS[model])
    for name, value in OTHERS[model].items():
        default = parameters[name].default
        assert value != default and made(model)._parameters[name] != made(model, **{name: value})._parameters[name]


@pytest.mark.parametrize("model", OTHERS)
def test_a_stored_model_with_all_parameters_goes_on_as_if_it_had_not_been(model, train, tmp_path):
    others = OTHERS[model]
    fitted = made(model, **others).fit(train, 2)
    fitted.save(tmp_path / "model.npz")
    loaded = model.load(tmp_path / "model.npz", device="cpu")
    assert loaded._parameters == fitted._parameters
    pd.testing.assert_frame_equal(loaded.history, fitted.history)
    for name in ("mean", "scale"):
        assert getattr(loaded, name) == getattr(fitted, name)
    assert astuple(loaded.times) == astuple(fitted.times) and fitted.times.end_to_end > 0
    assert np.array_equal(loaded._user_known, fitted._user_known)
    assert np.array_equal(loaded._item_counts, fitted._item_counts)
    before = [array.copy() for array in fitted._learned]
    assert all(map(np.array_equal, loaded._learned, before))
    # Its kernel is the fastest, which may learn other bits.
    loaded.solver, loaded._solver_given = fitted.solver, True
    for one in (fitted, loaded):
        one.fit(train, 2, warm_start=True)
    assert loaded.history.epoch.to_list() == [0, 1, 2, 3, 4]
    for a, b in zip(loaded._learned, fitted._learned, strict=True):
        np.testing.assert_array_equal(a, b)
    assert not any(map(np.array_equal, loaded._learned[:2], before))


@pytest.mark.parametrize("schedule", [schedules.Power(0.3, 0.7), schedules.Patience(3, 0.25), schedules.Constant()])
def test_schedules_are_stored_with_their_numbers(schedule, train, tmp_path):
    fitted = made(SGD, schedule=schedule).fit(train, 1, train)
    fitted.save(tmp_path / "model.npz")
    assert SGD.load(tmp_path / "model.npz", device="cpu").schedule == schedule
    assert schedules.from_dict(schedules.to_dict(schedule)) == schedule


@pytest.mark.parametrize(("model", "name"), PAIRS)
def test_every_parameter_changes_what_is_learned(model, name, train):
    if name in ("cg_steps", "cg_tolerance"):
        pytest.skip("of kernels that solve by conjugate gradient")
    if name == "clip":
        pytest.skip("of predictions")
    if name == "gibbs_steps":  # of the third epoch
        assert made(RBM, gibbs_steps=[(0, 1), (2, 3)]).steps_in(1) == 1
    fixed = {"biases": False} if name == "init" else {}
    a = made(model, **fixed).fit(train, 3)._learned
    b = made(model, **fixed, **{name: OTHERS[model][name]}).fit(train, 3)._learned
    assert not all(x.shape == y.shape and np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def test_conjugate_gradient_ends_after_its_steps_or_at_its_tolerance(host):
    train = ragged_ratings(seed=3)

    def learned(**parameters):
        return (
            ALS(6, 0.01, solver="cumf_cg", device="emulator", biases=False, **parameters).fit(train, 1).user_factors
        )

    many = learned(cg_steps=40, cg_tolerance=0)
    gaps = [abs(learned(cg_steps=40, cg_tolerance=t) - many).max() for t in (0.9, 1e-2, 1e-5)]
    assert gaps[0] > gaps[1] > 10 * gaps[2]
    assert abs(learned(cg_steps=1, cg_tolerance=0) - many).max() > 10 * gaps[2]
