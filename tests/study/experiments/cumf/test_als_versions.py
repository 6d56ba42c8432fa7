"""Versions of ALS: their gains, limits, phases and roofline."""

import time
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from gpumf import ALS
from gpumf_study import figure_style as style
from gpumf_study.experiments.cumf import als_versions
from outcomes import labelled
from support import ragged_ratings

CUMF = {"cumf_lu": 8.0, "cumf_cholesky": 4.0, "cumf_cg": 2.0, "cumf_cg_fp16": 1.0}


@pytest.fixture
def versions(stored):
    """Of every version one iteration, the phases of cumf's, a half-sweep of the tensor cores."""
    rows = []

    def add(kernel, load, cg_steps, step, seconds, gather=np.nan):
        fixed = "netflix-synthetic", "ALS", kernel, "cuda", load, 100, cg_steps, 1000, step
        rows.extend((*fixed, k, seconds + k / 100, 1e6, 1e9, 0.5, 0.5 / seconds, gather) for k in (-1, 0, 1))

    for kernel, seconds in CUMF.items():
        steps = 6 if "cg" in kernel else np.nan
        add(kernel, "coalesced", steps, "iteration", 10 + seconds, 4)
        for side in ("users", "items"):
            add(kernel, "coalesced", steps, f"{side} solve", seconds)
            for k, load in enumerate(als_versions.LOADS):
                add(kernel, load, steps, f"{side} get_hermitian", 5 + k, 2)
    for steps, seconds in ((6, 3), (4, 2)):
        add("tensor_core", np.nan, steps, "iteration", seconds, 2)
        add("tensor_core", np.nan, steps, "users", seconds / 2, 1)
    return stored(rows, als_versions.COLUMNS)


def widths(axis, label):
    """Where the marks with that label stand, from top to bottom."""
    (marks,) = [marks for marks in axis.collections if marks.get_label() == label]
    return marks.get_offsets()[::-1, 0].tolist()


def test_the_summary_of_versions_tells_the_gain_of_each_over_the_one_before(versions):
    table = als_versions.summary(versions.frame)
    assert list(table.version) == [*CUMF, "tensor_core", "tensor_core, 4 steps"]
    assert list(table.seconds) == [18, 14, 12, 11, 3, 2]
    assert np.isnan(table.gain[0]) and table.gain[1] == 18 / 14 and table.gain[5] == 1.5
    np.testing.assert_allclose(table.spread, 0.02)
    np.testing.assert_allclose(table.fraction_of_limit, 0.5 / table.seconds)


def test_versions_are_drawn_beside_their_limit_and_their_gathers(versions):
    figure = style.save(als_versions.figure(versions.frame), versions)
    (axis,) = figure.axes
    assert widths(axis, "measured (median)") == [18, 14, 12, 11, 3, 2]
    np.testing.assert_allclose(widths(axis, "limit"), 0.5)
    assert list(axis.lines[0].get_xdata())[::-1] == [4, 4, 4, 4, 2, 2] and labelled(figure)


def test_get_hermitian_of_each_side_is_timed_after_one_call_that_is_not(monkeypatch):
    clock, calls = [0.0], []

    def work(side):
        def get_hermitian():
            clock[0] += 100 * 10.0 ** -calls.count(side) * (2 if side == "items" else 1)
            calls.append(side)

        return {"get_hermitian": get_hermitian}

    sides = {side: work(side) for side in ("users", "items")}
    trainer = SimpleNamespace(epoch=lambda number: calls.append(number), phases=sides.get)
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    seconds = als_versions._hermitians(SimpleNamespace(device="cpu"), trainer, repeats=2)
    assert calls[0] == 0, "the kernels were compiled and the factors are those of an epoch"
    np.testing.assert_allclose(seconds["users get_hermitian"], [10, 1])
    np.testing.assert_allclose(seconds["items get_hermitian"], [20, 2])


def test_loads_and_solvers_are_drawn_as_in_cumf(versions):
    figure = style.save(als_versions.figure_phases(versions.frame, "netflix-synthetic", 100), versions)
    loads, solvers = ([[bar.get_height() for bar in bars] for bars in axis.containers] for axis in figure.axes)
    assert loads == [[5, 5], [6, 6], [7, 7]]
    assert solvers == [list(CUMF.values())] * 2
    assert figure.axes[1].lines[0].get_ydata()[0] == 10 and labelled(figure)


def test_marks_of_the_roofline_are_at_their_intensity_and_rate(versions, stored):
    values = {"copy_bytes_per_second": 1e7, "fp16_flops": 1e12, "fp32_flops": 1e9}
    ceilings = stored([("cuda", *pair) for pair in values.items()], ["device", "ceiling", "value"])
    figure = style.save(
        als_versions.figure_roofline(versions.frame, ceilings.frame, "netflix-synthetic", 100), versions
    )
    lines = {line.get_label(): line for line in figure.axes[0].lines}
    roof = lines["device copy, FP32 products"]
    np.testing.assert_allclose(roof.get_ydata(), np.minimum(roof.get_xdata() * 1e7, 1e9))
    (x,), (y,) = lines["tensor_core, users"].get_data()
    assert x == 1000 and y == pytest.approx(1e9 / 1.5)
    unlabelled = [line.get_xdata()[0] for label, line in lines.items() if label.startswith("_")]
    assert 1e9 / (1e6 + 1e7) in unlabelled, "with a row of factors for every rating"
    assert labelled(figure)


def test_both_sides_of_a_phase_are_added_up(versions):
    seconds = als_versions.both_sides(versions.frame).groupby(["kernel", "load", "phase"]).seconds.median()
    assert seconds["cumf_lu", "coalesced", "solve"] == 16 and seconds["cumf_cholesky", "no_l1", "get_hermitian"] == 14
    assert set(seconds.index.unique("phase")) == {"solve", "get_hermitian"}


@pytest.mark.parametrize(("kernel", "entry"), [("tensor_core", 2), ("cumf_cholesky", 4)])
def test_gathers_are_of_a_row_of_factors_for_every_rating_in_the_kernels_precision(kernel, entry, monkeypatch):
    model = ALS(8, solver=kernel, device="emulator", biases=False)
    train, ceilings = ragged_ratings(seed=0), {"copy_bytes_per_second": 16.0}
    steps = ["iteration", "users", "items", "users get_gram", "users solve", "users get_hermitian"]
    monkeypatch.setattr(type(model), "make_solver", lambda self, ratings: None)
    monkeypatch.setattr(als_versions, "_steps", lambda *what: {step: np.array([0.5, 0.25]) for step in steps})
    monkeypatch.setattr(als_versions, "_work", lambda *what: dict.fromkeys(steps, (7, 9)))
    monkeypatch.setattr(als_versions._limits, "limit_seconds", lambda moved, flops, *what: 0.125)
    frame = pd.DataFrame(als_versions._timings(model, train, None, ceilings, 2), columns=als_versions.COLUMNS)
    gathers = frame.groupby("step", sort=False).gather_seconds.first()
    of_a_side = train.nnz * 8 * entry / 16
    assert gathers[["iteration", "users", "items", "users get_hermitian"]].to_list() == [
        2 * of_a_side, of_a_side, of_a_side, of_a_side
    ]  # fmt: skip
    assert gathers[["users get_gram", "users solve"]].isna().all()
    assert frame.fraction_of_limit.to_list() == [0.25, 0.5] * len(steps) and (frame.bytes == 7).all()
    assert frame.repeat.to_list() == [0, 1] * len(steps) and (frame.flops == 9).all()
