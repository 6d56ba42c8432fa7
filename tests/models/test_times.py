"""What a fit does around the epochs: where ratings are put and ordered, and where its seconds go."""

import time
from dataclasses import astuple
from itertools import pairwise
from operator import is_

import numpy as np
import pytest

from gpumf import ALS, RBM, SGD, ImplicitALS, backends
from gpumf._util.jit import SPENT
from gpumf.backends.signature import Signature
from gpumf.models.times import Clock, Times
from gpumf.ratings import DeviceRatings, Ratings

PARTS = ("preprocess", "transfer", "train", "compile")


@pytest.fixture(scope="module")
def sets():
    """A training set in random order and a validation set with users and items that are unknown from training."""
    rng = np.random.default_rng(0)
    cells = rng.permutation(60 * 40)[:700]
    users, items = np.minimum(cells // 40, rng.integers(0, 60, 700)), cells % 40
    ratings = Ratings.from_arrays(users, items, rng.integers(1, 6, 700), shape=(60, 40), duplicates="last")
    return ratings.split(0.2, seed=1)


# One update at a time where updates race, so that the result is a function of the order.
MODELS = {
    "ALS": lambda device: ALS(5, device=device, biases=False),
    "ALS cumf_lu": lambda device: ALS(5, device=device, solver="cumf_lu", biases=False),
    "ImplicitALS": lambda device: ImplicitALS(5, device=device),
    "fast": lambda device: SGD(5, device=device, solver="fast", threads=1, biases=False),
    "fast, users": lambda device: SGD(5, device=device, solver="fast", threads=1, resident="users", biases=False),
    "kato_hosino": lambda device: SGD(5, device=device, solver="kato_hosino", biases=False),
    "cumf_sgd": lambda device: SGD(5, device=device, solver="cumf_sgd", threads=1, biases=False),
    "cumf_sgd, blocked": lambda device: SGD(
        5, device=device, solver="cumf_sgd", update="blocked", side=3, biases=False
    ),
    "gpusgd": lambda device: SGD(5, device=device, solver="gpusgd", side=3, biases=False),
    "newgpusgd": lambda device: SGD(5, device=device, solver="newgpusgd", side=3, biases=True),
    "esgd": lambda device: SGD(4, device=device, solver="esgd", shuffle=True, th_size=4, st=200, biases="baseline"),
    "RBM": lambda device: RBM(5, device=device),
}


def state(model):
    return [*model._learned, model._user_known, model._item_counts, model.history.drop(columns="seconds").to_numpy()]


@pytest.mark.parametrize("name", MODELS)
def test_ratings_on_a_device_are_learned_as_those_on_the_host(launcher, sets, name):
    there = [DeviceRatings.of(ratings, launcher) for ratings in sets]
    made = [MODELS[name](launcher.name) for _ in range(2)]
    for model, (train, validation) in zip(made, (sets, there), strict=True):
        model.fit(train, 2, validation)
        assert model._training is train
    for here, from_device in zip(*map(state, made), strict=True):
        assert here.tobytes() == from_device.tobytes()
    assert made[0].score(sets[1]) == made[1].score(there[1])
    assert made[0].evaluate_ranking(sets[1], 3) == made[1].evaluate_ranking(there[1], 3)
    for k in (3, 200):  # more than a kernel keeps
        assert np.array_equal(made[0].recommend(5, k)[0], made[1].recommend(5, k)[0])


def test_a_model_on_the_cpu_takes_ratings_from_a_device(launcher, sets):
    train = DeviceRatings.of(sets[0], launcher)
    a, b = (ALS(4, device="cpu", biases=False).fit(ratings, 2) for ratings in (train, sets[0]))
    assert a.user_factors.tobytes() == b.user_factors.tobytes()


def test_training_goes_on_where_the_ratings_are(launcher, sets):
    train, more = sets
    there = [DeviceRatings.of(ratings, launcher) for ratings in sets]
    made = []
    for first, second in (sets, there):
        model = (
            SGD(5, device=launcher.name, solver="kato_hosino", biases=False)
            .fit(first, 1)
            .fit(first, 1, warm_start=True)
        )
        made.append(model.partial_fit(second, 2))
    for here, from_device in zip(*map(state, made), strict=True):
        assert here.tobytes() == from_device.tobytes()
    assert model._training.nnz == train.nnz + more.nnz


def test_what_does_not_fit_a_device_is_ordered_on_the_host(launcher, sets, monkeypatch):
    monkeypatch.setattr("gpumf.ratings.device._BYTES_A_RATING", launcher.free_bytes())
    model = ALS(5, device=launcher.name, biases=False)
    assert model._placed(sets[0]) is sets[0]
    monkeypatch.undo()
    assert model._placed(sets[0]).device is launcher
    assert SGD(5, device=launcher.name, solver="fast", chunk=50, biases=False)._placed(sets[0]) is sets[0]


@pytest.mark.parametrize("where", ["cpu", "emulator"])
def test_all_devices_begin_with_the_same_factors(where, sets):
    if where == "emulator" and backends.why_unavailable("emulator"):
        pytest.skip(backends.why_unavailable("emulator"))
    train = sets[0] if where == "cpu" else DeviceRatings.of(sets[0], backends.device("emulator"))
    p, q = ALS(7, seed=3, biases=False).initial_factors(train)
    again = ALS(7, seed=3, solver="sequential", device="cpu", biases=False).initial_factors(sets[0])
    assert (p.tobytes(), q.tobytes()) == tuple(a.tobytes() for a in again)
    other, _ = ALS(7, seed=4, biases=False).initial_factors(train)
    assert not (p == other).any() and not np.isin(p, q).any() and len(np.unique(p)) > 0.99 * p.size


class Tick:
    """A clock on which each look takes a second."""

    def __init__(self):
        self.now = 0

    def __call__(self):
        self.now += 1
        return float(self.now)


class Compiler:
    """A device that compiles for some seconds."""

    compile_seconds, waited = 0.0, 0

    def synchronize(self):
        self.waited += 1


def test_a_clock_counts_compiling_apart(monkeypatch):
    monkeypatch.setattr(time, "perf_counter", Tick())
    monkeypatch.setattr(SPENT, "seconds", 0.5)
    clock = Clock(device := Compiler())  # 1
    with clock.spent_on("preprocess"):  # 2 to 3
        device.compile_seconds += 0.125
        SPENT.seconds += 0.125
    clock.spent_on("preprocess")  # 4 to 5
    clock.spent_on("compile")  # to 6
    device.compile_seconds += 0.5
    clock.spent_on()  # to 7
    device.compile_seconds += 8
    with pytest.raises(KeyError), clock.spent_on("transfer"):
        raise KeyError
    clock.add("train", 7.0)
    assert clock.stop() == Times(preprocess=1.75, train=7.0, compile=0.75, end_to_end=8.0)
    assert device.waited == 3


def test_times_add_up(device, sets, monkeypatch, tmp_path):
    model = ALS(4, device=device, biases=False)
    monkeypatch.setattr(time, "perf_counter", Tick())
    model.fit(sets[0], 3, sets[1])
    times = model.times
    parts = [getattr(times, part) for part in PARTS]
    assert times.train == 3 == model.history.seconds.iloc[-1]
    assert min(parts[:3]) > 0 and sum(parts) <= times.end_to_end
    model.fit(sets[0], 2, warm_start=True)
    assert model.times.train == 2 and model.history.seconds.iloc[-1] == 5
    model.save(tmp_path / "model.npz")
    assert astuple(ALS.load(tmp_path / "model.npz").times) == astuple(model.times)


def test_what_is_learned_is_copied_into_memory_asked_for_while_it_trained(launcher, sets, monkeypatch):
    train, validation = sets
    plain, made, room = ALS(5, device=launcher.name).fit(train, 2), [], launcher.room

    def noted(arrays):
        ready = room(arrays)
        return lambda: made.append(ready()) or made[-1]

    monkeypatch.setattr(launcher, "room", noted)
    model = ALS(5, device=launcher.name).fit(train, 2)
    assert all(map(is_, model._learned, made[0]))
    assert [one.tobytes() for one in model._learned] == [one.tobytes() for one in plain._learned]
    model.fit(train, 2, validation, keep="best")  # what was best is on the host
    assert len(made) == 1


@pytest.mark.parametrize(("name", "orders"), [("ALS", ("by_user", "by_item")), ("fast", ())])
def test_a_fit_begins_the_orders_of_its_solver_as_the_ratings_arrive(launcher, sets, monkeypatch, name, orders):
    begun, begin = [], DeviceRatings._begin
    monkeypatch.setattr(DeviceRatings, "_begin", lambda self, given: begun.append(given) or begin(self, given))
    MODELS[name](launcher.name).fit(sets[0], 1, sets[1])
    assert begun == [orders] * bool(orders)


def test_an_epoch_on_a_device_takes_few_launches_and_waits(launcher, sets, monkeypatch):
    counts = {"launch": 0, "wait": 0, "allocate": 0}

    def counted(name, method, of=launcher):
        real = getattr(of, method)

        def call(*arguments, **named):
            counts[name] += 1
            return real(*arguments, **named)

        monkeypatch.setattr(of, method, call)

    monkeypatch.setattr(launcher, "array", lambda array, real=launcher.array: real(array))
    counted("launch", "bind", Signature)  # of its arguments
    counted("wait", "synchronize")
    counted("wait", "to_numpy")
    counted("allocate", "empty")
    seen = []

    def note(row):
        seen.append(dict(counts))

    ALS(8, device=launcher.name, biases=False).fit(sets[0], 5, stop=note)
    each = [{name: after[name] - before[name] for name in counts} for before, after in pairwise(seen[1:])]
    # Two half-sweeps of three launches, and two of what is kept; the end of the epoch, and whether all is finite.
    assert each and all(e == {"launch": 8, "wait": 2, "allocate": 0} for e in each)
