"""What is promised of whole fits: of warm ones alone, with layouts made on the device, one core's beside them."""

import pandas as pd
import pytest

from gpumf import ALS
from gpumf.ratings import DeviceRatings, Ratings
from gpumf_study.experiments.gpumf import fit_seconds
from outcomes import word
from support import ragged_ratings

PROMISES = [
    ("als-explicit-wall10", "ALS", "tensor_core", 100, "wall", (0.29, 0.49, 0.51)),
    ("als-implicit64-wall10", "ImplicitALS", "tensor_core", 64, "wall", (0.24, 0.44, 0.46)),
    ("sgd-fast-wall20", "SGD", "fast", 128, "wall", (0.44, 0.74, 0.76)),
    ("sgd-cumf-wall20", "SGD", "cumf_sgd", 128, "wall", (1.1, 1.7, 1.9)),
    ("recommend-all-seconds", "ALS", "tensor_core", 100, "recommend", (0.07, 0.14, 0.16)),
    ("recommend-all-implicit-seconds", "ImplicitALS", "tensor_core", 128, "recommend", (0.07, 0.14, 0.16)),
    ("als-explicit256-seconds", "ALS", "tensor_core", 256, "train", (0.44, 0.74, 0.76)),
]


def fits(model, kernel, factors, data="netflix-synthetic", prepared="device", repeats=(1, 2, 3), **seconds):
    """Rows of fits of ten epochs that take a second each, but for what is said."""
    row = {"data": data, "model": model, "kernel": kernel, "factors": factors, "epochs": 10, "prepared": prepared}
    row |= dict.fromkeys(("prepare", "transfer", "train", "compile", "wall", "recommend"), 1.0) | seconds
    return [row | {"repeat": repeat} for repeat in repeats]


@pytest.mark.parametrize(("name", "model", "kernel", "factors", "column", "times"), PROMISES)
def test_warm_fits_with_layouts_of_the_device_are_held_to_it(name, model, kernel, factors, column, times):
    for seconds, expected in zip(times, ("stretch", "target", "short"), strict=True):
        rows = fits(model, kernel, factors, **{column: seconds})
        for other in ({"prepared": "host"}, {"repeats": (0,)}, {"data": "douban-synthetic"}):
            rows += fits(model, kernel, factors, **{column: 9.0}, **other)
        rows += fits("implicit", "gpu", factors, prepared="host", **{column: 9.0})
        assert word(name, pd.DataFrame(rows)) == expected


@pytest.mark.parametrize(
    ("model", "core", "kernel", "least"), [("ALS", "sequential", "tensor_core", 100), ("SGD", "ordered", "fast", 40)]
)
def test_speed_ups_are_those_of_the_whole_fit_over_one_core(model, core, kernel, least):
    of_core = fits(model, core, 16, "douban-synthetic", "host", wall=2.0 * least, train=7.0)
    for wall, expected in ((0.1, "stretch"), (1.9, "target"), (2.1, "short")):
        rows = pd.DataFrame(of_core + fits(model, kernel, 16, "douban-synthetic", wall=wall, train=3.5))
        assert word(f"{model.lower()}-douban-wall-speedup", rows) == expected
        assert word(f"{model.lower()}-douban-train-speedup", rows) == "answered"
    assert word(f"{model.lower()}-douban-wall-speedup", pd.DataFrame(of_core)) == "missing"


def test_phases_are_drawn_for_layouts_of_the_host_and_of_the_device():
    unknown = dict.fromkeys(("prepare", "transfer", "train", "compile"))
    rows = [
        *fits("ALS", "tensor_core", 100, repeats=(0, 1), prepare=0.5, wall=4.0),
        *fits("ALS", "tensor_core", 100, prepared="host", repeats=(0, 1), prepare=6.0, wall=10.0),
        *fits("implicit", "gpu", 100, prepared="host", repeats=(0, 1), wall=5.0, **unknown),
        *fits("ALS", "sequential", 16, "douban-synthetic", "host"),
    ]
    axis = fit_seconds.figure(pd.DataFrame(rows)).axes[0]
    labels = [label.get_text().split(", ")[2] for label in axis.get_yticklabels()]
    assert labels == ["on the device", "on the host", "on the host"]
    assert [bar.get_width() for bar in axis.containers[0]] == [0.5, 6, 0]
    ends = [bar.get_x() + bar.get_width() for bar in axis.containers[-1]]
    assert ends == [4, 10, 5]


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
        rows = list(fit_seconds._measured(train, "ALS", "tensor_core", 4, 1, [where], 1, recommends=True))
        assert [row[7] for row in rows] == [where] * 2
        assert set(made) == {where} and len(made) >= 4  # both orders of two fits
        made.clear()
