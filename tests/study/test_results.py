"""Results on disk, experiments that make them, and figures that show them."""

from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from gpumf import ALS, ImplicitALS, backends
from gpumf.ratings import DataError, dataset_names, load_dataset
from gpumf_study import experiments, results, schema
from gpumf_study import figure_style as style
from gpumf_study.experiments import __main__ as command_line
from gpumf_study.experiments import _kept, _limits
from gpumf_study.experiments.cumf import als_versions
from gpumf_study.experiments.gpumf import kernel_counters
from gpumf_study.experiments.thesis import elementwise_cube
from support import ragged_ratings

EXPERIMENTS = list(experiments.names())


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """Results written by a test go here."""
    monkeypatch.setattr(results, "repository", lambda: tmp_path)
    monkeypatch.delenv("GPUMF_RECORD", raising=False)
    return tmp_path


@cache
def ceilings(device, measured=_limits.ceilings, **_):
    """What a device reaches at best, roughly, and once for all experiments."""
    return _limits.cpu_ceilings(256, 1) if device == "cpu" else measured(device)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_runs_is_stored_with_its_provenance_summed_up_and_drawn(name, repository, monkeypatch):
    experiment = experiments.module(name)
    monkeypatch.setattr(_limits, "ceilings", ceilings)
    if name == "register_bounds":  # epochs of all versions
        whole = experiment.load_ratings
        monkeypatch.setattr(experiment, "load_ratings", lambda data: whole(data).select(slice(5000)))
    assert set(experiment.PROFILES) == {"smoke", "quick", "full"}
    if why := experiments.why_unavailable(name):
        pytest.skip(why)
    try:
        stored = experiments.run(name, "smoke")
    except backends.DeviceError as error:
        if "ERR_NVGPUCTRPERM" not in str(error):  # the right to read hardware counters, which many machines keep back
            raise
        pytest.skip(str(error))
    loaded = results.load(name, results.device_name(), live=True)
    assert stored.live and loaded.live and loaded.source == experiments.names()[name]
    pd.testing.assert_frame_equal(loaded.frame, stored.frame, check_dtype=False, rtol=1e-6)
    assert len(loaded.frame) and not loaded.frame.isna().all(axis=None)
    facts, parameters = loaded.provenance, experiment.PROFILES["smoke"]
    assert facts["experiment"] == name and facts["parameters"]["profile"] == "smoke"
    assert facts["duration_seconds"] > 0 and facts["cpu_count"] and facts["kernels_sha256"]
    used = parameters.get("data", [])
    used = [used] if isinstance(used, str) else list(dict.fromkeys(used))
    recorded = list(dict.fromkeys(d["name"].split(", ")[0] for d in facts["datasets"]))  # or a part of one
    assert recorded == used and all(len(d["sha256"]) == 64 for d in facts["datasets"])
    assert stored.frame.columns.is_unique
    # What is made of a result on disk is what is made of a fresh one.
    if hasattr(experiment, "summary"):
        assert len(experiment.summary(loaded.frame))
    if hasattr(experiment, "figure"):
        figure = style.save(experiment.figure(loaded.frame), loaded)
        assert "Measured live" in figure.get_supxlabel() or "not measured" in figure.get_supxlabel()
        for axis in figure.axes:
            assert not axis.get_visible() or (axis.get_xlabel() and axis.has_data()), name


def test_recording_goes_to_another_folder(repository, monkeypatch):
    monkeypatch.setenv("GPUMF_RECORD", "1")
    assert not experiments.run("theoretical_flops").live
    assert (repository / "data/results" / results.device_name() / "thesis/theoretical_flops.csv").exists()
    with pytest.raises(results.NoResult, match="no live result"):
        results.load("theoretical_flops", results.device_name(), live=True)


@pytest.mark.parametrize(
    "profile", [{"data": ["ml-100k-synthetic", "jester-1"]}, {"data": "jester-1"}, {"rbm": {"data": "jester-1"}}]
)
def test_sets_are_read_before_anything_is_measured(profile, repository, monkeypatch, tmp_path):
    monkeypatch.setenv("GPUMF_DATA", str(tmp_path / "sets"))
    (tmp_path / "sets" / "jester").mkdir(parents=True)
    (tmp_path / "sets" / "jester" / "jester-data-1.xls").write_bytes(b"no spreadsheet")
    ran = []
    module = SimpleNamespace(PROFILES={"quick": profile}, CLAIMS=[], run=lambda **_: ran.append(True))
    monkeypatch.setattr(experiments, "module", lambda name: module)
    with pytest.raises(DataError, match="jester-data-1"):
        experiments.run("speedups")
    assert not ran


def test_where_tells_live_from_recorded(repository):
    frame = pd.DataFrame({"data": ["a"], "seconds": [1.0]})
    live = results.store("x", frame, {}, results.provenance(), live=True, source="thesis")
    recorded = results.store("x", frame, {}, results.provenance(), live=False, source="thesis")
    assert live.where.startswith("Measured live") and recorded.where.startswith("Recorded")
    assert str(datetime.now(UTC).year) in live.where
    several = replace(recorded, path=recorded.path.parents[2] / "nvidia-h200-x4" / "thesis" / "x.csv")
    assert several.where.startswith("Recorded on 4 x ")


@pytest.mark.parametrize(
    ("name", "gpus", "folder"),
    [("NVIDIA H100 80GB HBM3", 1, "nvidia-h100-80gb-hbm3"), ("NVIDIA H200", None, "nvidia-h200"),
     ("NVIDIA H100 PCIe", 1, "nvidia-h100-pcie"),
     ("NVIDIA H100 NVL", 1, "nvidia-h100-nvl"), ("NVIDIA H200", 4, "nvidia-h200-x4"),
     ("NVIDIA GeForce GTX 1080 Ti", 1, "nvidia-geforce-gtx-1080-ti"),
     ("NVIDIA GeForce RTX 4070", 1, "nvidia-geforce-rtx-4070"),
     ("NVIDIA GeForce RTX 4070 Ti", 1, "nvidia-geforce-rtx-4070-ti"), ("Quadro RTX 6000", 1, "quadro-rtx-6000"),
     ("NVIDIA A100-SXM4-40GB (MIG 1g.5gb)", 1, "nvidia-a100-sxm4-40gb-mig-1g-5gb")],
)  # fmt: skip
def test_results_go_to_a_folder_of_the_devices_whole_name(name, gpus, folder, repository, monkeypatch):
    fake = SimpleNamespace(facts={"gpu": name})
    monkeypatch.setattr(results.backends, "available", lambda: True)
    monkeypatch.setattr(results.backends, "device", lambda: fake)
    frame = pd.DataFrame({"data": ["a"], "seconds": [1.0]})
    frame.attrs |= {} if gpus is None else {"gpus": gpus}
    results.store("x", frame, {}, results.provenance(), live=False, source="cumf")
    assert (repository / "data/results" / folder / "cumf/x.csv").exists()
    assert results.load("x", folder).provenance["gpu"] == name


def test_unknown_parameters_and_results_are_refused(repository):
    with pytest.raises(TypeError, match="no parameters"):
        experiments.run("ceilings", repeat=3)
    with pytest.raises(results.NoResult, match="make record"):
        results.load("theoretical_flops", results.REFERENCES[0])


def test_the_cube_is_right(device, repository):
    a = np.random.default_rng(0).random((70, 70), np.float32)
    if device == "cpu":
        timings = elementwise_cube._cpu_timings(a, 1)
        outputs = []
        for cube in (elementwise_cube.cube_one_core, elementwise_cube.cube_all_cores):
            outputs.append(np.full_like(a, np.nan))
            cube(a, outputs[-1])
    else:
        launcher = backends.device(device)
        timings, outputs = elementwise_cube._kernel_timings(launcher, a, 1), []
        for access in ("coalesced", "strided"):
            result = launcher.array(np.full_like(a, np.nan))
            elementwise_cube.cube(launcher, access)(launcher.array(a), result)
            outputs.append(launcher.to_numpy(result))
    assert all((seconds > 0).all() for *_, seconds in timings)
    for output in outputs:
        np.testing.assert_allclose(output, a.astype(np.float64) ** 3, rtol=1e-6)


def test_the_least_work_of_the_phases_is_that_of_the_half_sweep_and_the_matrices():
    rows, columns, nnz, f = 30, 20, 200, 8
    bytes_, flops = _limits.side_update(rows, columns, nnz, f)
    assert bytes_ == 8 * nnz + 8 * 31 + 4 * 8 * 50 and flops == 200 * 88 + 30 * (8**3 / 3 + 128)
    phases = _limits.phases(rows, columns, nnz, f)
    through_memory = 2 * 4 * rows * f * (f + 1) // 2 + 3 * 4 * f * rows - 4 * f * rows
    assert phases["get_hermitian"][0] + phases["solve"][0] == bytes_ + through_memory
    assert phases["get_hermitian"][1] + phases["solve"][1] == pytest.approx(flops)
    apart = _limits.phases(rows, columns, nnz, f, fused_bias=False)
    assert apart["get_hermitian"][1] + apart["get_bias"][1] == phases["get_hermitian"][1]
    half = _limits.phases(rows, columns, nnz, f, entry_bytes=2)
    assert phases["solve"][0] - half["solve"][0] == 2 * rows * f * (f + 1) // 2
    implicit = _limits.side_update(rows, columns, nnz, f, implicit=True)
    assert implicit == (bytes_, flops + phases["get_gram"][1])


def test_an_approximate_solution_counts_no_more_than_an_exact_one():
    exact, two, many = (_limits.side_update(10, 10, 0, 100, steps)[1] for steps in (None, 2, 100))
    assert two == 10 * 3 * 2 * 100**2 and many == exact


def test_a_limit_is_the_longer_time_at_the_rate_of_the_units_that_do_the_work():
    ceilings = {"copy_bytes_per_second": 10.0, "fp32_flops": 100.0, "fp16_flops": 1000.0}
    assert _limits.limit_seconds(20, 100, ceilings, "cumf_lu") == 2
    assert _limits.limit_seconds(20, 1000, ceilings, "cumf_lu") == 10
    assert {_limits.limit_seconds(10, 2000, ceilings, f"ALS {kernel}") for kernel in _limits.HALF_PRODUCTS} == {2}


def test_the_versions_of_cumf_are_timed_by_phases_and_loads(host):
    train, frames = ragged_ratings(seed=1), []
    ceilings = {"copy_bytes_per_second": 1e12, "fp32_flops": 1e12, "fp16_flops": 1e13}
    for model in (
        ALS(5, solver="cumf_cg_fp16", device="emulator", biases=False),
        ImplicitALS(5, solver="cumf_lu", device="emulator"),
    ):
        for load in als_versions.LOADS:
            frames.append(als_versions._timings(model, train, load, ceilings, 2))
    frame = schema.validated(pd.concat(frames, ignore_index=True))
    hermitian = frame[frame.x_step == "users get_hermitian"]
    assert (
        hermitian.groupby(["solver", "variant"]).size().eq(2).all()
        and hermitian.groupby("solver").variant.nunique().eq(3).all()
    )
    others = frame[~frame.x_step.str.endswith("get_hermitian")]
    assert (others.variant == "coalesced").all() and others.groupby(["solver", "x_step"]).size().eq(2).all()
    explicit, implicit = (set(others.x_step[others.model == name]) for name in ("ALS", "ImplicitALS"))
    assert {"users", "items", "iteration", "users get_bias", "items solve"} <= explicit
    assert implicit - explicit == {"users get_gram", "items get_gram"}
    assert (frame.x_cg_steps.notna() == (frame.solver == "cumf_cg_fp16")).all()
    assert (frame.x_limit_seconds > 0).all() and frame.x_gather_seconds[frame.x_step == "users solve"].isna().all()


COUNTED = """==PROF== Connected to process 12
==PROF== Profiling "tensor_core" - 0: 0%....100% - 9 passes
"ID","Process ID","Kernel Name","gpu__time_duration.sum","dram__bytes_read.sum","sm__inst_executed_pipe_tensor.avg.\
pct_of_peak_sustained_active","sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active","smsp__average_warps_\
issue_stalled_long_scoreboard_per_issue_active.ratio","smsp__average_warps_issue_stalled_selected_per_issue_active.\
ratio","launch__waves_per_multiprocessor"
"","","","ns","byte","%","%","inst","inst",""
"0","12","tensor_core(Segment *, int)","1,234","5,000,000","12.5","40.25","2.5","1","3"
"1","12","get_hermitian","99","70","n/a","","0.5","1","3"
"2","12","get_hermitian","98","71","n/a","","0.5","1","3"
"3","12","tensor_core(Segment *, int)","2,345","6","1","2","1.5","1","3"
"""


def test_counters_are_read_from_nsight_computes_page():
    frame = kernel_counters.parse(COUNTED)
    values = frame.set_index(["x_kernel", "x_side", "metric"]).value.sort_index()
    users, items = values["tensor_core", "users"], values["tensor_core", "items"]
    assert dict(users) == {
        "duration": 1234, "DRAM bytes read": 5e6, "tensor pipe": 40.25, "stalled: long_scoreboard": 2.5,
    }  # fmt: skip
    assert items["duration"] == 2345 and items["tensor pipe"] == 2
    assert (
        values["get_hermitian", "items", "duration"] == 98 and "tensor pipe" not in values["get_hermitian", "users"]
    )
    assert set(frame.x_unit[frame.metric == "duration"]) == {"ns"}


def test_counters_of_several_processes_give_medians_and_a_rate_each():
    rows = [
        ("solve_cg", side, metric, value, repeat)
        for repeat, scale in enumerate([1, 2, 4])
        for side, factor in (("users", 1), ("items", 100))
        for metric, value in (
            ("duration", 1e9 / scale * factor), ("DRAM bytes read", 6e9), ("DRAM bytes written", 2e9),
        )
    ]  # fmt: skip
    frame = pd.DataFrame(rows, columns=["x_kernel", "x_side", "metric", "value", "repeat"])
    frame = frame.assign(data="netflix-synthetic", factors=100, x_copy_bytes_per_second=16e9)
    assert kernel_counters.summary(frame)["solve_cg", "users"]["duration"] == 0.5e9
    assert kernel_counters.of_dram(frame).set_index("repeat").of_copy.to_dict() == {0: 0.5, 1: 1, 2: 2}


def test_without_nsight_compute_one_sentence_says_what_is_missing(monkeypatch):
    monkeypatch.setattr(kernel_counters.backends, "available", lambda: True)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(backends.DeviceError, match="ncu was not found"):
        kernel_counters.run("ml-100k-synthetic", 16, 1)


def test_an_experiment_runs_from_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(results, "repository", lambda: tmp_path)
    monkeypatch.setenv("GPUMF_RECORD", "")
    assert command_line.main(["data_sets", 'data=["ml-100k-synthetic"]']) == 0
    assert "Measured live" in capsys.readouterr().out
    stored = results.load("data_sets", results.device_name(), live=True)
    assert stored.live and stored.provenance["parameters"] == {"data": ["ml-100k-synthetic"], "profile": "quick"}
    for wrong in (["data_set"], ["data_sets", "data"], ["data_sets", "sets=[]"]):
        with pytest.raises(SystemExit):
            command_line.main(wrong)
    assert "has no parameters ['sets']" in capsys.readouterr().err
    assert command_line.main(["rating_counts", "--profile", "smoke", "points=7"]) == 0, "options stand anywhere"
    assert results.load("rating_counts", results.device_name(), live=True).provenance["parameters"]["points"] == 7
    with pytest.raises(SystemExit):
        command_line.main(["rating_counts", "points=few"])
    assert "points must be a whole number above 0" in capsys.readouterr().err


@pytest.fixture
def recordable(tmp_path, monkeypatch):
    """The folder that recordings go to, from a tree without changes; and what is said of it."""
    monkeypatch.setattr(results, "repository", lambda: tmp_path)
    monkeypatch.setenv("GPUMF_RECORD", "")
    facts = results.provenance() | {"clean": True}
    monkeypatch.setattr(results, "provenance", lambda: dict(facts))
    return facts


def test_a_recording_is_of_the_whole_profile_and_a_clean_tree(recordable, capsys):
    for changed in (["--profile", "smoke"], ["--profile", "full", "rows=3"], []):
        with pytest.raises(SystemExit, match="2"):
            command_line.main(["theoretical_flops", "--record", *changed])
    recordable["clean"] = False
    with pytest.raises(SystemExit, match="1"):
        command_line.main(["theoretical_flops", "--profile", "full", "--record"])
    assert "Commit first" in capsys.readouterr().err and not (results.repository() / "data").exists()
    recordable["clean"] = True
    assert command_line.main(["theoretical_flops", "--profile", "full", "--record"]) == 0
    said = capsys.readouterr().out
    assert f"Recording theoretical_flops on {results.device_name()}.\n" in said and "Recorded on" in said
    assert not results.load("theoretical_flops", results.device_name()).live


@pytest.mark.parametrize(
    ("name", "recorded", "lacks"),
    [
        ("lost_updates", ["jester-1", "douban-synthetic"], "the files of jester-1 are not there"),
        ("further_features", ["ml-100k"], "the files of ml-100k are not there"),
    ],
)
def test_a_recording_of_real_ratings_is_not_replaced_by_one_without(
    recordable, capsys, monkeypatch, name, recorded, lacks
):
    provenance = {"datasets": [{"name": one} for one in recorded], "duration_seconds": 1.0}
    monkeypatch.setattr(results, "recorded", lambda name: SimpleNamespace(provenance=provenance, device="cpu"))
    monkeypatch.setenv("GPUMF_DATA", str(results.repository()))
    with pytest.raises(SystemExit, match="1"):
        command_line.main([name, "--profile", "full", "--record"])
    said = capsys.readouterr()
    assert said.err == f"The last recording has data that this one would not have: {lacks}.\n"
    assert not said.out and not (results.repository() / "data").exists()


@pytest.mark.parametrize(
    ("named", "taken"),
    [
        (["ml-latest-small", "ml-100k"], ["ml-latest-small"]),
        (["ml-100k", "ml-100k-synthetic"], ["ml-100k-synthetic"]),
    ],
)
def test_what_stands_in_for_two_data_sets_is_trained_on_once(repository, monkeypatch, named, taken):
    monkeypatch.setenv("GPUMF_DATA", str(repository))
    result = experiments.run("als_sgd_rbm", "smoke", data=named)
    assert result.provenance["parameters"]["data"] == named and set(result.frame.data) == {"ml-100k-synthetic"}
    assert experiments._distinct({"data": named, "repeats": 2}) == {"data": taken, "repeats": 2}


@pytest.mark.parametrize(
    ("error", "status", "says"),
    [
        (ImportError("No module named 'x'"), 2, "data_sets: No module named 'x'\n"),
        (backends.DeviceError("no GPU"), 2, "data_sets: no GPU\n"),
        (KeyboardInterrupt(), 130, "Interrupted. Nothing is kept.\n"),
        (_kept.Unfinished("1 of 8 runs"), _kept.UNFINISHED, "data_sets: 1 of 8 runs\n"),
    ],
)
def test_what_an_experiment_lacks_is_said_in_one_line(monkeypatch, capsys, error, status, says):
    monkeypatch.setattr(experiments, "run", lambda *given, **changes: (_ for _ in ()).throw(error))
    with pytest.raises(SystemExit, match=str(status)):
        command_line.main(["data_sets"])
    assert capsys.readouterr().err == says


# What the repository holds


# What the real sets must give


def real(name):
    if not dataset_names().loc[name, "present"]:
        pytest.skip(f"{name} is not on this machine; set GPUMF_DATA")
    return load_dataset(name).split(0.2, seed=0)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)], indirect=True)
@pytest.mark.parametrize(
    ("name", "regularization", "metric", "reach"),
    [("jester-1", 0.07, "mae", 0.695), ("ml-100k", 0.1, "rmse", 0.95)],
)
def test_als_on_real_ratings(device, name, regularization, metric, reach):
    from gpumf import ALS

    train, test = real(name)
    fitted = ALS(16, regularization, device=device, biases=False).fit(train, 20, test)
    reference = ALS(16, regularization, solver="sequential", biases=False).fit(train, 20, test)
    assert fitted.history[metric].iloc[-1] <= reach
    assert abs(fitted.history[metric] - reference.history[metric]).max() < 1e-3


def test_numbers_are_stored_with_nine_digits_in_lines_of_one_end(repository):
    """And counts with all of theirs."""
    frame = pd.DataFrame({"seconds": [1 / 3, 1e-9 / 7, 2.0, 3_101_144_313.0], "data": ["a", "b", "c", "d"]})
    stored = results.store("x", frame, {}, results.provenance(), live=True, source="gpumf")
    assert stored.path.read_bytes() == b"data,seconds\na,0.333333333\nb,1.42857143e-10\nc,2\nd,3101144313\n"
    infinite = results.store("y", frame.assign(seconds=np.inf), {}, results.provenance(), live=True, source="gpumf")
    assert infinite.path.read_text().splitlines()[1] == "a,inf"


@pytest.mark.parametrize("on_gpu", [True, False])
@pytest.mark.parametrize("missing", [None, "no compiler"])
def test_kernels_are_there_on_a_gpu_or_on_the_processor(on_gpu, missing, monkeypatch):
    monkeypatch.setattr(backends, "available", lambda: on_gpu)
    monkeypatch.setattr(backends, "why_unavailable", lambda name: missing if name == "emulator" else "no GPU")
    assert experiments.kernels_unavailable() == (None if on_gpu else missing)
    assert experiments.usable_devices() == ({"cpu", "cuda"} if on_gpu else {"cpu"})


@pytest.mark.parametrize(
    ("file", "damage"),
    [("csv", lambda content: content[: len(content) // 2]), ("csv", lambda content: content[:-1]),
     ("csv", lambda content: b"".join(content.splitlines(keepends=True)[:-1])), ("csv", lambda content: b""),
     ("json", lambda content: content[: len(content) // 2]), ("json", lambda content: b"[]"),
     ("json", lambda content: b"\xff")],
)  # fmt: skip
@pytest.mark.parametrize("live", [True, False])
def test_a_damaged_result_is_named_and_draws_nothing(file, damage, live, repository):
    frame = pd.DataFrame({"repeat": [0, 1, 2], "seconds": [1.5, 2.5, 3.5]})
    stored = results.store("x", frame, {}, results.provenance(), live=live, source="thesis")
    path = stored.path.with_suffix(f".{file}")
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=r"thesis/x\.csv.*" + ("measured again" if live else "git checkout")):
        results.load("x", results.device_name(), live)


def test_the_result_shown_is_the_newest_of_a_gpu(store):
    h200, h100, frame = "nvidia-h200", "nvidia-h100-80gb-hbm3", pd.DataFrame({"a": [1]})
    assert {h200, h100} < {*results.REFERENCES}
    assert results.reference("measured") == results.REFERENCES[0] == results.reference(None)
    for device, year, shown in (
        ("cpu", 2024, "cpu"), (h100, 2021, h100), (h200, 2020, h100), (h200, 2022, h200), (h100, 2023, h100),
        ("cpu", 2025, h100), ("nvidia-h900", 2026, h100),
    ):  # fmt: skip
        store("measured", frame.assign(a=year), device=device, started=f"{year}-01-01")
        assert results.reference("measured") == results.load("measured").device == shown
    assert results.recorded("measured").frame.a[0] == 2023 and results.recorded("measured", h200).frame.a[0] == 2022
    path = results.load("measured", h100).path
    path.with_suffix(".json").write_text("[]")  # who reads it is told
    assert results.reference("measured") == h200
