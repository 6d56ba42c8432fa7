"""Versions of ALS: their gains, limits, phases and roofline."""

import time
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from gpumf import ALS
from gpumf_study.experiments.cumf import als_versions
from support import ragged_ratings


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


def test_loads_are_compared_of_one_kernel_of_cumf(monkeypatch):
    timed = []

    def models(model, factors, device, **options):
        for solver in ("parallel", "tensor_core", "cumf_cg", "cumf_cholesky"):
            yield model(factors, solver=solver, device="cpu" if solver == "parallel" else "emulator", **options)

    def timings(model, train, load, *what):
        timed.append((type(model).__name__, model.solver, load))
        return pd.DataFrame({"load": [load]})

    train = ragged_ratings(seed=0)
    for name, made in (("_models", models), ("_timings", timings), ("load_ratings", lambda _: train)):
        monkeypatch.setattr(als_versions, name, made)
    monkeypatch.setattr(als_versions._limits, "ceilings", lambda device: {})
    als_versions.run(["ragged"], [[8]], [[8]], 1)
    plain = [("parallel", None), ("tensor_core", None), ("cumf_cg", "coalesced"), ("cumf_cholesky", "coalesced")]
    more = [("ALS", "cumf_cholesky", load) for load in als_versions.LOADS[1:]]
    assert len(more) == 2 and sorted(timed, key=str) == sorted(
        [(kind, *of) for kind in ("ALS", "ImplicitALS") for of in plain] + more, key=str
    )
