"""Canary timings: what counts as equal, what fails, and what is said where nothing can be compared."""

import json

import numpy as np
import pytest

from gpumf_study import canary, results

RNG = np.random.default_rng(1)
RECORDED = 1 + 0.01 * RNG.standard_normal(20)


@pytest.mark.parametrize(
    ("factor", "spread", "word"),
    [(1.0, 0.01, "equal"), (1.02, 0.01, "equal"), (0.98, 0.01, "equal"), (1.2, 0.01, "slower"), (0.8, 0.01, "faster"),
     (1.05, 0.01, "unclear"), (1.0, 0.5, "unclear")],
)  # fmt: skip
def test_equal_is_an_interval_within_the_margin(factor, spread, word):
    today = factor + spread * np.random.default_rng(2).standard_normal(20)
    ratio, low, high, said = canary.verdict(today, RECORDED)
    assert said == word and low <= ratio <= high
    assert np.isclose(ratio, np.median(today) / np.median(RECORDED))


def test_there_are_ten_and_each_names_a_solver_of_its_model():
    assert len(canary.CANARIES) == 10
    for _, kind, arguments in canary.CANARIES.values():
        assert kind.solvers()[arguments["solver"]] == "cuda"
        kind(seed=0, device="emulator", **arguments)


def test_seconds_are_those_of_single_epochs(monkeypatch):
    arguments = {"factors": 4, "regularization": 0.1, "solver": "sequential"}
    monkeypatch.setattr(canary, "CANARIES", {"one": ("ml-100k-synthetic", canary.ALS, arguments)})
    (seconds,) = canary.measure(epochs=3).values()
    assert len(seconds) == 3 and min(seconds) > 0


def test_the_status_says_whether_all_are_equal_or_nothing_is_recorded(repository, monkeypatch, capsys):
    assert canary.main([]) == canary.NOT_RECORDED and "no machine" in capsys.readouterr().out
    other = repository / "data/results/some-gpu"
    other.mkdir(parents=True)
    (other / "canaries.json").write_text("{}")
    assert canary.main([]) == canary.NOT_RECORDED and "on: some-gpu" in capsys.readouterr().out
    monkeypatch.setattr(canary, "measure", lambda: {"one": RECORDED.tolist()})
    assert canary.main(["--record"]) == 0
    kept = json.loads((results.folder(False) / "canaries.json").read_text())
    assert kept["seconds"] == {"one": RECORDED.tolist()} and kept["commit"]
    assert canary.main([]) == 0 and "one: 1.000 times" in capsys.readouterr().out
    monkeypatch.setattr(canary, "measure", lambda: {"one": (2 * RECORDED).tolist()})
    assert canary.main([]) == 1 and "slower" in capsys.readouterr().out
