"""benchmarks.csv: ids that stay, values from stored results alone, intervals, goals."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from gpumf_study import benchmarks, metrics, results
from gpumf_study.benchmarks import Benchmark, Stored, interval, median_interval, ratio_interval

# fmt: off
IDS = [
    "als-f100-ms", "als-f128-ms", "als-f200-ms", "als-f256-ms", "implicit-f64-ms", "implicit-f128-ms",
    "als-f100-exact-ms", "als-hugewiki-s", "als-hugewiki-4gpu-s", "als-hugewiki-4gpu-efficiency",
    "als-hugewiki-4gpu-052-s", "sgd-hugewiki-4gpu-x", "als-f100-4gpu-ms", "als-streamed-s", "sgd-k128-gups",
    "fit-als-f100-s", "fit-implicit-f64-s", "fit-sgd-k128-s", "recommend-all-s", "fold-in-p99-ms", "compile-cold-s",
    "import-s",
    "als-ml20m-d2048-s", "als-msd-d8192-s", "als-69m-59m-s", "search-netflix-100-s", "search-ml1m-1000-s",
    "search-ml1m-cpu-x", "search-ml1m-halving-cpu-x", "search-ml100k-cpu-x", "search-surprise-x", "search-implicit-x",
    "gibbs-netflix-100-s", "gibbs-ml1m-rmse", "ncf-ml1m-hr10",
    "ncf-ml1m-ndcg10", "gowalla-recall20", "gowalla-ndcg20", "gowalla-d1024-recall20",
    "gowalla-d1024-ndcg20", "gowalla-d2048-s", "ml1m-rmse", "ml1m-blend-rmse", "ml100k-rmse", "jester-mae",
    "rbm-epoch-x", "implicit-cpu-x", "libmf-cpu-x", "cumf-als-x", "cumf-sgd-x", "cu2rec-x", "joules-to-092",
    "joules-to-092-cumf", "joules-to-092-sgd",
]
# fmt: on


@pytest.fixture
def stored(monkeypatch):
    """A function that takes the frame of the only result, 'timing', or None where nothing is stored."""

    def store(frame):
        def load(name, device=None):
            if frame is None or name != "timing":
                raise results.NoResult(name)
            facts = {"commit": "abc", "gpu": "Some GPU", "cpu": "Some CPU", "cpu_count": 4}
            path = Path(f"results/{device or 'some-gpu'}/gpumf/timing.csv")
            return results.Result(path, frame, facts, live=False)

        monkeypatch.setattr(results, "load", load)

    return store


FRAME = pd.DataFrame(
    {"solver": ["fast"] * 4 + ["slow"] * 4, "epochs": [5, 10] * 4, "repeat": [0, 0, 1, 1] * 2,
     "seconds": [1.0, 1.5, 1.0, 1.7, 10.0, 30.0, 10.0, 31.0]},
)  # fmt: skip
FAST, SLOW = (Stored("timing", "seconds", {"solver": name, "epochs": 10}) for name in ("fast", "slow"))
ROW = {"id": "a", "task": "fit", "data": "some", "factors": 16, "solver": "fast", "unit": "s"}


def test_ids_stay():
    assert [row.id for row in benchmarks.ROWS] == IDS


def test_the_table_is_what_the_stored_results_give():
    assert benchmarks.path().read_text(encoding="utf-8") == benchmarks.as_csv(benchmarks.table()), (
        "run `make benchmarks`"
    )


def test_a_row_names_what_it_was_measured_on(stored):
    stored(FRAME)
    row = Benchmark(**ROW, measured=FAST, public=SLOW, program="other 1.0").row()
    assert row["value"] == pytest.approx(1.6) and row["n"] == 2
    assert (row["machine"], row["commit"], row["best_public"]) == ("Some GPU", "abc", "30.5 s (other 1.0)")
    assert Benchmark(**ROW, measured=FAST, cpu=True).row()["machine"] == "Some CPU, 4 threads"
    of_four = replace(FAST, device="some-gpu-x4")
    assert Benchmark(**ROW, measured=of_four).row()["machine"] == "4 x Some GPU"


def test_a_row_may_be_of_a_table_that_the_experiment_makes(stored, monkeypatch):
    stored(FRAME)
    module = SimpleNamespace(halves=lambda frame: frame.assign(seconds=frame.seconds / 2))
    monkeypatch.setattr(benchmarks.experiments, "module", {"timing": module}.get)
    assert replace(FAST, table="halves").values().tolist() == pytest.approx([0.75, 0.85])


def test_a_row_without_a_result_is_empty_but_for_its_goal(stored):
    stored(None)
    for measured in (None, FAST):
        row = Benchmark(**ROW, goal=2.0, measured=measured).row()
        assert row["goal"] == 2.0 and not row.keys() & {"value", "low", "high", "n", "machine", "commit"}


def test_a_selection_that_finds_nothing_is_an_error(stored):
    stored(FRAME)
    with pytest.raises(ValueError, match="timing has no 'seconds' where"):
        Stored("timing", "seconds", {"solver": "absent"}).values()
    stored(FRAME.assign(seconds=np.nan))
    with pytest.raises(ValueError, match="timing has no 'seconds' where"):
        FAST.values()


def test_values_are_per_repeat(stored):
    stored(FRAME)
    per_epoch = Stored("timing", "seconds", {"solver": "slow", "epochs": [10]}, per="epochs", scale=1e3)
    assert per_epoch.values().tolist() == [3000.0, 3100.0]
    assert Stored("timing", "seconds", {"solver": "fast"}).values().tolist() == [1.25, 1.35]


def repeats(values):
    return pd.DataFrame({"value": values, "repeat": range(len(values))})


def test_intervals_cover_the_truth_about_as_often_as_they_say():
    rng = np.random.default_rng(0)
    covered = ratios = 0
    for _ in range(1000):
        a, b = (repeats(rng.lognormal(mean, 0.05, n)) for mean, n in ((np.log(6), 4), (np.log(2), 6)))
        _, low, high, _ = interval(pd.Series(rng.normal(3, 0.1, 5)))
        covered += low <= 3 <= high
        value, low, high, n = ratio_interval(a, b, None)
        ratios += low <= 3 <= high
        assert low < value < high and n == 4
    assert 930 <= covered <= 970 and 930 <= ratios <= 975


def test_one_repeat_has_no_interval():
    one = repeats([2.0])
    found = ratio_interval(one, repeats([1.0, 1.0]), None), interval(one.value), median_interval(one, "cuda")
    for value, low, high, n in found:
        assert (value, n) == (2.0, 1) and np.isnan([low, high]).all()


def test_a_time_is_the_median_of_its_repeats_with_the_spread_between_runs(stored, monkeypatch):
    monkeypatch.setattr(benchmarks.spread, "between_runs", lambda: {"cuda": (0.01, 9), "cpu": (0.04, 6)})
    three = pd.DataFrame({"solver": "fast", "epochs": 10, "repeat": [0, 1, 2], "seconds": [1.0, 1.1, 4.0]})
    stored(three.assign(x_nnz=three.seconds))
    rows = [
        Benchmark(**ROW, measured=measured).row() for measured in (FAST, replace(FAST, column="x_nnz", per="seconds"))
    ]
    select = {"column": "seconds", "times": 1}
    found = metrics.estimate(three.assign(device="cuda"), "median", select, benchmarks.spread.between_runs())
    assert [rows[0][key] for key in ("value", "low", "high")] == pytest.approx([1.1, found.low, found.high])
    assert rows[1]["value"] == 1 and rows[1]["low"] < 0.85 < 1.15 < rows[1]["high"], "a rate has it, too"
    counted = Benchmark(**ROW, measured=replace(FAST, column="x_nnz")).row()
    assert counted["value"] == pytest.approx(6.1 / 3)


def test_a_ratio_of_times_is_that_of_a_claim(stored, monkeypatch):
    """Of medians, with the spread between runs of the device or of the solver; not of what is counted."""
    stored(FRAME.assign(x_nnz=FRAME.seconds))
    monkeypatch.setattr(benchmarks.spread, "between_runs", lambda: {"cuda": (0.01, 9), "cpu": (0.04, 6)})
    rows = [Benchmark(**ROW, measured=SLOW, over=FAST, cpu=cpu).row() for cpu in (False, True)]
    sides = {"column": "seconds", "over": {"solver": "slow"}, "under": {"solver": "fast"}}
    for row, device in zip(rows, ("cuda", "cpu"), strict=True):
        frame = FRAME[FRAME.epochs == 10].assign(device=device)
        found = metrics.estimate(frame, "ratio", sides, benchmarks.spread.between_runs())
        assert [row[key] for key in ("value", "low", "high", "n")] == pytest.approx(
            [found.value, found.low, found.high, found.n]
        )
    of_solver = {"cuda": (0.01, 9), ("cuda", "ALS", "slow"): (0.09, 9), ("cuda", "ALS", "fast"): (0.001, 9)}
    stored(FRAME.assign(x_nnz=FRAME.seconds, model="ALS"))
    monkeypatch.setattr(benchmarks.spread, "between_runs", lambda: of_solver)
    row = Benchmark(**ROW, measured=SLOW, over=FAST).row()
    frame = FRAME[FRAME.epochs == 10].assign(device="cuda", model="ALS")
    found = metrics.estimate(frame, "ratio", sides, of_solver)
    assert [row["low"], row["high"]] == pytest.approx([found.low, found.high]) and row["high"] > 1.2 * rows[0]["high"]
    counted = [replace(of, column="x_nnz") for of in (SLOW, FAST)]
    row = Benchmark(**ROW, measured=counted[0], over=counted[1]).row()
    found = metrics.estimate(FRAME[FRAME.epochs == 10], "ratio", sides)
    assert [row["low"], row["high"]] == pytest.approx([found.low, found.high])


@pytest.mark.parametrize(
    ("higher", "value", "low", "high", "outcome"),
    [(False, 9.0, 8.5, 9.5, "goal met"), (False, 4.0, 3.0, 5.0, "stretch goal met"),
     (False, 9.9, 9.0, 10.5, "inconclusive"), (False, 11.0, 10.5, 11.5, "goal missed"),
     (True, 10.5, 9.0, 12.0, "inconclusive"), (True, 9.0, 8.0, 9.9, "goal missed"),
     (True, 12.0, 11.0, 13.0, "stretch goal met"), (True, 11.0, 10.0, 12.0, "goal met"),
     (False, 9.0, np.nan, np.nan, "inconclusive"), (False, np.nan, np.nan, np.nan, "")],
)  # fmt: skip
def test_the_whole_interval_meets_or_misses_a_goal(higher, value, low, high, outcome):
    stretch = 11.0 if higher else 5.0
    assert Benchmark(**ROW, goal=10.0, stretch=stretch, higher=higher).outcome(value, low, high) == outcome
