"""One table of all speed-ups to an error."""

import pandas as pd
import pytest

from gpumf.experiments import _reconciled


class Stored:
    """In the place of a Result."""

    def __init__(self, frame, **parameters):
        self.frame, self.provenance = frame, {"commit": "0123456789abcdef", "gpu": "a GPU", "parameters": parameters}
        self.provenance["code"] = {"src/gpumf/cpu/native/als.cpp": "its hash"}


@pytest.fixture
def recorded(monkeypatch):
    """Results that the table finds, by name."""
    found = {}
    monkeypatch.setattr(_reconciled.results, "recorded", lambda name, device: found.get(name))
    return found


def histories():
    columns = ["data", "model", "kernel", "device", "repeat", "epoch", "seconds", "rmse", "mae", "wall"]
    seconds = {"sequential": 80.0, "ordered": 8.0, "ordered_parallel": 2.0, "hogwild": 0.5, "fast": 0.25}
    rows = [
        ("douban-twin", "SGD", kernel, "cuda" if s < 1 else "cpu", 0, e, e * s, 1, mae, e * s + 1 if e else None)
        for kernel, s in seconds.items()
        for e, mae in ((0, 0.9), (1, 0.57))
    ]
    return pd.DataFrame(rows, columns=columns)


def test_a_kernel_stands_beside_every_core_that_it_was_compared_with(recorded):
    recorded["sgd_douban"] = Stored(histories(), schedule={"name": "Power", "beta": 0.1, "power": 1.5})
    table = _reconciled.table()
    ours = table[table.page == "sgd_douban"].set_index(["version", "baseline"])
    assert ours.train["hogwild", "one core"] == 16 and ours.train["fast", "all cores"] == 8
    assert ours.train["hogwild", "one core, drawing with replacement"] == 160
    assert ours.wall["fast", "one core"] == pytest.approx(9 / 1.25)
    assert set(ours.training) == {"power schedule, biases"} and len(ours) == 6


def test_the_published_speedups_are_in_it_and_what_is_not_recorded_is_not(recorded):
    table = _reconciled.table()
    assert set(table.page) == {"Table 6.3 of the thesis"} and table.train.max() == 225.3
    sgd = table[table.model == "SGD"]
    assert set(sgd.baseline) == {"one core, drawing with replacement"} and set(sgd.threads) == {"4,096", "16,384"}


def test_speedups_are_told_by_threads_and_by_the_error(recorded):
    columns = ["data", "version", "model", "kernel", "device", "threads", "repeat", "epoch", "seconds", "mae"]
    rows = [
        ("douban-twin", version, "SGD", kernel, device, threads, 0, 1, s, 0.57)
        for version, kernel, device, threads, s in (
            ("SGD, one core", "sequential", "cpu", None, 90.0), ("SGD (32/128)", "hogwild", "cuda", 4096, 3.0),
        )
    ]  # fmt: skip
    recorded["speedups"] = Stored(pd.DataFrame(rows, columns=columns))
    (row,) = _reconciled.table().query("page == 'speedups'").itertuples()
    assert (row.train, row.threads, row.baseline) == (30, "4,096", "one core, drawing with replacement")
    assert row.mae == 0.5732 and pd.isna(row.wall)


def test_only_sgd_draws_with_replacement_and_only_where_it_is_not_in_order(recorded):
    columns = ["data", "version", "model", "kernel", "device", "threads", "repeat", "epoch", "seconds", "mae"]
    rows = [
        ("douban-twin", version, version[:3], kernel, device, None, 0, 1, 1.0, 0.57)
        for version, kernel, device in (
            ("ALS, one core", "sequential", "cpu"), ("ALS (32/128)", "thesis_shared", "cuda"),
            ("SGD, one core, each once", "ordered", "cpu"), ("SGD, all cores", "parallel", "cpu"),
            ("SGD, fast", "fast", "cuda"),
        )
    ]  # fmt: skip
    recorded["speedups"] = Stored(pd.DataFrame(rows, columns=columns))
    table = _reconciled.table().query("page == 'speedups'")
    assert set(zip(table.model, table.baseline, strict=True)) == {
        ("ALS", "one core"), ("SGD", "one core"), ("SGD", "all cores, drawing with replacement")
    }  # fmt: skip


@pytest.mark.parametrize("page", ["first_comparison", "speedups"])
def test_cores_that_ran_als_in_numba_say_so(recorded, page):
    frame = histories().assign(
        model="ALS", kernel=lambda f: f.kernel.replace({"ordered": "parallel", "fast": "tensor_core"})
    )
    frame = frame[frame.kernel.isin(["sequential", "parallel", "tensor_core"])]
    names = {"sequential": "ALS, one core", "parallel": "ALS, all cores", "tensor_core": "ALS, tensor cores"}
    recorded[page] = Stored(frame.assign(version=frame.kernel.map(names), threads=None))
    assert set(_reconciled.table().query("page == @page").baseline) == {"one core", "all cores"}
    recorded[page].provenance["code"] = {}
    assert set(_reconciled.table().query("page == @page").baseline) == {"one core, Numba", "all cores, Numba"}
