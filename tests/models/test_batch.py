"""Settings that train together on a GPU: each has the bits that it has alone, and costs what was predicted."""

import weakref

import numpy as np
import pytest

from gpumf import ALS, SGD, ImplicitALS, search
from gpumf.backends.emulator import EmulatorDevice
from gpumf.models import batch, trials
from gpumf.models.trials import Trials
from gpumf.ratings import DeviceRatings
from gpumf.solvers import als_settings, als_tensor_core
from gpumf.solvers.als_tensor_core import TensorCore
from support import least_peak, ragged_ratings

RATINGS = ragged_ratings(n_users=30, n_items=20, longest=12, seed=4)
HALVING = {"strategy": "halving", "factor": 2}
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
    monkeypatch.setattr(als_tensor_core, "longest_segment", lambda nnz: 4)  # rows of several parts
    models = [model(factors, device=launcher.name, **setting) for setting in settings]
    assert len({batch.alike(one, RATINGS) for one in models}) == 1
    shared = DeviceRatings.of(RATINGS, launcher)._shared()
    for epochs in (1, 2):  # the second goes on from the first
        learned = list(batch.trained_together(models, shared, epochs))
        for one, arrays in zip(models, learned, strict=True):
            one._learns(arrays, (one.epoch or 0) + epochs)
    for one, setting in zip(models, settings, strict=True):
        alone = model(factors, device=launcher.name, **setting).fit(RATINGS, 3)
        assert all(map(np.array_equal, one._learned, alone._learned))


@pytest.mark.parametrize("options", [{}, {"precision": 32, "biases": True}, {"biases": False}])
def test_updates_together_are_those_of_a_replay_alone(options):
    given = {"solver": "fast", "tiles": 1, "device": "emulator", **options}  # one block, whose steps are in order
    grid = {"regularization": [0.01, 0.1], "learning_rate": [0.01, 0.05]}
    found = search(SGD(4, **given), grid, RATINGS, 3, folds=2, refit=False)
    whole = search(SGD(4, **given), grid, RATINGS, 3, folds=2, refit=False, **HALVING)
    last = whole.trials[whole.trials.epochs == 3].merge(found.trials, on=["setting", "fold"])
    assert len(last) == 2 * whole.n_candidates[-1] and (last.rmse_x == last.rmse_y).all()
    folds = list(RATINGS.kfold(2))
    for row in found.trials.to_dict("records"):
        train, test = folds[row["fold"]]
        alone = SGD(4, **given, **{name: row[name] for name in grid}).fit(train, 3)
        assert row["rmse"] == alone.score(test)["rmse"]


def test_a_search_trains_together_what_is_alike(launcher, together, tmp_path, monkeypatch):
    given = ALS(device=launcher.name), GRID | {"factors": [2, 3]}, RATINGS, 2
    found = search(*given, folds=2, refit=False)
    assert together == [3] * 4
    whole = search(*given, folds=2, refit=False, **HALVING)
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
@pytest.mark.parametrize("model", [ALS, SGD])
def test_memory_is_predicted_and_kept(model, wait, held, monkeypatch):
    folds = [ragged_ratings(n_users=150, n_items=100, longest=9, seed=1).split(0.2, seed=1)]
    options = {"solver": "fast"} if model is SGD else {}
    models = [model(20, 0.1 + k, device="emulator", **options) for k in range(24)]
    train = Trials(models[:1], folds, "rmse")._folds[0][0]
    taken = batch.bytes_alike(models[0], train, len(models), wait)
    list(batch.trained_together(models[:2], train, 1))  # makes what all share
    before, held["most"] = held["now"], 0
    waiting = []
    for one in batch.trained_together(models, train, 1):
        waiting = [*waiting, one] if wait else one
    assert 0.9 * taken < held["most"] - before <= taken
    sizes = []
    monkeypatch.setattr(trials, "trained_together", lambda of, *given: sizes.append(len(of)) or [None] * len(of))
    of_ten = batch.bytes_alike(models[0], train, 10, False)
    with pytest.raises(ValueError, match="diverged with every setting"):
        grid = {"regularization": list(range(1, 31))}
        search(models[0], grid, folds[0][0], 1, folds=folds, memory=2 * of_ten)  # half for models that wait
    assert sizes == [10] * 3


IN_LANES = {
    "damped": (ALS, {"solver": "parallel_cg"}),
    "biases": (ALS, {"biases": True, "weighted": True, "solver": "parallel_cg"}),
    "no biases": (ALS, {"biases": False, "solver": "parallel_cg"}),
    "implicit": (ImplicitALS, {"alpha": 4.0}),
}
LAMBDAS = np.geomspace(0.1, 5, 17).tolist()  # one more than lanes: it trains alone


@pytest.fixture
def lanes():
    """How many settings train together on the CPU."""
    found = als_settings.settings_at_a_time(3, RATINGS)
    if found == 1:
        pytest.skip("no C++ compiler was found")
    return found


@pytest.mark.parametrize("factors", [3, 20])
@pytest.mark.parametrize(("model", "options"), IN_LANES.values(), ids=IN_LANES)
def test_settings_in_lanes_learn_what_each_learns_alone(model, options, factors, lanes):
    models = [model(factors, value, device="cpu", **options) for value in LAMBDAS[: lanes - 1]]
    shared = RATINGS._shared()
    for epochs in (1, 2):  # the second goes on from the first
        for one, arrays in zip(models, list(batch.trained_together(models, shared, epochs)), strict=True):
            one._learns(arrays, (one.epoch or 0) + epochs)
    for one, value in zip(models, LAMBDAS, strict=False):
        alone = model(factors, value, device="cpu", **options).fit(RATINGS, 3)
        for together, array in zip(one._learned, alone._learned, strict=True):
            assert np.allclose(together, array, rtol=1e-3, atol=1e-4)


def test_a_search_in_lanes_ends_as_settings_alone_and_as_before_an_interrupt(lanes, tmp_path, monkeypatch):
    given = ALS(3, solver="parallel_cg", device="cpu"), {"regularization": LAMBDAS}, RATINGS, 4
    options = {"folds": 2, "refit": False}
    found, halved = search(*given, **options), search(*given, **options, **HALVING)
    with monkeypatch.context() as patched:
        patched.setattr(trials, "most_alike", lambda *_: 1)
        alone, halved_alone = search(*given, **options), search(*given, **options, **HALVING)
    assert halved.n_candidates == halved_alone.n_candidates and halved.best_parameters == found.best_parameters
    for in_lanes, by_itself in ((found, alone), (halved, halved_alone)):
        both = in_lanes.trials.merge(by_itself.trials, on=["setting", "fold", "rung"])
        assert len(both) == len(in_lanes.trials) and np.allclose(both.rmse_x, both.rmse_y, rtol=1e-6)

    update, done = als_settings.SettingsGradient.epoch, []

    def interrupted(self, number):
        done.append(number)
        if len(done) == 6:
            raise KeyboardInterrupt
        update(self, number)

    monkeypatch.setattr(als_settings.SettingsGradient, "epoch", interrupted)
    with pytest.warns(RuntimeWarning, match="interrupted"):
        part = search(*given, **options, resume=tmp_path / "search.json")
    assert len(part.trials) == lanes and not part.complete
    rest = search(*given, **options, resume=tmp_path / "search.json")
    assert rest.results.drop(columns="seconds").equals(found.results.drop(columns="seconds"))


def test_one_in_a_lane_that_diverges_leaves_the_others_as_they_are(lanes, monkeypatch):
    given = ALS(3, solver="parallel_cg", device="cpu"), {"regularization": LAMBDAS[:lanes]}, RATINGS, 2
    found, epoch = search(*given, folds=2, refit=False), als_settings.SettingsGradient.epoch

    def poisoned(self, number):
        if number == 1:
            self._q[0, 0, 1] = np.inf
        epoch(self, number)

    monkeypatch.setattr(als_settings.SettingsGradient, "epoch", poisoned)
    both = found.trials.merge(search(*given, folds=2, refit=False).trials, on=["setting", "fold"])
    others = both[both.setting != 1]
    assert both[both.setting == 1].rmse_y.isna().all() and len(others) == 2 * (lanes - 1)
    assert (others.rmse_x == others.rmse_y).all()


@pytest.mark.parametrize(("model", "options"), IN_LANES.values(), ids=IN_LANES)
def test_memory_of_lanes_is_predicted_and_kept(model, options, lanes):
    ratings = ragged_ratings(n_users=3000, n_items=2000, longest=9, seed=1)._shared()
    models = [model(20, value, device="cpu", **options) for value in LAMBDAS[:lanes]]

    def train(epochs):
        return [one for one in batch.trained_together(models, ratings, epochs) if one is not None]

    train(1)  # makes what all settings share
    taken = batch.bytes_alike(models[0], ratings, lanes, False)
    assert 0.9 * taken < least_peak(train, (1, 2, 3)) <= taken
    assert batch.most_alike(models[0], ratings, taken, False) == lanes
    assert batch.most_alike(models[0], ratings, taken - 1, False) == 1
