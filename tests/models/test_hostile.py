"""SGD's schemes and the RBM on ratings that are hostile on purpose: as in float64, row by row, or loud.

All run on every device, so that `make test-gpu` sweeps them there.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import references
from cases import Case
from gpumf import RBM, SGD
from gpumf.models import DivergedError
from hostile import cases, hostile_ratings
from support import SCHEMES, kernels_on, slow

pytestmark = pytest.mark.filterwarnings("error")  # what overflows ends as DivergedError, and without a warning

CASES = cases()
MILD = {"stars", "all zero", "one not zero", "one zero", "constant", "negative", "both signs", "tiny"}


def usable(model, train, path):
    """All that a fitted model does, for all users and items: finite, and the same from all sides and a file, if any.

    The errors in its history are those of its predictions in float64. All are rounded as float32 rounds the largest
    of them, or of the terms that they are sums of.
    """
    assert all(np.isfinite(a).all() for a in model._learned)
    users = np.arange(train.n_users)
    table = model.predict(users[:, None], np.arange(train.n_items))
    assert table.shape == (train.n_users, train.n_items) and np.isfinite(table).all()
    error = table[train.users, train.items].astype(np.float64) - train.values
    size = np.abs(train.values).max() + np.abs(table).max()
    score = model.score(train)
    assert np.isclose(score["rmse"], np.sqrt((error**2).mean()), rtol=1e-5, atol=1e-5 * size)
    assert np.isclose(score["mae"], np.abs(error).mean(), rtol=1e-5, atol=1e-5 * size)
    if isinstance(model, SGD):
        size += (np.abs(model.user_factors) @ np.abs(model.item_factors).T).max()
    items, ratings = model.recommend(users, k=5, seen=())
    there = items >= 0
    assert (there.sum(axis=1) == min(5, len(np.unique(train.items)))).all()
    row = np.broadcast_to(users[:, None], items.shape)
    assert np.allclose(ratings[there], table[row, items][there], rtol=1e-5, atol=1e-5 * size)
    if path is None:
        return
    model.save(path)
    loaded = type(model).load(path, device=model.device)
    assert np.array_equal(loaded.predict(users[:, None], np.arange(train.n_items)), table)
    again, _ = loaded.recommend(users, k=5, seen=())
    assert np.array_equal(again, items)


# SGD


def id_of(value):
    return str(value) if value else ""


@pytest.mark.parametrize("biases", [True, *slow(False)], ids=["biases", "plain"])
@pytest.mark.parametrize(("kernel", "options"), [("sequential", {}), ("parallel", {}), *SCHEMES], ids=id_of)
def test_a_scheme_of_sgd_ends_finite_or_says_so(device, kernel, options, biases, tmp_path):
    if kernel not in kernels_on(SGD, device):
        pytest.skip(f"{kernel} does not run on {device}")
    for name, train in CASES.items():
        model = SGD(5, biases=biases, solver=kernel, device=device, **options)
        try:
            model.fit(train, 2, train)
        except DivergedError:
            assert train.name.split(", ")[1] not in MILD, name
            assert all(np.isfinite(a).all() for a in model._learned) and np.isfinite(model.history.rmse).all()
        else:
            usable(model, train, tmp_path / "sgd.npz" if kernel == "sequential" else None)


ORDERED = [
    ("sequential", {}),
    ("hogwild", {"threads": 1}),
    ("gpusgd", {"side": 3}),
    ("newgpusgd", {"side": 4}),
    ("newgpusgd", {"side": 4, "precision": 64}),
    ("kato_hosino", {}),
]


def follows_float64(train, factors, kernel, device, options, epochs=2):
    """Rates that go with the size of the ratings: none of these trainings may diverge."""
    size = float(np.abs(train.values).max()) or 1.0
    rates = {"regularization": 0.03 * size, "learning_rate": 0.05 / size}
    model = SGD(factors, biases=False, **rates, solver=kernel, device=device, **options)
    case = Case(model, train, model.initial_factors(train), decay=1)
    case.assert_close(5e-5, epochs, model.fit(train, epochs)._learned)


@pytest.mark.parametrize(("kernel", "options"), ORDERED, ids=id_of)
def test_a_scheme_without_races_is_the_replay_of_its_order(device, kernel, options):
    if kernel not in kernels_on(SGD, device):
        pytest.skip(f"{kernel} does not run on {device}")
    for train in CASES.values():
        follows_float64(train, 5, kernel, device, options)
    for factors in (1, 300):
        for train in (CASES["1 x 12, full, stars"], CASES["8 x 12, hot item, heavy tails"]):
            follows_float64(train, factors, kernel, device, options, epochs=1)


@pytest.mark.parametrize(("kernel", "options"), ORDERED, ids=id_of)
@settings(max_examples=8)
@given(train=hostile_ratings(), factors=st.sampled_from([1, 5]))
def test_what_hypothesis_draws_is_replayed_too(device, kernel, options, train, factors):
    if kernel not in kernels_on(SGD, device):
        pytest.skip(f"{kernel} does not run on {device}")
    follows_float64(train, factors, kernel, device, options)


# The restricted Boltzmann machine


def agree_and_are_usable(train, hidden, batch, device, path):
    options = {"levels": 5, "batch": batch, "learning_rate": 0.3, "momentum": 0.5, "gibbs_steps": 2}
    models = []
    for kernel, where in [("sequential", "cpu"), *((kernel, device) for kernel in kernels_on(RBM, device))]:
        model = RBM(hidden, biases=False, solver=kernel, device=where, **options)
        if train.values.min() == train.values.max():
            with pytest.raises(ValueError, match="two different"):
                model.fit(train, 1)
            continue
        models.append(model.fit(train, 3, train))
        usable(model, train, path)
        assert np.array_equal(model.history.rmse.notna(), [True] * 4)
        chosen = np.zeros((train.n_users, train.n_items, 5))
        lowest, highest = model.scale
        levels = np.rint((train.values.astype(np.float64) - lowest) / (highest - lowest) * 4 + 1).astype(int) - 1
        np.add.at(chosen, (train.users, train.items, levels), 1)
        h = references.rbm_hidden(chosen, model.item_weights, model.hidden_biases)
        assert np.abs(model.user_hidden - h).max() < 1e-5
    for other in models[1:]:
        for a, b in zip(other._learned, models[0]._learned, strict=True):
            assert np.abs(a - b).max() < 1e-4, (train.name, other.solver)


@pytest.mark.parametrize(("hidden", "batch"), [(1, 10**6), (20, 3)])
def test_the_machine_is_the_same_everywhere(device, hidden, batch, tmp_path):
    # It sees levels alone: of the values two are enough, and those of which there is one.
    for name, train in CASES.items():
        if name.endswith(("stars", "heavy tails", "constant")):
            agree_and_are_usable(train, hidden, batch, device, tmp_path / "rbm.npz")


def test_the_largest_machine_is_the_same_everywhere(launcher, tmp_path):
    agree_and_are_usable(CASES["1 x 12, full, stars"], 512, 5, launcher.name, tmp_path / "rbm.npz")


@settings(max_examples=8)
@given(train=hostile_ratings(), batch=st.sampled_from([1, 3, 10**6]))
def test_the_machine_is_the_same_on_what_hypothesis_draws(launcher, tmp_path, train, batch):
    agree_and_are_usable(train, 20, batch, launcher.name, tmp_path / "rbm.npz")
