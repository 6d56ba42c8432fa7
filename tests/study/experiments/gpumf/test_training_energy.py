"""Energy of trainings, by a counter that stands in for that of a GPU."""

from contextlib import nullcontext
from types import SimpleNamespace

import pandas as pd
import pytest

from gpumf_study import benchmarks, experiments, results
from gpumf_study.experiments.gpumf import training_energy
from support import ragged_ratings

IDLE, BUSY = 100.0, 500.0  # watts


class Gpu:
    """A clock, and a counter of what passes on it: a training takes as many seconds as it has epochs."""

    def __init__(self):
        self.now = self.energy = 0.0

    def joules(self):
        return self.energy

    def passes(self, seconds, watts=IDLE):
        self.now += seconds
        self.energy += watts * seconds


@pytest.fixture
def gpu(monkeypatch):
    gpu = Gpu()
    clock = SimpleNamespace(perf_counter=lambda: gpu.now, sleep=gpu.passes)
    monkeypatch.setattr(training_energy, "time", clock)
    monkeypatch.setattr(training_energy.energy, "counter", lambda device: nullcontext(gpu))
    return gpu


def test_the_smoke_profile_gives_what_the_benchmark_takes(host, gpu, repository, monkeypatch):
    monkeypatch.setattr(training_energy.backends, "available", lambda: False)
    monkeypatch.setattr(training_energy, "load_ratings", lambda name: ragged_ratings(seed=1, name=name))
    fit = training_energy.ALS.fit

    def timed(self, train, epochs, *arguments, **named):
        gpu.passes(epochs, BUSY)
        return fit(self, train, epochs, *arguments, **named)

    monkeypatch.setattr(training_energy.ALS, "fit", timed)
    parameters = training_energy.PROFILES["smoke"] | {"error": 9.0, "idle": 1.0}
    frame = experiments.run("training_energy", **parameters | {"profile": "smoke"}).frame
    assert frame.device.unique() == ["emulator"] and set(frame.metric) == {"rmse", "joules", "watts"}
    loaded = results.load("training_energy", results.device_name(), live=True)
    monkeypatch.setattr(results, "load", lambda *_: loaded)
    row = next(row for row in benchmarks.ROWS if row.id == "joules-to-092")
    where = row.measured.where | {"data": "ml-100k-synthetic"}
    assert benchmarks.Stored("training_energy", "value", where).values().to_list() == [BUSY]  # of one epoch


class Learner:
    """Reaches a test RMSE of 1.0 after `factors` epochs; a training takes a second an epoch."""

    def __init__(self, gpu, factors, fits):
        self.gpu, self.factors, self.fits = gpu, factors, fits

    def fit(self, train, epochs, validation=None, stop=None):
        errors = [2.0 - epoch / self.factors for epoch in range(epochs + 1)]
        if stop:
            epochs = next((n for n, rmse in enumerate(errors) if n and stop({"rmse": rmse})), epochs)
        self.fits.append((epochs, validation is not None, train))
        self.history = pd.DataFrame({"epoch": range(epochs + 1), "rmse": errors[: epochs + 1]})
        self.gpu.passes(epochs, BUSY)
        return self


def test_trainings_are_repeated_without_scoring_and_told_apart_from_the_idle_gpu(host, gpu, monkeypatch):
    fits = []
    monkeypatch.setattr(training_energy.backends, "available", lambda: False)
    monkeypatch.setattr(training_energy, "load_ratings", lambda name: ragged_ratings(seed=1, name=name))
    monkeypatch.setattr(training_energy, "MODELS", {"ALS": lambda factors, **options: Learner(gpu, factors, fits)})
    trainings = [["ALS", "quick", 2], ["ALS", "slow", 9]]
    frame = training_energy.run("some", trainings, error=1.0, epochs=6, seconds=5.0, idle=3.0, repeats=2)
    # Of the quick one a training with scores, one before the clock, and twice three, which take six seconds.
    assert [fit[:2] for fit in fits] == [(2, True)] + [(2, False)] * 7 + [(6, True)]
    assert len({id(train) for _, _, train in fits[1:8]}) == 7, "the orders of one are not those of the next"
    measured = frame[frame.metric == "joules"]
    assert measured.value.to_list() == [2 * BUSY] * 2 and measured.seconds.to_list() == [2.0] * 2
    assert measured.x_trainings.to_list() == [3] * 2 and measured.epoch.to_list() == [2] * 2
    assert frame.value[frame.task == "idle"].to_list() == [IDLE] * 2
    errors = frame[frame.metric == "rmse"]
    assert errors.value.to_list() == pytest.approx([1.0, 2 - 6 / 9]) and errors.epoch.to_list() == [2, 6]
    assert set(measured.solver) == {"quick"}, "the other one does not reach the error"


def test_what_is_missing_is_said(monkeypatch):
    backends, energy = training_energy.backends, training_energy.energy
    monkeypatch.setattr(backends, "available", lambda: False)
    monkeypatch.setattr(backends, "why_unavailable", lambda: "no GPU")
    assert experiments.why_unavailable("training_energy") == "no GPU"

    def refused(device):
        raise energy.EnergyError(f"{device} counts nothing")

    monkeypatch.setattr(backends, "available", lambda: True)
    monkeypatch.setattr(backends, "device", lambda: "a GPU")
    monkeypatch.setattr(energy, "counter", refused)
    assert experiments.why_unavailable("training_energy") == "a GPU counts nothing"
    monkeypatch.setattr(energy, "counter", lambda device: nullcontext())
    assert experiments.why_unavailable("training_energy") is None
