"""The experiments of the part on the thesis: what they make of what they measure, and the words on it."""

import ast
import json
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gpumf import ALS, experiments, results
from gpumf import figure_style as style
from gpumf.experiments import _published, tuning
from gpumf.experiments.gpumf import als_convergence
from gpumf.experiments.thesis import als_sgd_rbm, crossover, parameter_search, sparsity, speedups, thread_scaling
from gpumf.gpu.occupancy import KEPLER, active_blocks
from support import KERNELS, ROOT, ragged_ratings


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """Results are read from and written to here."""
    monkeypatch.setattr(results, "repository", lambda: tmp_path)
    return tmp_path


@pytest.fixture
def store(repository):
    """Stores a frame as a result, recorded on an H100 in full, or live here."""

    def stored(name, frame, live=False):
        to = results.folder(live, results.device_name() if live else results.REFERENCE) / "thesis"
        to.mkdir(parents=True, exist_ok=True)
        frame.to_csv(to / f"{name}.csv", index=False)
        facts = {"commit": "c0ffee", "clean": True, "started": "2020-01-01", "gpu": "a GPU"}
        facts |= {"parameters": {"profile": "quick" if live else "full"}}
        (to / f"{name}.json").write_text(json.dumps(facts))
        return results.load(name, results.device_name() if live else results.REFERENCE, live)

    return stored


# Made-up frames, of known numbers


def searched(data="jester-1", als=0.07, rate=0.016):
    """Two repeats of a search with its optima there, half of a thousandth of an MAE apart."""
    rows = []
    for repeat in (0, 1):
        for model, varied, values, best in (
            ("ALS", "regularization", (0.05, 0.07, 0.09), als),
            ("SGD", "regularization", (0.03, 0.06, 0.12), 0.06),
            ("SGD", "learning_rate", (0.008, 0.016, 0.032), rate),
        ):
            for value in values:
                regularization, learning_rate = (value, 0.016) if varied == "regularization" else (0.06, value)
                mae = 0.7 + abs(value - best) + 0.0005 * repeat
                rows.append((data, model, varied, repeat, regularization, learning_rate, mae))
    columns = ["data", "model", "varied", "repeat", "regularization", "learning_rate", "mae"]
    return pd.DataFrame(rows, columns=columns)


def scaled(kepler=4, of_global=256.0, further=3):
    """Epochs on both machines: linear to `kepler` blocks on each of 8 multiprocessors, then in turns.

    of_global : seconds of the version in global memory with 128 threads, which gains on the other one with more
    further : to so many times as many blocks that version is linear
    """
    rows = []
    for kernel, seconds in (("thesis_shared", 128.0), ("thesis_global", of_global)):
        blocks_active = kepler if kernel == "thesis_shared" else further * kepler
        for machine, held in ((thread_scaling.OWN, 1e9), (thread_scaling.KEPLER_LIKE, 8 * blocks_active)):
            threads = [128 * b for b in range(1, 100)]
            if machine == thread_scaling.OWN and kernel == "thesis_shared":
                threads.insert(0, 16)
            for t in threads:
                blocks = max(t // 128, 1)
                gain = blocks ** (0.1 if kernel == "thesis_global" else 0)
                one = seconds * 128 / min(t, 128) / blocks * np.ceil(blocks / held) / gain
                active = blocks_active if machine == thread_scaling.KEPLER_LIKE else 10
                rows.append((kernel, machine, t, 9216, 9216, active, active, 7, 0, one))
    columns = ["kernel", "machine", "threads", "shared_bytes", "asked_bytes", "active_blocks_computed"]
    columns += ["active_blocks_driver", "epochs_to_threshold", "repeat", "seconds"]
    return pd.DataFrame(rows, columns=columns)


def timed(seconds, last_mae, data="jester-1"):
    """Two repeats of ten epochs of each version, ending at an MAE."""
    rows = []
    for version, of_epoch in seconds.items():
        model, kernel, _ = speedups.VERSIONS[version]
        device = "cpu" if kernel in ("sequential", "parallel") else "cuda"
        for repeat in (0, 1):
            for epoch in range(11):
                mae = last_mae.get(version, _published.threshold(data) - 0.0105) + (10 - epoch) / 100
                rows.append((data, version, model.__name__, kernel, device, repeat, epoch, epoch * of_epoch, mae))
    return pd.DataFrame(
        rows, columns=["data", "version", "model", "kernel", "device", "repeat", "epoch", "seconds", "mae"]
    )


SECONDS = {
    "ALS, one core": 100.0,
    "ALS, all cores": 10.0,
    "ALS (32/128)": 1.0,
    "ALS, tensor cores": 0.1,
    "SGD, one core": 100.0,
    "SGD, all cores": 20.0,
    "SGD (32/128)": 2.0,
    "SGD (128/128)": 0.5,
}


def raced(sgd=0.5, data="jester-1"):
    """Published and fastest versions of three models that take a half off the MAE, in tenths an epoch."""
    rows = []
    for version, seconds in {"ALS": 1.0, "SGD": sgd, "RBM": 100.0}.items():
        for suffix, faster in (("", 1), (", fastest", 10)):
            for epoch in range(21):
                mae = 1 - 0.05 * min(epoch, 10)
                rows.append((data, version + suffix, version, "k", 0, epoch, epoch * seconds / faster, mae))
    return pd.DataFrame(rows, columns=["data", "version", "model", "kernel", "repeat", "epoch", "seconds", "mae"])


def mapped():
    """Two parts of a set: with few ratings of a row SGD is sooner from 16 factors on, with many from 64."""
    rows = []
    for nnz, first in ((1000, 16), (10_000, 64)):
        for factors in (8, 16, 32, 64):
            for model in ("ALS", "SGD"):
                seconds = 1.0 if model == "ALS" else 2.0 if factors < first else 0.5
                rows.append(("a", nnz / 1e4, 50, 50, nnz, "fastest", model, factors, 0, seconds, 0.7))
    columns = ["data", "density", "n_users", "n_items", "nnz", "pair", "model", "factors", "repeat", "seconds"]
    return pd.DataFrame(rows, columns=[*columns, "mae"])


def thinned(worse=True):
    """Two repeats of ALS whose best lambda doubles, and whose error grows or shrinks, as the density halves."""
    rows = []
    for repeat in (0, 1):
        for k, density in enumerate((0.4, 0.2, 0.1)):
            for regularization in (0.05, 0.1, 0.2):
                off = abs(np.log2(regularization / 0.05) - (k if worse else 0))
                mae = 0.7 + 0.05 * (k if worse else -k) + 0.01 * off + 0.001 * repeat
                rows.append(("jester-1", "ALS", density, repeat, regularization, 50, 10 + 15 * k, mae))
    columns = ["data", "model", "density", "repeat", "regularization", "epochs", "best_epoch", "mae"]
    return pd.DataFrame(rows, columns=columns)


def leads(first, last):
    """GPUs that lead CPUs by these factors, in two years."""
    rows = [
        (year, kind, "single", flops)
        for year, gpu in ((2010, first), (2020, last))
        for kind, flops in (("GPU", gpu), ("CPU", 1))
    ]
    return pd.DataFrame(rows, columns=["year", "kind", "precision", "gflops"]).assign(
        gflops=lambda f: f.gflops * (f.year - 2000)
    )


def cubes(gpu=0.1, moved=1.0, strided=0.4, strided_moved=2.0):
    """Seconds of cubes at the largest side, a hundredth apart: one core takes ten, all cores two."""
    seconds = {
        ("one core", "coalesced", False): 10.0,
        ("all cores", "coalesced", False): 2.0,
        ("gpu", "coalesced", False): gpu,
        ("gpu", "coalesced", True): moved,
        ("gpu", "strided", False): strided,
        ("gpu", "strided", True): strided_moved,
    }
    rows = [
        (side, *key, s * side / 8 * (1 + k / 100))
        for side in (4, 8)
        for key, s in seconds.items()
        for k in (-1, 0, 1)
    ]
    return pd.DataFrame(rows, columns=["side", "device", "access", "transfer", "seconds"])


def moved(gain, fast=0.1):
    """Epochs of a Boltzmann machine, so many times as long with its weights moved, and of a fast one."""
    times = {("thesis", "device"): 1.0, ("thesis", "transfer"): gain, ("fast", "device"): fast}
    rows = [(*key, "epoch", s * (1 + k / 100)) for key, s in times.items() for k in (-1, 0, 1)]
    return pd.DataFrame(rows, columns=["kernel", "weights", "part", "epoch_seconds"])


# The published values


def test_published_values_are_found_for_parts_and_twins():
    assert _published.value("Table 6.3", "speed-up", "jester-twin", "ALS") == 131.3
    assert _published.threshold("douban-twin") == 0.5732 and _published.threshold("ml-100k") is None


def test_a_block_of_the_thesis_leaves_room_for_as_many_as_it_states():
    blocks = {
        k: active_blocks(KEPLER, 128, shared_bytes=thread_scaling.published_bytes(k)) for k in thread_scaling.KERNELS
    }
    for kernel in ("thesis_shared", "thesis_global"):
        assert blocks[kernel] == _published.value("Figure 6.8", "active blocks", model=f"ALS {kernel}")
    assert blocks["thesis_shared"] < blocks["thesis_hybrid"] < blocks["thesis_global"]


# The search


def test_optima_are_the_best_means_beside_the_published_ones():
    table = parameter_search.optima(searched(als=0.05)).set_index(["model", "varied"])
    als, rate = table.loc[("ALS", "regularization")], table.loc[("SGD", "learning_rate")]
    assert (als["value"], als.published, rate["value"], rate.published) == (0.05, 0.07, 0.016, 0.016)
    assert als.mae == pytest.approx(0.70025) and als.published_mae == pytest.approx(0.72025)
    assert als.deviation == pytest.approx(0.0005 / np.sqrt(2))


def test_tuned_parameters_are_those_of_the_recorded_search_and_others_serve_sets_without_one():
    recorded = results.load("parameter_search")
    assert Path(tuning._FILE).read_text() == tuning.text(recorded), "run `make tune`"
    assert tuning.tuned()["from"]["commit"] == recorded.provenance["commit"]
    assert tuning.chosen(tuning.PARAMETERS, "ml-100k", "ALS") == {"regularization": 0.1}
    with pytest.raises(ValueError, match="none of SGD for 'jester-1'"):
        tuning.chosen({"jester-1": {"ALS": {}}}, "jester-1", "SGD")


def test_the_best_of_a_search_is_written_and_serves_the_other_parts_of_a_set(store):
    search = pd.concat([searched(als=0.05), searched("jester-twin", als=0.09)])
    machine = {"data": "jester-1", "model": "RBM", "varied": "learning_rate", "repeat": 0, "learning_rate": 0.2}
    search = pd.concat([search, pd.DataFrame([machine | {"mae": 0.7}])])
    written = tomllib.loads(tuning.text(store("parameter_search", search)))
    assert written["parameters"]["jester-1"]["ALS"] == {"regularization": 0.05}
    assert written["parameters"]["jester-twin"]["ALS"] == {"regularization": 0.09}
    assert written["parameters"]["jester-twin"]["SGD"] == {"regularization": 0.06, "learning_rate": 0.016}
    assert written["parameters"]["jester-twin"]["RBM"] == {"learning_rate": 0.2}
    assert written["from"]["device"] == results.REFERENCE and len(written["from"]["sha256"]) == 64


def test_what_was_measured_since_changes_no_run(store):
    before = {name: experiments.module(name).PROFILES for name in experiments.names()}
    store("parameter_search", searched(als=0.09), live=True)
    store("parameter_search", searched(als=0.05))
    frame = als_convergence.run(["ml-100k-twin"], 4, 1, {"ml-100k-twin": {"ALS": {"regularization": 0.1}}})
    again = als_convergence.run(["ml-100k-twin"], 4, 1, tuning.PARAMETERS)
    pd.testing.assert_frame_equal(frame.drop(columns="seconds"), again.drop(columns="seconds"))
    assert before == {name: experiments.module(name).PROFILES for name in experiments.names()}


def test_a_run_ends_when_it_has_gone_on_for_twice_as_long_as_to_its_best():
    stop = parameter_search.OverfittingStop()
    maes = [0.1, 0.9, 0.8, 0.7, *[0.75] * 60]
    ended = next(epoch for epoch, mae in enumerate(maes) if stop({"epoch": epoch, "mae": mae}))
    assert ended == 2 * 3 + 30 + 1, "the initial model counts for nothing"


def test_the_best_epoch_is_one_that_was_trained():
    history = pd.DataFrame({"epoch": [0, 1, 2], "mae": [0.1, 0.9, 0.8]})
    assert parameter_search.best_epoch(history).epoch == 2
    assert parameter_search.best_epoch(history.assign(mae=np.nan)).epoch == 2


# Fewer ratings


def test_thinning_fills_the_share_that_was_asked_for():
    ratings = ragged_ratings(seed=0)
    part = sparsity.thinned(ratings, 0.1, seed=1)
    assert part.nnz == round(0.1 * ratings.n_users * ratings.n_items) and part.n_users == ratings.n_users
    assert sparsity.thinned(ratings, 0.999) is ratings
    few = parameter_search.first_users(ratings, 10)
    assert few.n_users == 10 and few.nnz == (ratings.users < 10).sum() and few.users.max() < 10


def test_each_repeat_has_a_best_lambda_of_its_own():
    table = sparsity.summary(thinned())
    assert list(table.regularization) == [0.2, 0.1, 0.05] and list(table.mae) == pytest.approx(
        [0.8005, 0.7505, 0.7005]
    )
    assert list(table.share_of_epochs) == pytest.approx([0.8, 0.5, 0.2])
    steep = sparsity.steepness(thinned())
    assert steep["regularization"] == 4 and steep["mae"] > 1 and steep["monotonous"]
    assert not sparsity.steepness(thinned(worse=False))["monotonous"]


# Threads


def test_speedups_are_over_one_half_warp_of_the_whole_gpu():
    table = thread_scaling.summary(scaled()).set_index(["machine", "kernel", "threads"])
    assert table.speedup[thread_scaling.OWN, "thesis_shared", 16] == 1
    assert table.speedup[thread_scaling.OWN, "thesis_shared", 1280] == 80
    assert table.seconds_to_threshold[thread_scaling.OWN, "thesis_shared", 128] == 7 * 128


def test_a_drop_is_where_one_block_more_costs_a_turn():
    frame = scaled(kepler=4)
    drops = thread_scaling.drops(frame, thread_scaling.KEPLER_LIKE, "thesis_shared")
    assert drops[:2] == [8 * 4 * 128, 2 * 8 * 4 * 128] and not thread_scaling.drops(
        frame, thread_scaling.OWN, "thesis_shared"
    )
    linear = [thread_scaling.linearity(frame, thread_scaling.KEPLER_LIKE, "thesis_shared", t) for t in (4096, 4224)]
    assert linear == pytest.approx([1, 0.5])


def test_asking_for_more_shared_memory_changes_no_factor(launcher):
    train = ragged_ratings(seed=3)
    model = ALS(16, kernel="thesis_shared", device=launcher.name)
    factors = []
    for asked in (0, 2 * model.scheme.shared_bytes(16)):
        trainer = model.trainer(train, shared_bytes=asked)
        trainer.epoch(0)
        factors.append([launcher.to_numpy(side).copy() for side in trainer.factors()])
    for with_less, with_more in zip(*factors, strict=True):
        np.testing.assert_array_equal(with_less, with_more)


def test_a_block_that_occupies_goes_when_told_or_gives_up(launcher):
    kernel = launcher.kernel("microbenchmarks/occupy.cu", "occupy")
    for told in (1, 0):
        waiting, gave_up = launcher.zeros(1, np.int32), launcher.zeros(1, np.int32)
        kernel(3, 1, waiting, gave_up, launcher.array(np.array([told], np.int32)), np.int64(10))
        assert launcher.to_numpy(waiting)[0] == 3 and launcher.to_numpy(gave_up)[0] == (0 if told else 3)


def test_a_limited_gpu_runs_blocks_on_so_many_multiprocessors_alone(cuda):
    everywhere = cuda.facts["multiprocessors"]
    kernel, blocks = cuda.kernel(KERNELS / "multiprocessors.cu", "multiprocessors"), cuda.zeros(1024, np.int32)
    kernel(8 * everywhere, 128, blocks)  # loaded before the device is limited
    for few in (everywhere, 2, everywhere):
        before = cuda.to_numpy(blocks)
        with cuda.limited_to(few):
            kernel(8 * everywhere, 128, blocks)
            cuda.synchronize()
        assert np.count_nonzero(cuda.to_numpy(blocks) - before) == few
    with pytest.raises(ValueError, match="multiprocessors"), cuda.limited_to(everywhere + 1):
        pass


# Speed-ups


def test_versions_are_compared_at_the_published_error_and_at_one_that_all_reach():
    frame = timed(SECONDS, {"SGD (32/128)": 0.72})
    assert list(speedups.levels(frame).itertuples(index=False, name=None)) == [
        ("jester-1", "published", 0.71),
        ("jester-1", "reached by all", 0.72),
    ]
    table = speedups.summary(frame).set_index(["level", "version"])
    als = table.loc[("published", "ALS (32/128)")]
    assert (als.epochs, als.seconds, als.speedup, als.over_all_cores) == (9, 9, 100, 10)
    assert table.loc[("published", "SGD (32/128)")].isna()[["seconds", "speedup"]].all()
    assert table.loc[("reached by all", "SGD (32/128)")].seconds == 20
    shown = speedups.table(frame).set_index(["level", "column"])
    assert shown.published["published", "ALS"] == 131.3 and shown.speedup["published", "ALS"] == 100
    assert list(speedups.fastest(frame, "ALS").version.unique()) == ["ALS, tensor cores"]
    theirs = speedups.fastest(frame, "ALS", speedups.PUBLISHED_KERNELS)
    assert list(theirs.version.unique()) == ["ALS (32/128)"] and list(theirs.level) == ["published", "reached by all"]


# Three models, and the crossover


def test_a_model_has_converged_when_a_hundredth_of_its_gain_is_to_come():
    table = als_sgd_rbm.summary(raced()).set_index("version")
    assert table.loc["ALS"].epochs == 10 and table.loc["ALS"].reduction_per_second == pytest.approx(0.5 / 10)
    factors = als_sgd_rbm.factors(raced()).iloc[0]
    assert dict(factors[["ALS", "SGD"]]) == pytest.approx({"ALS": 100, "SGD": 200})


def test_convergence_is_certain_where_a_run_went_on_for_as_long_again():
    frame = raced()
    assert als_sgd_rbm.summary(frame).certain.all()
    short = als_sgd_rbm.summary(frame[(frame.version != "SGD") | (frame.epoch < 20)])
    assert list(short.version[~short.certain]) == ["SGD"]


def test_the_crossover_is_where_sgd_stays_ahead():
    table = crossover.summary(mapped())
    assert list(table.ratio) == [2, 0.5, 0.5, 0.5, 2, 2, 2, 0.5] and set(table.row_ratings) == {10, 100}
    assert list(crossover.crossings(mapped(), "fastest").factors) == [16, 64]


def test_settings_with_few_ratings_of_a_row_are_timed_to_the_same_error():
    grid = {"factors": [4], "regularization": [0.1], "learning_rate": [0.02], "epochs": {"ALS": 3, "SGD": 10}}
    frame = crossover.run({"ml-100k-twin": [0.05]}, **grid, repeats=1)
    assert set(frame.model) == {"ALS", "SGD"} and frame.level.nunique() == 1
    assert frame.seconds.notna().any() and (frame.mae <= frame.level)[frame.seconds.notna()].all()


# Findings


FINDINGS = {finding.id: finding for _, finding in experiments.findings()}


def word(name, frame):
    finding = FINDINGS[name]
    value, spread, unit = finding.value(frame)
    assert value == value and isinstance(unit, str), name
    return finding.rule.word(value, 0.0 if np.isnan(spread) else spread)


SLOW_GPU = {"SGD (32/128)": 200.0, "ALS (32/128)": 200.0}


@pytest.mark.parametrize(
    ("name", "frame", "expected"),
    [
        ("thesis-fig-1.2", leads(4, 8), "reproduced"),
        ("thesis-fig-1.2", leads(8, 4), "contradicted"),
        ("thesis-fig-1.2", leads(4, 4), "tie"),
        ("thesis-fig-3.3", cubes(gpu=0.1), "reproduced"),
        ("thesis-fig-3.3", cubes(gpu=3.0), "contradicted"),
        ("thesis-fig-3.4", cubes(moved=1.0), "reproduced"),
        ("thesis-fig-3.4", cubes(moved=0.15), "contradicted"),
        ("thesis-fig-3.4-gain", cubes(moved=1.0), "reproduced"),
        ("thesis-fig-3.4-gain", cubes(moved=20.0), "contradicted"),
        ("thesis-fig-3.11", cubes(strided_moved=2.0), "reproduced"),
        ("thesis-fig-3.11", cubes(strided_moved=0.5), "contradicted"),
        ("thesis-fig-3.11", cubes(strided_moved=1.001), "tie"),
        ("thesis-fig-3.11-kernel", cubes(strided=0.4), "reproduced"),
        ("thesis-fig-3.11-kernel", cubes(strided=0.05), "contradicted"),
        ("thesis-fig-4.5", moved(2.5), "reproduced"),
        ("thesis-fig-4.5", moved(10), "same direction"),
        ("thesis-fig-4.5", moved(0.5), "contradicted"),
        ("rbm-epoch-speedup", moved(2, fast=0.05), "target"),
        ("rbm-epoch-speedup", moved(2, fast=0.5), "short"),
        ("thesis-fig-6.3-jester", searched(), "reproduced"),
        ("thesis-fig-6.3-jester", searched(als=0.05), "contradicted"),
        ("thesis-fig-6.2-jester", searched(rate=0.05), "contradicted"),
        ("thesis-fig-6.5", thinned(), "reproduced"),
        ("thesis-fig-6.5", thinned(worse=False), "tie"),
        ("thesis-fig-6.6", thinned(), "reproduced"),
        ("thesis-fig-6.6", thinned(worse=False), "contradicted"),
        ("thesis-fig-6.7", scaled(), "reproduced"),
        ("thesis-fig-6.7", scaled(kepler=3), "contradicted"),
        ("thesis-fig-6.7-drop", scaled(), "reproduced"),
        ("thesis-fig-6.7-drop", scaled(kepler=5), "contradicted"),
        ("thesis-fig-6.7-drop-whole-gpu", scaled(), "contradicted"),
        ("thesis-fig-6.8", scaled(), "reproduced"),
        ("thesis-fig-6.8", scaled().assign(active_blocks_driver=2), "contradicted"),
        ("thesis-fig-6.8-blocks", scaled(), "by construction"),
        ("thesis-fig-6.9", scaled(), "reproduced"),
        ("thesis-fig-6.9", scaled(kepler=1), "contradicted"),
        ("thesis-fig-6.9-further", scaled(), "reproduced"),
        ("thesis-fig-6.9-further", scaled(further=0.25), "contradicted"),
        ("thesis-fig-6.10", scaled(), "reproduced"),
        ("thesis-fig-6.10", scaled(of_global=64.0), "contradicted"),
        ("thesis-fig-6.10-gap", scaled(), "reproduced"),
        ("thesis-fig-6.10-gap", scaled(further=0.25), "contradicted"),
        ("thesis-fig-6.10-whole-gpu", scaled(), "reproduced"),
        ("thesis-fig-6.10-whole-gpu", scaled(of_global=64.0), "contradicted"),
        ("thesis-table-6.3-als-jester-1", timed(SECONDS, {}), "reproduced"),
        ("thesis-table-6.3-sgd-32-128-jester-1", timed(SECONDS | {"SGD (32/128)": 50.0}, {}), "same direction"),
        ("thesis-table-6.3-sgd-32-128-jester-1", timed(SECONDS | SLOW_GPU, {}), "contradicted"),
        ("thesis-fig-6.11-als-one-core", timed(SECONDS, {}), "reproduced"),
        ("thesis-fig-6.11-als-one-core", timed(SECONDS | SLOW_GPU, {}), "contradicted"),
        ("thesis-fig-6.11-sgd-all-cores", timed(SECONDS, {}), "reproduced"),
        ("thesis-fig-6.11-sgd-all-cores", timed(SECONDS | {"SGD (32/128)": 50.0}, {}), "contradicted"),
        ("thesis-fig-6.12-jester-1", timed(SECONDS, {}), "reproduced"),
        ("thesis-fig-6.12-jester-1", timed(SECONDS | {"SGD (32/128)": 0.7}, {}), "contradicted"),
        ("thesis-fig-6.12-jester-1-own", timed(SECONDS, {}), "contradicted"),
        ("thesis-fig-6.12-douban-twin-own", timed(SECONDS, {}, "douban-twin"), "reproduced"),
        ("thesis-fig-6.13", raced(), "reproduced"),
        ("thesis-fig-6.13", raced(sgd=200.0), "contradicted"),
        ("thesis-sgd-or-als", mapped(), "answered"),
        ("thesis-newer-gpus-global", scaled(), "answered"),
    ],
)
def test_a_word_follows_from_the_numbers(name, frame, expected):
    assert word(name, frame) == expected


def test_a_version_that_never_reaches_the_error_enters_no_ratio():
    frame = timed(SECONDS, {"SGD (32/128)": np.nan})
    value, _, _ = FINDINGS["thesis-table-6.3-sgd-32-128-jester-1"].value(frame)
    assert np.isnan(value)
    assert word("thesis-table-6.3-als-jester-1", frame) == "reproduced", "the others are compared all the same"


def test_the_index_names_a_chapter_for_every_experiment_with_findings_on_publications():
    notebook = json.loads((ROOT / "book/thesis.ipynb").read_text())
    (source,) = ["".join(c["source"]) for c in notebook["cells"] if "CHAPTERS = {" in "".join(c["source"])]
    chapters = ast.literal_eval(source[source.index("{") : source.index("}") + 1])
    named = {name for name, finding in experiments.findings() if name and finding.source != "gpumf"}
    assert set(chapters) == named
    toc = (ROOT / "book/_toc.yml").read_text()
    for chapter in chapters.values():
        assert f"file: {chapter}\n" in toc and (ROOT / f"book/{chapter}.ipynb").is_file()


# Figures


@pytest.mark.parametrize(
    ("name", "frame", "draw", "axes"),
    [
        ("parameter_search", searched(), lambda f: parameter_search.figure(f, "SGD", "learning_rate"), 1),
        ("sparsity", thinned(), sparsity.figure, 2),
        ("thread_scaling", scaled(), thread_scaling.figure, 2),
        ("speedups", timed(SECONDS, {"SGD (32/128)": 0.72}), speedups.figure, 1),
        ("speedups", timed(SECONDS, {}), lambda f: speedups.figure(f, on_gpu=True), 1),
        ("als_sgd_rbm", raced(), als_sgd_rbm.figure, 1),
        ("crossover", mapped(), crossover.figure, 1),
    ],
)
def test_figures_say_where_they_were_measured_and_what_their_axes_are(name, frame, draw, axes, store):
    result = store(name, frame)
    figure = style.save(draw(result.frame), result)
    assert len(figure.axes) == axes and figure.get_supxlabel().startswith("Recorded on a GPU")
    assert all(axis.get_xlabel() and axis.has_data() for axis in figure.axes)


def test_the_gpu_alone_is_drawn_to_the_errors_that_all_versions_are_compared_at():
    frame = timed(SECONDS, {"SGD, one core": 0.72})
    for on_gpu in (False, True):
        (axis,) = speedups.figure(frame, on_gpu=on_gpu).axes
        assert axis.get_xlabel() == "seconds to MAE 0.72"
        names = [label.get_text() for label in axis.get_yticklabels()]
        assert ("SGD, one core" in names) is not on_gpu and len(axis.containers[0]) == len(names)


def test_the_published_ends_of_linear_scaling_are_drawn(store):
    figure = thread_scaling.figure(scaled())
    vertical = {line.get_xdata()[0] for line in figure.axes[0].lines if len(set(line.get_xdata())) == 1}
    assert vertical == {4096, 12288}


def test_a_figure_of_a_live_result_is_not_saved(store, repository):
    for live in (True, False):
        result = store("crossover", mapped(), live=live)
        style.save(crossover.figure(result.frame), result)
        assert (repository / "figures/thesis/crossover.svg").exists() is not live
