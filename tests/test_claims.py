"""What the project promises, against what is recorded."""

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from gpumf import claims, results

ROOT = Path(__file__).resolve().parent.parent
DEVICES = sorted({claim.device for claim in claims.CLAIMS})


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """Stores a frame as the recorded result of an experiment on an H100."""
    monkeypatch.setattr(results, "repository", lambda: tmp_path)

    def store(name, frame, profile="full", device=results.REFERENCE):
        to = results.folder(live=False, device=device) / "thesis"
        to.mkdir(parents=True, exist_ok=True)
        frame.to_csv(to / f"{name}.csv", index=False)
        (to / f"{name}.json").write_text(json.dumps({"commit": "c0ffee", "parameters": {"profile": profile}}))

    return store


def claim(better="lower", reach=2.0, aim=1.0):
    return claims.Claim("a-claim", "What.", "s", reach, aim, better, "measured", lambda frame: frame.seconds.median())


def only_row(of):
    (row,) = claims.table(results.REFERENCE, [of]).to_dict("records")
    return row


@pytest.mark.parametrize(
    ("better", "reach", "aim", "value", "met"),
    [
        ("lower", 2.0, 1.0, 1.0, "aim"),
        ("lower", 2.0, 1.0, 1.5, "reach"),
        ("lower", 2.0, 1.0, 2.1, "no"),
        ("lower", 2.0, None, 0.1, "reach"),
        ("lower", None, 1.0, 99.0, "reach"),
        ("higher", 10.0, 30.0, 31.0, "aim"),
        ("higher", 10.0, 30.0, 29.0, "reach"),
        ("higher", 10.0, 30.0, 9.0, "no"),
        ("higher", None, 30.0, float("nan"), "missing"),
    ],
)
def test_a_value_meets_the_aim_or_the_reach_or_neither(better, reach, aim, value, met):
    assert claim(better, reach, aim).met(value) == met


def test_rows_from_another_machine_are_added_but_do_not_stand_alone(recorded):
    with_cpu = replace(claim(), besides="cpu")
    recorded("measured", pd.DataFrame({"seconds": [3.0, 4.0]}), device="cpu")
    assert only_row(with_cpu)["met"] == "missing"
    recorded("measured", pd.DataFrame({"seconds": [1.0]}))
    assert only_row(with_cpu)["value"] == 3.0 and only_row(claim())["value"] == 1.0


def test_a_row_names_the_file_and_the_commit_of_its_value(recorded):
    recorded("measured", pd.DataFrame({"seconds": [1.2, 1.5, 9.0]}))
    row = only_row(claim())
    assert list(row) == claims.COLUMNS
    assert (row["value"], row["met"], row["commit"]) == (1.5, "reach", "c0ffee")
    assert row["source_file"] == f"data/results/{results.REFERENCE}/thesis/measured.csv"


def test_the_reach_may_follow_from_the_result_itself(recorded):
    against = claim(reach=lambda frame: frame.seconds.max(), aim=None)
    assert only_row(against)["met"] == "missing" and pd.isna(only_row(against)["reach"])
    recorded("measured", pd.DataFrame({"seconds": [1.2, 1.5, 9.0]}))
    assert (only_row(against)["reach"], only_row(against)["met"]) == (9.0, "reach")
    below = claim(reach=lambda frame: frame.seconds.min(), aim=5.0)
    assert only_row(below)["met"] == "no", "an aim does not count where the reach is not met"


@pytest.mark.parametrize("stored", ["nothing", "a quick run", "no such row"])
def test_without_a_full_measurement_a_claim_is_missing(recorded, stored):
    if stored != "nothing":
        seconds = [1.5] if stored == "a quick run" else []
        recorded("measured", pd.DataFrame({"seconds": seconds}), "quick" if seconds else "full")
    row = only_row(claim(reach=None))
    assert row["met"] == "missing" and pd.isna([row["value"], row["source_file"], row["commit"]]).all()


def test_claims_are_told_apart_and_say_what_they_promise():
    assert len({c.id for c in claims.CLAIMS}) == len(claims.CLAIMS)
    for c in claims.CLAIMS:
        assert c.better in ("lower", "higher") and c.what.endswith(".")
        assert not (isinstance(c.reach, float) and c.aim) or (c.aim < c.reach) == (c.better == "lower")


def test_the_time_of_an_epoch_is_that_of_one_kernel_without_the_initial_model():
    frame = pd.DataFrame(
        {
            "kernel": ["slow"] * 3 + ["fast"] * 6,
            "repeat": [0, 0, 0, 0, 0, 0, 1, 1, 1],
            "epoch": [0, 1, 2] * 3,
            "seconds": [0, 5, 10, 0, 1, 3, 0, 2, 4],
            "rmse": [9, 2, 1.0, 9, 2, 1.25, 9, 2, 0.5],
        }
    )
    assert claims.epoch_seconds(frame, "fast") == 2
    assert claims.rmse_gap(frame, "fast", "slow", epoch=2) == 0.125
    assert pd.isna(claims.rmse_gap(frame, "fast", "absent", epoch=2))
    assert pd.isna(claims.epoch_seconds(frame, "absent"))


def test_the_values_of_versions_are_those_of_the_row_that_the_claim_names():
    rows = [
        ("netflix-twin", "ALS", "cumf_cholesky", 100, None, "iteration", 0.11),
        ("netflix-twin", "ALS", "cumf_cholesky", 100, None, "users", 0.07),
        ("netflix-twin", "ImplicitALS", "tensor_core", 64, 4, "iteration", 0.02),
        ("netflix-twin", "ImplicitALS", "tensor_core", 64, 6, "iteration", 0.01),
        ("netflix-twin", "ImplicitALS", "tensor_core", 128, 4, "iteration", 0.04),
        ("douban-twin", "ImplicitALS", "tensor_core", 128, 4, "iteration", 0.01),
        ("netflix-twin", "ALS", "tensor_core", 64, 6, "iteration", 0.03),
    ]
    frame = pd.DataFrame(rows, columns=["data", "model", "kernel", "factors", "cg_steps", "step", "seconds"])
    value = {c.id: c.value(frame) for c in claims.CLAIMS if c.experiment == "als_versions"}
    assert value == {
        "als-fp32-exact-seconds": 0.11,
        "als-implicit64-seconds": 0.02,
        "als-implicit128-seconds": 0.04,
    }


def test_the_values_of_sgd_are_those_that_the_claims_name():
    def values(experiment, frame):
        return {c.id: c.value(frame) for c in claims.CLAIMS if c.experiment == experiment}

    times = {"sequential": (10, 0.92), "cumf_sgd": (0.5, 0.921), "fast": (0.25, 0.918)}
    rows = [(k, 0, 1e9, e, e * s, rmse if e == 20 else 1) for k, (s, rmse) in times.items() for e in range(21)]
    frame = pd.DataFrame(rows, columns=["scheme", "repeat", "nnz", "epoch", "seconds", "rmse"])
    assert values("sgd_netflix", frame) == {
        "sgd-fast-updates": 4,
        "sgd-fast-rmse-gap": pytest.approx(-0.002),
        "sgd-cumf-updates": 2,
    }

    rows = [("ml-10m-twin", 50, 3000, 0.2), ("ml-10m-twin", 300, 3000, 1.5), ("ml-10m-twin", 300, 30, 0.015)]
    frame = pd.DataFrame(rows, columns=["data", "factors", "steps", "seconds"])
    assert values("sgd_cu2rec", frame) == {"sgd-cu2rec50-seconds": 0.2, "sgd-cu2rec300-seconds": 1.5}

    rows = [
        ("douban-twin", "SGD", kernel, device, 0, epoch, epoch * seconds, 1, mae)
        for kernel, device, seconds in (("sequential", "cpu", 10), ("hogwild", "cuda", 0.001), ("fast", "cuda", 0.01))
        for epoch, mae in enumerate((0.9, 0.6, 0.57))
    ]
    columns = ["data", "model", "kernel", "device", "repeat", "epoch", "seconds", "rmse", "mae"]
    assert values("sgd_douban", pd.DataFrame(rows, columns=columns)) == {"sgd-douban-speedup": pytest.approx(1000)}

    rows = [(fold, "test", seed, 0.9 + fold / 10, 0.7) for fold in (0, 1) for seed in (0, 1)]
    rows += [(0, "choice", 0, 0.1, 0.1)]
    frame = pd.DataFrame(rows, columns=["fold", "step", "seed", "rmse", "mae"])
    assert values("sgd_ml100k", frame) == {
        "sgd-ml100k-rmse": pytest.approx(0.95),
        "sgd-ml100k-mae": pytest.approx(0.7),
    }


@pytest.mark.parametrize(("exact", "met"), [("cumf_cholesky", "aim"), ("parallel", "missing")])
def test_the_gap_of_errors_is_to_exact_fp32_on_the_gpu(exact, met, recorded):
    rows = [(kernel, 0, 10, 0.88) for kernel in ("tensor_core", exact)]
    recorded("als_netflix", pd.DataFrame(rows, columns=["kernel", "repeat", "epoch", "rmse"]))
    assert only_row(next(c for c in claims.CLAIMS if c.id == "als-explicit-rmse-gap"))["met"] == met


@pytest.mark.parametrize("device", DEVICES)
def test_the_recorded_table_is_current(device):
    path = ROOT / f"data/results/{device}/reach.csv"
    assert path.read_text(encoding="utf-8") == claims.as_csv(claims.table(device)), "run `make reach`"
