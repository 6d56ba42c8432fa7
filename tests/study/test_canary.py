"""Canary timings: what counts as equal, what fails, and what is said where nothing can be compared."""

import json

import numpy as np
import pytest

from gpumf_study import canary, results

RECORDED = [0.99, 1.0, 1.01]


@pytest.mark.parametrize(
    ("factor", "spread", "word"),
    [(1.0, 0.01, "equal"), (1.02, 0.01, "equal"), (0.98, 0.01, "equal"), (1.2, 0.01, "slower"), (0.8, 0.01, "faster"),
     (1.05, 0.01, "unclear"), (1.0, 0.1, "unclear")],
)  # fmt: skip
def test_equal_is_an_interval_within_the_margin(factor, spread, word):
    ratio, low, high, said = canary.verdict(factor * np.exp([-spread, 0, spread]), RECORDED)
    assert said == word and low <= ratio <= high
    assert np.isclose(ratio, factor, rtol=1e-4)


def test_the_interval_is_that_of_student_with_the_variance_of_both():
    """Of logarithms -0.01, 0, 0.01 twice: a standard error of 0.01 sqrt(2/3), and 4 degrees of freedom."""
    logarithms = np.exp([-0.01, 0, 0.01])
    _, low, high, _ = canary.verdict(logarithms, logarithms)
    assert np.isclose(np.log(high), 2.7764451 * 0.01 * np.sqrt(2 / 3)) and np.isclose(low * high, 1)


def test_there_are_ten_and_each_names_a_solver_of_its_model():
    assert len(canary.CANARIES) == 10
    for _, kind, arguments in canary.CANARIES.values():
        assert kind.solvers()[arguments["solver"]] == "cuda"
        kind(seed=0, device="emulator", **arguments)


@pytest.fixture
def one(monkeypatch):
    """A single canary, of the CPU."""
    arguments = {"factors": 4, "regularization": 0.1, "solver": "sequential"}
    monkeypatch.setattr(canary, "CANARIES", {"one": ("ml-100k-synthetic", canary.ALS, arguments)})


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.setattr(canary.backends, "why_unavailable", lambda: None)


def test_without_a_gpu_one_line_says_so(monkeypatch, capsys):
    monkeypatch.setattr(canary.backends, "why_unavailable", lambda: "no CUDA device was found")
    assert canary.main(["--record"]) == canary.NOT_RECORDED
    assert capsys.readouterr().out == "The canaries time kernels of a GPU: no CUDA device was found.\n"


def test_a_process_prints_the_median_of_its_epochs(one, gpu, monkeypatch, capsys):
    seconds = {}

    def fit(model, ratings, epochs):
        seconds[epochs] = np.cumsum(np.random.default_rng(epochs).random(epochs + 1))
        model.history = type("History", (), {"seconds": seconds[epochs]})
        return model

    monkeypatch.setattr(canary.ALS, "fit", fit)
    assert canary.main(["--once"]) == 0
    assert list(seconds) == [2, canary.EPOCHS], "the first fit is to compile and to warm up"
    assert json.loads(capsys.readouterr().out) == {"one": np.median(np.diff(seconds[canary.EPOCHS]))}


def test_every_value_is_of_a_process_of_its_own(monkeypatch):
    values = {"a": [1.0, 2.0, 3.0, 4.0, 5.0], "b": [6, 7, 8, 9, 10]}
    printed = (json.dumps(dict(zip(values, of_one, strict=True))) for of_one in zip(*values.values(), strict=True))

    def run(command, check, **_):
        assert command[-3:] == ["-m", "gpumf_study.canary", "--once"] and check
        return type("Done", (), {"stdout": next(printed)})

    monkeypatch.setattr(canary.subprocess, "run", run)
    assert canary.in_processes() == values and next(printed, None) is None


def test_the_status_says_whether_all_are_equal_or_nothing_is_recorded(repository, gpu, monkeypatch, capsys):
    assert canary.main([]) == canary.NOT_RECORDED and "no machine" in capsys.readouterr().out
    other = repository / "data/results/some-gpu"
    other.mkdir(parents=True)
    (other / "canaries.json").write_text("{}")
    assert canary.main([]) == canary.NOT_RECORDED and "on: some-gpu" in capsys.readouterr().out
    monkeypatch.setattr(canary, "in_processes", lambda: {"one": RECORDED})
    assert canary.main(["--record"]) == 0
    kept = json.loads((results.folder(False) / "canaries.json").read_text())
    assert kept["seconds"] == {"one": RECORDED} and kept["commit"]
    assert canary.main([]) == 0 and "one: 1.000 times" in capsys.readouterr().out
    monkeypatch.setattr(canary, "in_processes", lambda: {"one": [2 * seconds for seconds in RECORDED]})
    assert canary.main([]) == 1 and "slower" in capsys.readouterr().out
