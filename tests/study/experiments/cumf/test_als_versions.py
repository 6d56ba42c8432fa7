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
    """An iteration of every solver, the phases of cuMF's, a user update of the tensor cores."""
    rows = []

    def add(solver, variant, step, seconds, gather=np.nan):
        rows.extend((solver, variant, step, k, seconds + k / 100, gather) for k in (-1, 0, 1))

    for solver, seconds in CUMF.items():
        add(solver, "coalesced", "iteration", 10 + seconds, 4)
        for side in ("users", "items"):
            add(solver, "coalesced", f"{side} solve", seconds)
            for k, load in enumerate(als_versions.LOADS):
                add(solver, load, f"{side} get_hermitian", 5 + k, 2)
    add("tensor_core", None, "iteration", 3, 2)
    add("tensor_core", None, "users", 1.5, 1)
    frame = pd.DataFrame(rows, columns=["solver", "variant", "x_step", "repeat", "seconds", "x_gather_seconds"])
    labels = {"data": "netflix-synthetic", "model": "ALS", "device": "cuda", "factors": 100}
    return stored(frame.assign(**labels, x_bytes=1e6, x_flops=1e9, x_limit_seconds=0.5))


def test_the_summary_has_the_gain_of_each_solver_over_the_one_before(versions):
    table = als_versions.summary(versions.frame).droplevel(["data", "model", "factors"])
    assert table.seconds.to_dict() == {
        "cumf_lu": 18,
        "cumf_cholesky": 14,
        "cumf_cg": 12,
        "cumf_cg_fp16": 11,
        "tensor_core": 3,
    }
    assert np.isnan(table.gain.iloc[0]) and table.gain.iloc[1] == 18 / 14
    np.testing.assert_allclose(table.share, 0.5 / table.seconds)


def test_the_ladder_says_milliseconds_and_percents_of_roofline(versions):
    figure = style.save(als_versions.figure(versions.frame), versions)
    (axis,) = figure.axes
    assert [bar.get_width() for bar in axis.patches][::-1] == [18e3, 14e3, 12e3, 11e3, 3e3]
    assert " 3e+03 ms, 17 %" in [text.get_text() for text in axis.texts] and labelled(figure)


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
    ceilings = stored([("cuda", *pair) for pair in values.items()], ["device", "metric", "value"])
    figure = style.save(
        als_versions.figure_roofline(versions.frame, ceilings.frame, "netflix-synthetic", 100), versions
    )
    lines = {line.get_label(): line for line in figure.axes[0].lines}
    roof = lines["FP32 products"]
    np.testing.assert_allclose(roof.get_ydata(), np.minimum(roof.get_xdata() * 1e7, 1e9))
    marks = [(line.get_xdata()[0], line.get_ydata()[0]) for label, line in lines.items() if label.startswith("_")]
    rate = pytest.approx(1e9 / 1.5)
    assert (1000, rate) in marks and (1e9 / (1e6 + 1e7), rate) in marks, "with a row of factors for every rating"
    assert labelled(figure)


def test_both_sides_of_a_phase_are_added_up(versions):
    seconds = als_versions.both_sides(versions.frame).groupby(["solver", "variant", "phase"]).seconds.median()
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
    frame = als_versions._timings(model, train, None, ceilings, 2)
    gathers = frame.groupby("x_step", sort=False).x_gather_seconds.first()
    of_a_side = train.nnz * 8 * entry / 16
    assert gathers[["iteration", "users", "items", "users get_hermitian"]].to_list() == [
        2 * of_a_side, of_a_side, of_a_side, of_a_side
    ]  # fmt: skip
    assert gathers[["users get_gram", "users solve"]].isna().all()
    assert (frame.x_limit_seconds == 0.125).all() and (frame.x_bytes == 7).all() and (frame.x_flops == 9).all()
    assert frame.repeat.to_list() == [0, 1] * len(steps)
