"""What the project promises, against what is recorded."""

import json
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

    def store(name, frame, profile="full"):
        to = results.folder(live=False, device="h100")
        to.mkdir(parents=True, exist_ok=True)
        frame.to_csv(to / f"{name}.csv", index=False)
        (to / f"{name}.json").write_text(json.dumps({"commit": "c0ffee", "parameters": {"profile": profile}}))

    return store


def claim(better="lower", reach=2.0, aim=1.0):
    return claims.Claim("a-claim", "What.", "s", reach, aim, better, "measured", lambda frame: frame.seconds.median())


def only_row(of):
    (row,) = claims.table("h100", [of]).to_dict("records")
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


def test_a_row_names_the_file_and_the_commit_of_its_value(recorded):
    recorded("measured", pd.DataFrame({"seconds": [1.2, 1.5, 9.0]}))
    row = only_row(claim())
    assert list(row) == claims.COLUMNS
    assert (row["value"], row["met"], row["commit"]) == (1.5, "reach", "c0ffee")
    assert row["source_file"] == "data/results/h100/measured.csv"


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


@pytest.mark.parametrize(("exact", "met"), [("cumf_cholesky", "aim"), ("parallel", "missing")])
def test_the_gap_of_errors_is_to_exact_fp32_on_the_gpu(exact, met, recorded):
    rows = [(kernel, 0, 10, 0.88) for kernel in ("tensor_core", exact)]
    recorded("als_netflix", pd.DataFrame(rows, columns=["kernel", "repeat", "epoch", "rmse"]))
    assert only_row(next(c for c in claims.CLAIMS if c.id == "als-explicit-rmse-gap"))["met"] == met


@pytest.mark.parametrize("device", DEVICES)
def test_the_recorded_table_is_current(device):
    path = ROOT / f"data/results/{device}/reach.csv"
    assert path.read_text(encoding="utf-8") == claims.as_csv(claims.table(device)), "run `make reach`"
