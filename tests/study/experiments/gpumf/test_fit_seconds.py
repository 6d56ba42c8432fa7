"""Whole fits, phase by phase, and where the orders of the ratings are made."""

import sys
import time
from types import SimpleNamespace

import pytest

from gpumf import ALS
from gpumf.ratings import DeviceRatings, Ratings
from gpumf_study.experiments.gpumf import fit_seconds
from support import ragged_ratings


def test_layouts_are_made_where_they_are_wanted(host, monkeypatch):
    """And what a fit before has made of the ratings is made again."""
    made = []

    class Here(ALS):
        def __init__(self, factors=16, regularization=0.1, device="emulator", **named):
            super().__init__(factors, regularization, device="emulator", **named)

    def noted(plain, where):
        return lambda self, *arguments: made.append(where) or plain(self, *arguments)

    monkeypatch.setitem(fit_seconds.MODELS, "ALS", Here)
    for of, where in ((DeviceRatings, "device"), (Ratings, "host")):
        monkeypatch.setattr(of, "_compress", noted(of._compress, where))
    train = ragged_ratings(seed=1)
    for where in ("device", "host"):
        rows = list(fit_seconds._measured(train, "ALS", "tensor_core", 4, 1, [where], 1))
        assert {row[5] for row in rows} == {where} and len(rows) == 2 * 6
        assert set(made) == {where} and len(made) >= 4  # both orders of two fits
        made.clear()


@pytest.mark.parametrize("solver", ["cpu", "gpu"])
def test_the_peer_is_timed_from_the_ratings_to_factors_on_the_host_and_then_to_lists(monkeypatch, solver):
    clock = [100.0]

    def takes(seconds):
        return lambda *what, **named: clock.__setitem__(0, clock[0] + seconds)

    array = SimpleNamespace(to_numpy=takes(0.25))
    model = SimpleNamespace(fit=takes(4.0), recommend=takes(2.0), user_factors=array, item_factors=array)
    module = SimpleNamespace(AlternatingLeastSquares=lambda *what, **named: model)
    monkeypatch.setitem(sys.modules, "implicit.als", module)
    monkeypatch.setattr(fit_seconds, "confidences", takes(1.0))
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    fit, lists = fit_seconds._peer_seconds(ragged_ratings(seed=1), solver, 4, 1)
    assert fit == {"cpu": 5.0, "gpu": 5.5}[solver] and lists == 2.0
