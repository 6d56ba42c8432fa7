"""Whole fits, phase by phase, and where the orders of the ratings are made."""

import pandas as pd

from gpumf import ALS
from gpumf.ratings import DeviceRatings, Ratings
from gpumf_study import schema
from gpumf_study.experiments.gpumf import fit_seconds
from support import ragged_ratings


def fits(model, solver, variant="device", **seconds):
    """A first fit and a warm one with these phases."""
    labels = {"model": model, "solver": solver, "factors": 100, "x_epochs": 10, "variant": variant, "task": "fit"}
    return [labels | {"repeat": k, "phase": phase, "seconds": s} for k in (0, 1) for phase, s in seconds.items()]


def test_phases_are_drawn_for_orders_of_the_host_and_of_the_device():
    rows = [
        *fits("ALS", "tensor_core", preprocess=0.5, train=2.0, end_to_end=4.0),
        *fits("ALS", "tensor_core", "host", preprocess=6.0, train=2.0, end_to_end=10.0),
        *fits("implicit", "gpu", "host", end_to_end=5.0),
    ]
    frame = schema.validated(pd.DataFrame(rows))
    axis = fit_seconds.figure(frame).axes[0]
    labels = [label.get_text().split(", ")[-1] for label in axis.get_yticklabels()]
    assert labels == ["on the device", "on the host", "on the host"]
    assert [bar.get_width() for bar in axis.containers[0]] == [0.5, 6, 0]
    assert [bar.get_x() + bar.get_width() for bar in axis.containers[-1]] == [4, 10, 5]


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
