"""Settings that train together on a GPU: each has the bits that it has alone, and costs what was predicted."""

import weakref

import numpy as np
import pytest

from gpumf import ALS, ImplicitALS, search
from gpumf.backends.emulator import EmulatorDevice
from gpumf.models import batch
from gpumf.models.trials import Trials
from gpumf.ratings import DeviceRatings
from gpumf.solvers import als_tensor_core
from gpumf.solvers.als_tensor_core import TensorCore
from support import ragged_ratings

RATINGS = ragged_ratings(n_users=30, n_items=20, longest=12, seed=4)
GRID = {"factors": [3], "regularization": [0.1, 1.0, 5.0]}


@pytest.fixture
def together(monkeypatch):
    """How many models trained together, of each solver that was made."""
    found, make = [], TensorCore.__init__

    def made(self, problem, *given, systems=None, **named):
        found.append(len(systems or [1]))
        make(self, problem, *given, systems=systems, **named)

    monkeypatch.setattr(TensorCore, "__init__", made)
    return found


@pytest.mark.parametrize("factors", [3, 40])
@pytest.mark.parametrize(
    ("model", "settings"),
    [
        (ALS, [{"regularization": 0.1}, {"regularization": 2.0, "weighted": True}, {"regularization": 9.0}]),
        (ALS, [{"biases": False, "regularization": 0.1}, {"biases": False, "regularization": 2.0}]),
        (ImplicitALS, [{"alpha": 1.0}, {"alpha": 9.0, "unobserved_weight": 2.0}, {"regularization": 0.5}]),
    ],
)
def test_together_and_alone_are_the_same_bits(model, settings, factors, launcher, monkeypatch):
    monkeypatch.setattr(als_tensor_core, "_longest", lambda nnz: 4)  # rows of several parts
    models = [model(factors, device=launcher.name, **setting) for setting in settings]
    assert len({batch.alike(one) for one in models}) == 1
    shared = DeviceRatings.of(RATINGS, launcher)._shared()
    for epochs in (1, 2):  # the second goes on from the first
        learned = list(batch.trained_together(models, shared, epochs))
        for one, arrays in zip(models, learned, strict=True):
            one._learns(arrays, (one.epoch or 0) + epochs)
    for one, setting in zip(models, settings, strict=True):
        alone = model(factors, device=launcher.name, **setting).fit(RATINGS, 3)
        assert all(map(np.array_equal, one._learned, alone._learned))


def test_a_search_trains_together_what_is_alike(launcher, together, tmp_path, monkeypatch):
    given = ALS(device=launcher.name), GRID | {"factors": [2, 3]}, RATINGS, 2
    found = search(*given, folds=2, refit=False)
    assert together == [3] * 4
    whole = search(*given, folds=2, refit=False, strategy="halving", factor=2)
    last = whole.trials[whole.trials.epochs == 2].merge(found.trials, on=["setting", "fold"])
    assert len(last) == 2 * whole.n_candidates[-1] and (last.rmse_x == last.rmse_y).all()

    epoch, done = TensorCore.epoch, []

    def interrupted(self, number):
        done.append(number)
        if len(done) == 5:
            raise KeyboardInterrupt
        epoch(self, number)

    monkeypatch.setattr(TensorCore, "epoch", interrupted)
    options = {"folds": 2, "refit": False, "resume": tmp_path / "search.json"}
    with pytest.warns(RuntimeWarning, match="interrupted"):
        part = search(*given, **options)
    assert len(part.trials) == 6 and not part.complete
    rest = search(*given, **options)
    assert len(done) == 5 + 4 and rest.results.drop(columns="seconds").equals(found.results.drop(columns="seconds"))


def test_one_that_diverges_has_no_score_and_the_others_keep_theirs(launcher, monkeypatch):
    found, epoch = search(ALS(device=launcher.name), GRID, RATINGS, 2, folds=2, refit=False), TensorCore.epoch

    def poisoned(self, number):
        epoch(self, number)
        if number == 0:
            self._p[1, 0, 0] = np.inf

    monkeypatch.setattr(TensorCore, "epoch", poisoned)
    left = search(ALS(device=launcher.name), GRID, RATINGS, 2, folds=2, refit=False)
    both = found.trials.merge(left.trials, on=["setting", "fold"])
    others = both[both.setting != 1]
    assert both[both.setting == 1].rmse_y.isna().all() and len(others) == 4 and (others.rmse_x == others.rmse_y).all()


@pytest.fixture
def held(monkeypatch):
    """Bytes of arrays of the emulator: now, and at the most since this was 0."""
    found = {"now": 0, "most": 0}

    def change(by):
        found["now"] += by
        found["most"] = max(found["most"], found["now"])

    def counting(allocate):
        def allocated(self, *given):
            made = allocate(self, *given)
            change(made.nbytes)
            weakref.finalize(made, change, -made.nbytes)
            return made

        return allocated

    for name in ("array", "empty", "zeros"):
        monkeypatch.setattr(EmulatorDevice, name, counting(getattr(EmulatorDevice, name)))
    return found


@pytest.mark.parametrize("wait", [False, True])
def test_memory_is_predicted_and_kept(wait, together, held):
    folds = [ragged_ratings(n_users=300, n_items=200, longest=9, seed=1).split(0.2, seed=1)]
    models = [ALS(20, 1.0 + k, device="emulator") for k in range(30)]
    train = Trials(models[:1], folds, "rmse")._folds[0][0]
    taken = batch.bytes_alike(models[0], train, 30, wait)
    list(batch.trained_together(models[:2], train, 1))  # makes what all share
    before, held["most"] = held["now"], 0
    waiting = []
    for one in batch.trained_together(models, train, 1):
        waiting = [*waiting, one] if wait else one
    assert 0.9 * taken < held["most"] - before <= taken
    together.clear()
    grid, given = {"regularization": list(range(1, 31))}, {"epochs": 1, "folds": folds, "refit": False}
    of_ten = batch.bytes_alike(models[0], train, 10, False)
    search(ALS(20, device="emulator"), grid, folds[0][0], memory=2 * of_ten, **given)  # half for models that wait
    assert together == [10] * 3
