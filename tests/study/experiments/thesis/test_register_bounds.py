"""Kernels with and without a minimum of active blocks."""

from types import SimpleNamespace

from gpumf import ALS
from gpumf_study.experiments.thesis import register_bounds
from support import ragged_ratings


def test_rows_say_how_many_threads_were_asked_for(monkeypatch):
    train = ragged_ratings(seed=0)
    device = SimpleNamespace(name="emulator", kernel=lambda *what, **named: None, time=lambda run, **named: [1.0])
    monkeypatch.setattr(register_bounds.backends, "available", lambda: False)
    monkeypatch.setattr(register_bounds.backends, "device", lambda name: device)
    monkeypatch.setattr(register_bounds, "load_ratings", lambda name: train)
    monkeypatch.setattr(ALS, "make_solver", lambda self, ratings: SimpleNamespace(epoch=lambda number: None))
    frame = register_bounds.run("ragged", [None, 256], 1)
    of = frame.groupby(["solver", "variant"]).x_cuda_threads.apply(sorted)
    assert len(of) == 2 * 2 + 1 and of.to_list() == [[0, 256]] * 5
