"""The published programs beside ours: stand-ins check the files that they are given, and print as the programs do."""

import sys

import numpy as np
import pandas as pd
import pytest

from gpumf import backends
from gpumf_study import benchmarks, experiments, results, schema
from gpumf_study.experiments import _kept
from gpumf_study.experiments.gpumf import original_programs as experiment
from gpumf_study.experiments.gpumf.original_programs import CU2REC, CUMF_ALS, CUMF_SGD, Comparison, ProgramError
from outcomes import word
from support import ragged_ratings

# What each stand-in begins with: its arguments, and the ratings that its files have to hold.
BEGIN = """\
import sys
from pathlib import Path
import numpy as np
words, given = sys.argv[1:], np.load({ratings!r})
(users, items, values), (u, i, r) = given["train"], given["test"]

def same(found, rows, columns, numbers):
    wanted = np.zeros({shape}), np.zeros({shape})
    for matrix, at in zip(wanted, (found, (rows, columns, numbers))):
        matrix[at[0].astype(int), at[1].astype(int)] = at[2]
    assert len(found[0]) == len(rows) and np.array_equal(*wanted), "other ratings"
"""

STAND_INS = {
    CUMF_ALS: """
m, n, f, nnz, of_test, weight, *batches, folder = words
read = lambda name, dtype="<i4": np.fromfile(Path(folder, f"R_{name}.bin"), dtype)
assert (int(m), int(n), int(nnz), int(of_test)) == (len(given["items"]), len(given["users"]), len(users), len(u))
assert (f, weight, batches) == ("10", "0.05", ["1", "1"])
csr, csc, coo = (read("train_csr." + part) for part in ("indptr", "indices")), (
    read("train_csc." + part) for part in ("indptr", "indices")), read("train_coo.row")
begins, column = csr
same((column, coo, read("train_csr.data", "<f4")), users, items, values)
assert np.array_equal(np.repeat(np.arange(int(m)), np.diff(begins)), coo)
begins, row = csc
same((np.repeat(np.arange(int(n)), np.diff(begins)), row, read("train_csc.data", "<f4")), users, items, values)
same((read("test_coo.col"), read("test_coo.row"), read("test_coo.data", "<f4")), u, i, r)
for k in range(10):
    print(f"update X run {0.5 + (k == 0)} seconds, gridSize: 9, blockSize 10.\\n\\tCG solver with fp32.")
    print(f"update theta run 0.250000 seconds, gridSize: 9, blockSize 10.")
    print(f"--------- Train RMSE in iter {k}: 0.1\\n--------- Test RMSE in iter {k}: {1.02 - 0.02 * k:f}")
print("\\ndoALS takes seconds: 9.000 for F = 10")
""",
    CUMF_SGD: """
options = dict(zip(words[:-2:2], words[1:-2:2]))
assert options.pop("-t") and int(options.pop("-s")) % 52 == 0
assert options == {"-g": "0", "-l": "0.05", "-k": "4", "-a": "0.08", "-b": "0.3"} | dict.fromkeys(
    ["-u", "-v", "-x", "-y"], "1")
found = np.fromfile(words[-2], [("u", "<i4"), ("i", "<i4"), ("r", "<f4")])
assert not np.array_equal(found["u"], users), "in the order of the ratings"
same([found[name] for name in "uir"], users, items, values)
epochs = int(words[words.index("-t") + 1])
n_users, n_items = int(users.max()) + 1, int(items.max()) + 1
with open(words[-1], "wb") as file:
    np.array([0, n_users, n_items, 4], "<i4").tofile(file)
    np.array([3.0], "<f4").tofile(file)
    # Everybody rates 2, less what so many epochs have not yet learned.
    np.full((n_users, 4), 1.0, "<f4").tofile(file)
    np.full((n_items, 4), (2 - 4 / epochs**2) / 4, "<f4").tofile(file)
print(f"update_per_sec:{len(users) * 10.0:f}\\n\\n\\ntraining application finished...")
""",
    CU2REC: """
option, setting, train, test = words
assert option == "-c" and Path(setting).read_text().split() == "0 1200 4 0.01 42 0.02 0.02 0.02 0.02".split()
for path, wanted in ((train, (users, items, values)), (test, (u, i, r))):
    assert Path(path).read_text().splitlines()[0].count(",") == 2
    found = np.loadtxt(path, delimiter=",", skiprows=1).T
    assert found[:2].min() == 1 and np.all(np.diff(found[0]) >= 0)
    same((found[0] - 1, found[1] - 1, found[2]), *wanted)
print("Free memory: 1\\n\\nHyperparameters:")
for step in (1, 500, 1000, 1200):
    print(f"TRAIN: Iteration {step} GPU MAE: 0.1 RMSE: 0.2")
    print(f"TEST: Iteration {step} GPU MAE: 0.5 RMSE: {2 - step / 1000:f}")
print("Time taken for 1200 of iterations is 2.400000")
""",
}
SIZES = {"factors": {CUMF_ALS: 10, CUMF_SGD: 4, CU2REC: 4}, "epochs": {CUMF_ALS: 10, CUMF_SGD: 9, CU2REC: 1200}}
FIRST = {CUMF_ALS: "GPUMF_CUMF_ALS", CUMF_SGD: "GPUMF_CUMF_SGD", CU2REC: "GPUMF_CU2REC"}


@pytest.fixture
def ratings():
    """Ratings of which a few of the test have a user or an item without training ratings."""
    return ragged_ratings(seed=3)


@pytest.fixture
def program(tmp_path, monkeypatch, ratings):
    """A function that puts a stand-in in a program's place, of this text; with none it takes that program away."""
    for name in experiment.PROGRAMS:
        monkeypatch.delenv(name, raising=False)
    train, test = ratings.split(0.2, seed=0)
    known = np.isin(test.users, train.users) & np.isin(test.items, train.items)
    assert not known.all()
    lots = {"train": (train.users, train.items, train.values)}
    lots["test"] = [column[known] for column in (test.users, test.items, test.values)]
    sides = {"users": np.empty(ratings.n_users), "items": np.empty(ratings.n_items)}
    np.savez(tmp_path / "ratings.npz", **lots, **sides)

    def put(variable, text):
        path = tmp_path / variable
        begin = BEGIN.format(ratings=str(tmp_path / "ratings.npz"), shape=(ratings.n_users, ratings.n_items))
        path.write_text(f"#!{sys.executable}\n{begin}{text}", encoding="utf-8")
        path.chmod(0o755)
        monkeypatch.setenv(variable, str(path))

    return put


def theirs(name, ratings, folder, error=9.0, repeats=1):
    """The rows of a program."""
    folder.mkdir()
    sizes = SIZES["factors"][name], SIZES["epochs"][name]
    task = Comparison(name, *ratings.split(0.2, seed=0), *sizes, error, workers=52)
    paths = {solver: path for (model, solver), path in experiment.given().items() if model == name}
    return pd.concat([make() for _, make in task.theirs(folder, paths, repeats)])


def test_every_program_gets_its_files_and_is_compared_to_ours(host, program, ratings, repository, monkeypatch):
    for name, variable in FIRST.items():
        program(variable, STAND_INS[name])
    program("GPUMF_CUMF_ALS_LU", STAND_INS[CUMF_ALS].replace("0.25", "7.25"))
    monkeypatch.setattr(experiment.backends, "available", lambda: False)
    monkeypatch.setattr(experiment, "load_ratings", lambda name: ratings)
    monkeypatch.setattr(experiment, "OURS", {CUMF_ALS: ["tensor_core"], CUMF_SGD: ["fast"], CU2REC: ["cu2rec"]})
    error = {CUMF_ALS: 9.0, CUMF_SGD: 9.0, CU2REC: 9.0}
    frame = experiments.run("original_programs", "smoke", **SIZES, error=error, repeats=2).frame
    assert set(frame.model) == {CUMF_ALS, CUMF_SGD, CU2REC, "ALS", "SGD"}
    assert frame.x_program[frame.model.isin(FIRST)].str.len().eq(64).all()
    epochs = experiment.reached(frame).groupby(["model", "solver"]).epoch.max()
    assert (epochs.drop(("SGD", "cu2rec")) == 1).all() and epochs["SGD", "cu2rec"] > 1
    assert set(frame.model[frame.task == "process"]) == set(FIRST)
    loaded = results.load("original_programs", results.device_name(), live=True)
    monkeypatch.setattr(results, "load", lambda *_: loaded)
    rows = {row.id: row for row in benchmarks.ROWS}
    assert rows["cumf-als-x"].measured.values().to_list() == [0.75, 0.75], "of the faster of CG and LU"
    assert rows["cumf-sgd-x"].measured.values().to_list() == pytest.approx([0.1, 0.1])
    assert rows["cu2rec-x"].measured.values().to_list() == pytest.approx([0.002, 0.002])
    assert all(rows[name].row()["value"] > 0 for name in ("cumf-als-x", "cumf-sgd-x", "cu2rec-x"))
    alone = frame[frame.x_beside == CUMF_ALS]
    monkeypatch.setattr(results, "load", lambda *_: results.Result(loaded.path, alone, loaded.provenance, True))
    assert "value" not in rows["cumf-sgd-x"].row() and "value" in rows["cumf-als-x"].row()


def test_a_stopped_run_starts_no_program_again_that_was_done(host, program, ratings, repository, monkeypatch):
    program("GPUMF_CU2REC", STAND_INS[CU2REC])
    monkeypatch.setattr(experiment.backends, "available", lambda: False)
    monkeypatch.setattr(experiment, "load_ratings", lambda name: ratings)
    monkeypatch.setattr(results, "provenance", lambda: {"commit": "c0ffee", "clean": True})
    started, output, fitted = [], Comparison._output, Comparison._fitted

    def stopped(self, solver, repeat):
        if repeat == 1 and len(started) == 2:
            started.append("stopped")
            raise KeyboardInterrupt
        return fitted(self, solver, repeat)

    monkeypatch.setattr(Comparison, "_output", lambda self, command: started.append(1) or output(self, command))
    monkeypatch.setattr(Comparison, "_fitted", stopped)
    parameters = experiment.PROFILES["smoke"] | SIZES | {"repeats": 2}
    with pytest.raises(KeyboardInterrupt), _kept.measured("original_programs", None):
        experiment.run(**parameters)
    with _kept.measured("original_programs", None):
        frame = experiment.run(**parameters)
    assert started == [1, 1, "stopped"] and sorted(set(frame.repeat)) == [0, 1]


def test_what_is_printed_becomes_rows(host, program, ratings, tmp_path, monkeypatch):
    monkeypatch.setattr(experiment.backends, "available", lambda: False)
    program("GPUMF_CUMF_ALS", STAND_INS[CUMF_ALS])
    rows = theirs(CUMF_ALS, ratings, tmp_path / "als")
    course = rows[rows.metric == "rmse"]
    assert course.epoch.to_list() == list(range(1, 11)) and course.value.iloc[[0, -1]].to_list() == [1.02, 0.84]
    assert course.seconds.to_list() == [1.75 + 0.75 * k for k in range(10)] and set(rows.x_iteration) == {0.75}
    assert rows.seconds[(rows.phase == "end_to_end") & (rows.task == "fit")].to_list() == [9.0]
    program("GPUMF_CU2REC", STAND_INS[CU2REC])
    rows = theirs(CU2REC, ratings, tmp_path / "cu2rec")
    course = rows[rows.metric == "rmse"]
    assert course.epoch.to_list() == [1, 500, 1000, 1200] and course.value.to_list() == [1.999, 1.5, 1.0, 0.8]
    assert course.seconds.to_list() == pytest.approx([0.002, 1, 2, 2.4])
    assert (rows.seconds[rows.task == "process"] > 0).all()


def test_the_fewest_epochs_of_cumf_sgd_are_found_and_then_repeated(host, program, ratings, tmp_path, monkeypatch):
    monkeypatch.setattr(experiment.backends, "available", lambda: False)
    program("GPUMF_CUMF_SGD", STAND_INS[CUMF_SGD])
    values = np.load(tmp_path / "ratings.npz")["test"][2]
    rmse = {n: np.sqrt(np.mean((2 - 4 / n**2 - values) ** 2)) for n in range(1, 10)}
    assert sorted(rmse.values(), reverse=True) == list(rmse.values())
    rows = theirs(CUMF_SGD, ratings, tmp_path / "sgd", rmse[4] + 1e-6, repeats=3)
    course = rows[rows.metric == "rmse"]
    assert course.epoch.to_list() == [9, 4, 2, 3, 4, 4] and course.repeat.to_list() == [0, 0, 0, 0, 1, 2]
    assert course.value.to_list() == pytest.approx(course.epoch.map(rmse).to_list(), rel=1e-5)
    assert course.seconds.to_list() == pytest.approx((course.epoch / 10).to_list())


def test_the_fewest_is_found_with_few_trials():
    for most in (1, 2, 20):
        for first in range(1, most + 1):
            tried = []
            assert experiment.fewest(lambda n: tried.append(n) or n >= first, most) == first  # noqa: B023
            assert len(tried) == len(set(tried)) <= 6
    assert experiment.fewest(lambda n: False, 7) == 7


FAULTS = {
    "fails": (CUMF_ALS, "sys.exit('out of memory')", "cuMF_ALS ended with status 1; .* 'out of memory'"),
    "finds no file": (CUMF_ALS, "print('Unable to open file!')", "cuMF_ALS could not open a file"),
    "is not the debug build": (CUMF_ALS, "print('CG solver')", "printed 0 lines like 'update X run"),
    "stops early": (CUMF_ALS, STAND_INS[CUMF_ALS].replace("range(10)", "range(9)"), "printed 9 lines like"),
    "prints words": (CUMF_ALS, STAND_INS[CUMF_ALS].replace("{1.02 - 0.02 * k:f}", "low"), "which are no numbers"),
    "prints no seconds": (CU2REC, STAND_INS[CU2REC].replace("2.400000", "-nan"), "which are no times"),
    "leaves out a step": (CU2REC, STAND_INS[CU2REC].replace("(1, 500,", "(1,"), "cu2rec printed 3 lines like"),
    "does not launch": (CUMF_SGD, "print('update_per_sec:inf')", "CuMF_SGD printed .inf. for"),
    "writes nothing": (CUMF_SGD, "print('update_per_sec:5.0')", "wrote no model that can be read .*No such file"),
    "is cut off": (CUMF_SGD, STAND_INS[CUMF_SGD].replace("(n_items, 4)", "(n_items, 3)"), r"it has \d+ numbers for"),
    "has other factors": (CUMF_SGD, STAND_INS[CUMF_SGD].replace("n_items, 4], ", "n_items, 5], "), "its header is"),
    "knows too many": (CUMF_SGD, STAND_INS[CUMF_SGD].replace("n_users, n_items =", "n_users, n_items = 999,9 #"),
                       "wrote factors of 999 users and 9 items"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_program_that_does_otherwise_is_one_clear_error(fault, host, program, ratings, tmp_path, monkeypatch):
    monkeypatch.setattr(experiment.backends, "available", lambda: False)
    name, text, said = FAULTS[fault]
    program(FIRST[name], text)
    with pytest.raises(ProgramError, match=said):
        theirs(name, ratings, tmp_path / "files")


def test_a_file_that_cannot_be_started_is_one_clear_error(host, program, ratings, tmp_path, monkeypatch):
    monkeypatch.setattr(experiment.backends, "available", lambda: False)
    program("GPUMF_CU2REC", "")
    (tmp_path / "GPUMF_CU2REC").write_bytes(b"\x7fELF of another machine")
    with pytest.raises(ProgramError, match="cu2rec could not be started"):
        theirs(CU2REC, ratings, tmp_path / "files")


def test_what_is_missing_is_named(program, tmp_path, monkeypatch):
    monkeypatch.setattr(backends, "available", lambda: False)
    monkeypatch.setattr(backends, "why_unavailable", lambda: "no GPU")
    assert experiments.why_unavailable("original_programs") == "no GPU"
    monkeypatch.setattr(backends, "available", lambda: True)
    why = experiments.why_unavailable("original_programs")
    assert all(name in why for name in experiment.PROGRAMS)
    program("GPUMF_CUMF_SGD", "")
    assert experiments.why_unavailable("original_programs") is None
    monkeypatch.setenv("GPUMF_CU2REC", str(tmp_path / "absent"))
    why = f"GPUMF_CU2REC is {tmp_path / 'absent'}, which is no executable file"
    assert experiments.why_unavailable("original_programs") == why
    with pytest.raises(ProgramError, match="GPUMF_CU2REC is"):
        experiment.run(**experiment.PROFILES["smoke"])


def frame(*programs, epochs=3, repeats=2):
    """Trainings: (beside, model, solver, seconds an iteration, the last RMSE); each epoch before is 0.1 worse."""
    rows = [
        {"x_beside": beside, "model": model, "solver": solver, "repeat": repeat, "epoch": n, "seconds": n * each,
         "x_iteration": each, "metric": "rmse", "value": rmse + 0.1 * (epochs - n), "device": "cuda", "task": "fit",
         "x_error": 0.95, "data": "some", "phase": "train"}
        for beside, model, solver, each, rmse in programs for repeat in range(repeats) for n in range(1, epochs + 1)
    ]  # fmt: skip
    return schema.validated(pd.DataFrame(rows))


def test_programs_are_compared_at_an_error_that_both_reach():
    als = (CUMF_ALS, "ALS", "tensor_core", 1.0, 0.9), (CUMF_ALS, CUMF_ALS, "lu", 9.0, 0.9)
    fp16 = (CUMF_ALS, CUMF_ALS, "cg_fp16", 2.0, 0.97)
    found = experiment.reached(frame(*als, fp16)).set_index("solver")
    assert set(found.x_rmse) == {0.95} and "cg_fp16" not in found.index
    assert found.seconds.loc["tensor_core"].to_list() == [3.0, 3.0] and found.seconds["lu"].to_list() == [27.0, 27.0]
    diverged = (CUMF_ALS, CUMF_ALS, "cg", 1.0, np.nan)
    assert "cg" not in set(experiment.reached(frame(*als, diverged)).solver)
    # Where none of the program's reaches it, what the best of them reaches.
    found = experiment.reached(frame(als[0], fp16)).set_index("solver")
    assert set(found.x_rmse) == {0.97} and found.seconds["cg_fp16"].to_list() == [6.0, 6.0]
    fast = (CUMF_ALS, CUMF_ALS, "cg", 2.0, 0.9)
    best = experiment.fastest(frame(*als, fast))
    assert best.seconds[best.solver == "fastest"].to_list() == [6.0, 6.0] and len(best) == 4


@pytest.mark.parametrize(("theirs", "said"), [(2.0, "replicated"), (0.5, "not replicated")])
def test_claims_are_judged_by_time_to_equal_error(theirs, said):
    als = (CUMF_ALS, "ALS", "tensor_core", 1.0, 0.9), (CUMF_ALS, CUMF_ALS, "cg", theirs, 0.9)
    sgd = (CUMF_SGD, "SGD", "fast", 1.0, 0.9), (CUMF_SGD, CUMF_SGD, "batch_hogwild", theirs, 0.9)
    cu2rec = (CU2REC, "SGD", "cu2rec", 1.0, 0.9), (CU2REC, CU2REC, "early_bird", theirs, 0.9)
    for name, of in (("als", als), ("sgd", sgd), ("cu2rec", cu2rec)):
        assert word(f"programs-{name}-time", frame(*of)) == said
        assert word(f"programs-{name}-time", frame(of[0])) == "missing"
    assert word("programs-cu2rec-step", frame(*cu2rec)) == "measured"
    for rmse, verdict in ((0.902, "replicated"), (0.92, "not replicated")):
        ours = (CUMF_ALS, "ALS", "cumf_cg", 1.0, rmse)
        assert word("programs-als-rmse", frame(ours, als[1])) == verdict
