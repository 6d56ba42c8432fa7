"""Results on disk, experiments that make them, figures that show them, and what is recorded."""

import json
import subprocess
import sys
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from gpumf import datasets, experiments, gpu, plots, results
from gpumf.experiments import elementwise_cube, first_comparison
from gpumf.gpu import nvrtc

ROOT = Path(__file__).resolve().parent.parent
EXPERIMENTS = sorted(path.stem for path in (ROOT / "src/gpumf/experiments").glob("[a-z]*.py"))
SMALL = {
    "als_hugewiki": {"data": "hugewiki-small-twin", "iterations": 1},
    "als_netflix": {"data": "ml-100k-twin", "epochs": 2},
    "ceilings": {"repeats": 2},
    "data_sets": {"data": ["ml-100k-twin"]},
    "elementwise_cube": {"sides": [64, 100], "repeats": 2},
    "first_comparison": {"data": ["ml-100k-twin"], "als_epochs": 3, "sgd_epochs": 2, "repeats": 2},
    "kernel_limits": {"data": ["ml-100k-twin"], "repeats": 2},
    "kernel_resources": {"architectures": [90], "factors": [16]},
    "picture_completion": {"reduction": 8, "factors": [4], "regularizations": [3.0, 5.0], "epochs": 5},
    "race_demonstration": {"groups": [1, 4], "seeds": 3},
    "sgd_conflicts": {"data": ["ml-100k-twin"], "at_once": [2, 8], "draws": 100, "seeds": 1, "traced": 50},
    "sgd_ml100k": {"data": "ml-100k-twin", "regularization": [0.1], "epochs": 5},
    "sgd_schemes": {"data": ["ml-100k-twin"], "epochs": 2},
    "rating_counts": {"data": ["ml-100k-twin"], "points": 20},
    "thesis_threads": {"data": "ml-100k-twin", "threads": [16], "blocks": [2]},
}


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """Results written by a test go here."""
    monkeypatch.setattr(results, "repository", lambda: tmp_path)
    monkeypatch.delenv("GPUMF_RECORD", raising=False)
    return tmp_path


NEEDS = {
    "als_hugewiki": partial(gpu.why_unavailable, "host"),
    "kernel_resources": nvrtc.why_unavailable,
    "race_demonstration": partial(gpu.why_unavailable, "host"),
    "race_steps": partial(gpu.why_unavailable, "host"),
    "thesis_threads": lambda: None if gpu.available() else gpu.why_unavailable("host"),
    "sgd_conflicts": partial(gpu.why_unavailable, "host"),
}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_stores_a_tidy_frame_with_provenance(name, repository):
    if name in NEEDS and (why := NEEDS[name]()):
        pytest.skip(why)
    stored = experiments.run(name, "quick", **SMALL.get(name, {}))
    loaded = results.load(name, results.device_name(), live=True)
    assert stored.live and loaded.live
    pd.testing.assert_frame_equal(loaded.frame, stored.frame, check_dtype=False, rtol=1e-6)
    assert len(loaded.frame) and not loaded.frame.isna().all(axis=None)
    facts = loaded.provenance
    assert facts["experiment"] == name and facts["parameters"]["profile"] == "quick"
    assert facts["duration_seconds"] > 0 and facts["cpu_count"] and facts["kernels_sha256"]
    used = np.atleast_1d(SMALL.get(name, {}).get("data", [])).tolist()
    assert [d["name"] for d in facts["datasets"]] == used and all(len(d["sha256"]) == 64 for d in facts["datasets"])
    assert set(import_module(f"gpumf.experiments.{name}").PROFILES) == {"quick", "full"}


def test_recording_goes_to_another_folder(repository, monkeypatch):
    monkeypatch.setenv("GPUMF_RECORD", "1")
    assert not experiments.run("theoretical_flops").live
    assert (repository / "data/results" / results.device_name() / "theoretical_flops.csv").exists()
    with pytest.raises(results.NoResult, match="no live result"):
        results.load("theoretical_flops", results.device_name(), live=True)


def test_where_tells_live_from_recorded(repository):
    frame = pd.DataFrame({"a": [1]})
    live = results.store("x", frame, {}, datetime.now(UTC), live=True)
    recorded = results.store("x", frame, {}, datetime.now(UTC), live=False)
    assert live.where.startswith("Measured live") and recorded.where.startswith("Recorded")
    assert str(datetime.now(UTC).year) in live.where


def test_unknown_parameters_and_results_are_refused(repository):
    with pytest.raises(TypeError, match="no parameters"):
        experiments.run("ceilings", repeat=3)
    with pytest.raises(results.NoResult, match="make record"):
        results.load("theoretical_flops", "h100")


def test_the_cube_is_right(device, repository):
    a = np.random.default_rng(0).random((70, 70), np.float32)
    if device == "cpu":
        timings = elementwise_cube._cpu_timings(a, 1)
        outputs = []
        for cube in (elementwise_cube.machine.cube_one_core, elementwise_cube.machine.cube_all_cores):
            outputs.append(np.full_like(a, np.nan))
            cube(a, outputs[-1])
    else:
        launcher = gpu.device(device)
        timings, outputs = elementwise_cube._kernel_timings(launcher, a, 1), []
        for access in ("coalesced", "strided"):
            result = launcher.array(np.full_like(a, np.nan))
            elementwise_cube.cube(launcher, access)(launcher.array(a), result)
            outputs.append(launcher.to_numpy(result))
    assert all((seconds > 0).all() for *_, seconds in timings)
    for output in outputs:
        np.testing.assert_allclose(output, a.astype(np.float64) ** 3, rtol=1e-6)


def test_summary_counts_epochs_and_seconds_to_the_threshold():
    def history(kernel, device, maes, repeat):
        return pd.DataFrame(
            {
                "data": "jester-1",
                "model": "ALS",
                "kernel": kernel,
                "device": device,
                "repeat": repeat,
                "epoch": range(len(maes)),
                "seconds": np.arange(len(maes)) * (4.0 if device == "cpu" else 0.5),
                "rmse": maes,
                "mae": maes,
            }
        )

    frame = pd.concat(
        [
            history("sequential", "cpu", [2.0, 0.8, 0.70, 0.69], 0),
            history("thesis_shared", "cuda", [2.0, 0.8, 0.70, 0.69], 0),
            history("parallel", "cpu", [2.0, 0.8, 0.75, 0.72], 0),
        ]
    )
    table = first_comparison.summary(frame).set_index("kernel")
    assert (
        table.loc["sequential", "epochs_to_threshold"] == 2 and table.loc["sequential", "seconds_to_threshold"] == 8
    )
    assert table.loc["thesis_shared", "speedup"] == 8
    assert table.loc["parallel"].isna()[["seconds_to_threshold", "speedup"]].all()
    assert table.loc["parallel", "best_mae"] == 0.72


def test_findings_compare_at_the_largest_side():
    rows = []
    for side, one, gpu_alone, moved in ((8, 1.0, 2.0, 3.0), (16, 10.0, 1.0, 5.0)):
        for device, access, transfer, seconds in (
            ("one core", "coalesced", False, one),
            ("all cores", "coalesced", False, one / 2),
            ("gpu", "coalesced", False, gpu_alone),
            ("gpu", "strided", False, 4 * gpu_alone),
            ("gpu", "coalesced", True, moved),
            ("gpu", "strided", True, moved),
        ):
            limit = np.nan if transfer else 0.5
            rows += [(side, device, access, transfer, k, seconds, limit, limit / seconds) for k in range(3)]
    columns = ["side", "device", "access", "transfer", "repeat", "seconds", "limit_seconds", "fraction_of_limit"]
    found = elementwise_cube.findings(pd.DataFrame(rows, columns=columns))
    expected = {"side": 16, "all_cores": 2, "gpu": 10, "gpu_transfer": 2, "crossover": 16, "strided": 4}
    assert {key: found[key] for key in expected} == expected
    assert found["strided_transfer"] == 1 and found["fraction"] == 0.5


def test_threads_are_drawn_as_speedups_over_one_half_warp(repository):
    columns = ["kernel", "multiprocessor_shared_bytes", "threads", "shared_bytes"]
    columns += ["active_blocks_computed", "active_blocks_driver", "seconds"]
    slower = {"thesis_shared": 1, "thesis_hybrid": 2, "thesis_global": 4}
    rows = [
        (kernel, 48 << 10, threads, 9216, 5, np.nan, times * 128 / threads)
        for kernel, times in slower.items()
        for threads in (16, 512)
    ]
    frame = pd.DataFrame(rows, columns=columns)
    figure = plots.thesis_threads(results.store("thesis_threads", frame, {}, datetime.now(UTC), live=True))
    speedups = [list(line.get_ydata()) for line in figure.axes[0].lines]
    assert speedups == [[1, 32], [0.5, 16], [0.25, 8]]
    assert all(axis.get_xlabel() and axis.get_ylabel() for axis in figure.axes)


# What the repository holds


# reach.csv is computed from the others; test_claims.py looks at it.
RECORDED = [path for path in sorted((ROOT / "data/results").glob("*/*.csv")) if path.stem != "reach"]


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_recorded_results_say_where_they_come_from(path):
    result = results.load(path.stem, path.parent.name)
    facts = result.provenance
    assert len(result.frame) and facts["commit"] and facts["clean"], "record from a clean commit"
    known = subprocess.run(["git", "-C", ROOT, "cat-file", "-t", facts["commit"]], capture_output=True, text=True)
    assert known.stdout.strip() == "commit"
    for key in ("gpu", "cpu", "cuda_driver", "cupy", "packages", "parameters", "datasets", "started", "command"):
        assert key in facts, key


def test_recorded_sanitizer_runs_found_nothing():
    for path in (ROOT / "data/results").glob("*/gpu_sanitize.json"):
        for tool, outcome in json.loads(path.read_text())["tools"].items():
            assert outcome["tests"] and outcome["exit_status"] == 0 and not outcome["findings"], (path, tool)


def test_recorded_gpu_tests_passed():
    for path in (ROOT / "data/results").glob("*/gpu_tests.json"):
        facts = json.loads(path.read_text())
        assert facts["passed"] > 0 and facts["failed"] == 0, path


@pytest.mark.parametrize("path", sorted((ROOT / "figures").glob("*.svg")), ids=lambda path: path.stem)
def test_kept_figures_are_of_the_recorded_results(path):
    (name,) = [name for name in EXPERIMENTS if path.stem.startswith(name)]
    text = path.read_text(encoding="utf-8")
    assert results.load(name).where in text or "not measured" in text, "run the notebook again: its result is newer"


def _read(path):
    return pd.read_csv(path), json.loads(path.with_suffix(".json").read_text())


def test_readme_is_current():
    assert subprocess.run([sys.executable, ROOT / "book/readme.py", "--check"]).returncode == 0, "run `make readme`"


@pytest.mark.parametrize(
    ("draw", "name"),
    [
        (plots.theoretical_flops, "theoretical_flops"),
        (plots.elementwise_cube, "elementwise_cube"),
        (plots.kernel_limits, "kernel_limits"),
        (lambda result: plots.rating_counts(result, [("ml-100k", "ml-100k-twin")]), "rating_counts"),
    ],
)
def test_figures_say_where_and_have_labelled_axes(draw, name):
    figure = draw(results.Result(name, *_read(ROOT / f"data/results/h100/{name}.csv"), live=False))
    assert isinstance(figure, Figure)
    assert "Recorded on" in figure.get_supxlabel() or "not measured" in figure.get_supxlabel()
    for axis in figure.axes:
        assert axis.get_xlabel() and axis.has_data()


# What the real sets must give


def real(name):
    if not datasets.names().loc[name, "present"]:
        pytest.skip(f"{name} is not on this machine; set GPUMF_DATA")
    return datasets.load(name).split(0.2, seed=0)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)], indirect=True)
@pytest.mark.parametrize(
    ("name", "regularization", "metric", "reach"),
    [("jester-1", 0.07, "mae", 0.695), ("ml-100k", 0.1, "rmse", 0.95)],
)
def test_als_on_real_ratings(device, name, regularization, metric, reach):
    from gpumf import ALS

    train, test = real(name)
    fitted = ALS(16, regularization, device=device).fit(train, 20, test)
    reference = ALS(16, regularization, kernel="sequential").fit(train, 20, test)
    assert fitted.history[metric].iloc[-1] <= reach
    assert abs(fitted.history[metric] - reference.history[metric]).max() < 1e-3
