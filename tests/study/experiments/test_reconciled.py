"""One table of all speed-ups over cores."""

import pandas as pd
import pytest

from gpumf_study.experiments import _reconciled


class Stored:
    """In the place of a Result."""

    def __init__(self, frame, **parameters):
        self.frame, self.provenance = frame, {"commit": "0123456789abcdef", "gpu": "a GPU", "parameters": parameters}
        self.provenance |= {"cpu_count": 16}


@pytest.fixture
def recorded(monkeypatch):
    """Results that the table finds, by name."""
    found = {}

    def find(name, device):
        if name in found:
            found[name].name = name
        return found.get(name)

    monkeypatch.setattr(_reconciled.results, "recorded", find)
    return found


def histories():
    columns = ["data", "model", "kernel", "device", "repeat", "epoch", "seconds", "rmse", "mae", "wall"]
    seconds = {"sequential": 80.0, "ordered": 8.0, "ordered_parallel": 2.0, "hogwild": 0.5, "fast": 0.25}
    rows = [
        ("douban-synthetic", "SGD", kernel, "cuda" if s < 1 else "cpu", 0, e, e * s, 1, mae, e * s + 1 if e else None)
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
    assert set(ours.until) == {"MAE 0.5732"} and set(ours.factors) == {16}
    assert set(ours.machine) == {"a GPU, 16 cores"}


def test_the_published_speedups_are_in_it_and_what_is_not_recorded_is_not(recorded):
    table = _reconciled.table()
    assert set(table.page) == {"Table 6.3 of the thesis"} and table.train.max() == 225.3
    sgd = table[table.model == "SGD"]
    assert set(sgd.baseline) == {"one core, drawing with replacement"} and set(sgd.threads) == {"4,096", "16,384"}


def test_speedups_are_told_by_threads_and_by_the_error(recorded):
    columns = ["data", "version", "model", "kernel", "device", "threads", "repeat", "epoch", "seconds", "mae"]
    rows = [
        ("douban-synthetic", version, "SGD", kernel, device, threads, 0, 1, s, 0.57)
        for version, kernel, device, threads, s in (
            ("SGD, one core", "sequential", "cpu", None, 90.0), ("SGD (32/128)", "hogwild", "cuda", 4096, 3.0),
        )
    ]  # fmt: skip
    recorded["speedups"] = Stored(pd.DataFrame(rows, columns=columns))
    (row,) = _reconciled.table().query("page == 'speedups'").itertuples()
    assert (row.train, row.threads, row.baseline) == (30, "4,096", "one core, drawing with replacement")
    assert row.until == "MAE 0.5732" and pd.isna(row.wall)


def test_only_sgd_draws_with_replacement_and_only_where_it_is_not_in_order(recorded):
    columns = ["data", "version", "model", "kernel", "device", "threads", "repeat", "epoch", "seconds", "mae"]
    rows = [
        ("douban-synthetic", version, version[:3], kernel, device, None, 0, 1, 1.0, 0.57)
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


def trainings(rows, **columns):
    """As of `_fits.history`: epochs of trainings, and what each is; they prepare for a second."""
    names = ["scheme", "device", "repeat", "epoch", "seconds", "rmse", "wall"]
    frame = pd.DataFrame(rows, columns=names).assign(prepare=1.0, transfer=0.0, compile=0.0, diverged=False)
    return frame.assign(train=frame.seconds, **columns)


def test_of_cumf_a_model_stands_beside_cores_with_the_other_model_too(recorded):
    frames = [
        trainings([(scheme, device, 0, 3, seconds, 0.91, seconds + 1)], model=model)
        for model, scheme, device, seconds in (
            ("ALS", "cumf_cg_fp16", "cuda", 0.5), ("SGD", "fast", "cuda", 0.25),
            ("ALS", "parallel_cg", "cpu", 5.0), ("SGD", "ordered_parallel", "cpu", 8.0),
        )
    ]  # fmt: skip
    recorded["cumf_convergence"] = Stored(
        pd.concat(frames).assign(data="netflix-synthetic", target=0.92), factors=100
    )
    table = _reconciled.table().query("page == 'cumf_convergence'").set_index(["version", "baseline"])
    assert table.train.to_dict() == {
        ("cumf_cg_fp16", "SGD, all cores"): 16, ("cumf_cg_fp16", "all cores, conjugate gradient"): 10,
        ("fast", "all cores"): 32, ("fast", "ALS, all cores, conjugate gradient"): 20,
    }  # fmt: skip
    assert table.wall["cumf_cg_fp16", "SGD, all cores"] == 6 and set(table.until) == {"RMSE 0.92"}
    assert table.training["cumf_cg_fp16"].iloc[0] == "biases" and set(table.factors) == {100}


def test_schemes_that_do_not_come_to_the_common_error_have_no_row(recorded):
    frame = pd.concat(
        trainings([(scheme, device, 0, 1, seconds, rmse, 9.0)], model=model, elapsed=2 * seconds + 1)
        for model, scheme, device, seconds, rmse in (
            ("ALS", "parallel", "cpu", 4.0, 0.9), ("SGD", "ordered_parallel", "cpu", 8.0, 0.9),
            ("ALS", "tensor_core", "cuda", 0.5, 0.9), ("SGD", "fast", "cuda", 0.5, 0.9),
            ("SGD", "cu2rec", "cuda", 0.5, 1.0), ("RBM", "fast", "cuda", 0.5, 1.0),
        )
    )  # fmt: skip
    sgd = {"schedule": {"name": "Power"}, "biases": False}
    frame = frame.assign(data="ml-20m-synthetic", source="gpumf")
    recorded["all_schemes"] = Stored(frame, factors=32, parameters={"SGD": sgd})
    table = _reconciled.table().query("page == 'all_schemes'").set_index(["model", "version", "baseline"])
    assert table.train.to_dict() == {("ALS", "tensor_core", "all cores"): 8, ("SGD", "fast", "all cores"): 16}
    assert table.wall["ALS", "tensor_core", "all cores"] == 4.5 and set(table.until) == {"RMSE 0.909"}
    assert table.training.tolist() == ["", "power schedule, no biases"]


def test_fits_end_after_epochs(recorded):
    rows = [
        ("douban-synthetic", model, kernel, device, 16, epochs, repeat, seconds, 10 * seconds)
        for model, kernel, device, epochs, seconds in (
            ("ALS", "sequential", "cpu", 10, 6.0), ("ALS", "tensor_core", "cuda", 10, 0.5),
            ("SGD", "ordered", "cpu", 20, 8.0), ("SGD", "fast", "cuda", 20, 2.0),
        )
        for repeat in range(2)
    ]  # fmt: skip
    columns = ["data", "model", "kernel", "device", "factors", "epochs", "repeat", "train", "wall"]
    frame = pd.DataFrame(rows, columns=columns).assign(prepare=0, transfer=0, compile=0, recommend=0)
    recorded["fit_seconds"] = Stored(frame)
    table = _reconciled.table().query("page == 'fit_seconds'").set_index("version")
    assert table.train.to_dict() == table.wall.to_dict() == {"tensor_core": 12, "fast": 4}
    assert table.until.to_dict() == {"tensor_core": "10 epochs", "fast": "20 epochs"}
    assert set(table.baseline) == {"one core"}
