"""Where a result says that it comes from: the sources that made it, as they were before, and its own numbers."""

import json
import subprocess
from types import SimpleNamespace

import pandas as pd
import pytest

from gpumf_study import experiments, results
from support import GpuRecord


def git(folder, *words):
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", "-C", folder, *identity, *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit(folder):
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "a", "--allow-empty")
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Another repository, in which the process runs."""
    folder = tmp_path / "another"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / ".gitignore").write_text("ignored\n")
    commit(folder)
    monkeypatch.chdir(folder)
    for name in ("GPUMF_COMMIT", "GPUMF_RECORD", "GIT_DIR", "GIT_WORK_TREE"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A repository that holds the package's sources, and where its results go."""
    folder = tmp_path / "project"
    for package in ("gpumf", "gpumf_study"):
        (folder / "src" / package).mkdir(parents=True)
    for path in ("src/gpumf_study/results.py", "pyproject.toml", "data.py"):
        (folder / path).write_text("")
    git(folder, "init", "-q")
    commit(folder)
    monkeypatch.setattr(results, "__file__", str(folder / "src/gpumf_study/results.py"))
    monkeypatch.setattr(results, "repository", lambda: folder)
    return folder


def said():
    facts = results.provenance()
    return facts["commit"], facts["clean"]


def test_the_command_is_said_without_its_folder(monkeypatch):
    monkeypatch.setattr("sys.argv", ["/deep/program", "first", "second"])
    assert results.provenance()["command"] == "program first second"


def test_what_ran_beside_is_said(monkeypatch):
    monkeypatch.delenv("GPUMF_EXPERIMENTS_AT_A_TIME", raising=False)
    assert results.provenance()["experiments_at_a_time"] == 1
    monkeypatch.setenv("GPUMF_EXPERIMENTS_AT_A_TIME", "4")
    assert results.provenance()["experiments_at_a_time"] == 4


def test_the_commit_is_that_of_the_packages_sources(project, here, monkeypatch):
    head = git(project, "rev-parse", "HEAD")
    assert said() == (head, True) and head != git(here, "rev-parse", "HEAD")
    monkeypatch.setenv("GIT_DIR", str(here / ".git"))  # as in a hook of that repository
    monkeypatch.setenv("GIT_WORK_TREE", str(here))
    assert said() == (head, True)


def test_the_tree_is_looked_at_each_time(project):
    assert said() == (git(project, "rev-parse", "HEAD"), True)
    (project / "data/results").mkdir(parents=True)
    (project / "data/results/a.csv").write_text("a\n")
    assert said()[1]  # results are written meanwhile
    (project / "src/gpumf/new.py").write_text("")
    git(project, "config", "status.showUntrackedFiles", "no")
    assert not said()[1]
    head = commit(project)
    assert said() == (head, True)
    (project / "src/gpumf_study/results.py").write_text("changed\n")
    assert said() == (head, False)


@pytest.mark.parametrize("ignored", ["ignored", "packages"])
def test_an_installed_package_has_no_commit_of_the_repository_around_it(ignored, here, monkeypatch):
    folder = here / ignored / "lib/site-packages/gpumf"
    folder.mkdir(parents=True)
    (folder / "results.py").write_text("")
    monkeypatch.setattr(results, "__file__", str(folder / "results.py"))
    assert said() == (None, False)
    result = results.Result(here / "x.csv", pd.DataFrame(), results.provenance(), live=True)
    assert result.where.endswith(", commit unknown.")


def test_an_experiment_is_of_the_commit_before_its_run(project, monkeypatch):
    before, experiment = git(project, "rev-parse", "HEAD"), experiments.module("theoretical_flops")
    run = experiment.run

    def with_a_commit_meanwhile(**parameters):
        (project / "src/gpumf_study/results.py").write_text("changed\n")
        commit(project)
        return run(**parameters)

    monkeypatch.setattr(experiment, "run", with_a_commit_meanwhile)
    facts = experiments.run("theoretical_flops").provenance
    assert (facts["commit"], facts["clean"]) == (before, True) != said()
    assert facts["duration_seconds"] > 0


def test_a_run_of_the_gpu_tests_is_of_the_commit_before_it(project):
    before, record = git(project, "rev-parse", "HEAD"), GpuRecord()
    (project / "src/gpumf_study/results.py").write_text("changed\n")
    assert commit(project) != before
    record.pytest_sessionfinish()
    facts = json.loads((results.folder(live=False) / "gpu_tests.json").read_text())
    assert (facts["commit"], facts["clean"], facts["passed"]) == (before, True, 0)


def test_a_file_of_gpu_tests_that_cannot_be_imported_counts_as_failed(project):
    record = GpuRecord()
    for failed, name in ((False, "tests/good.py"), (True, "tests/bad.py")):
        record.pytest_collectreport(SimpleNamespace(failed=failed, nodeid=name))
    record.pytest_sessionfinish()
    facts = json.loads((results.folder(live=False) / "gpu_tests.json").read_text())
    assert (facts["failed"], facts["failures"]) == (1, ["tests/bad.py"])


def test_a_csv_that_was_edited_is_named(project):
    frame = pd.DataFrame({"repeat": [0, 1], "seconds": [1.5, 2.5]})
    results.store("x", frame, {}, results.provenance(), live=False, source="cumf")
    stored = results.load("x", results.device_name())
    pd.testing.assert_frame_equal(stored.frame, frame)
    path = results.folder(live=False) / "cumf/x.csv"
    path.write_text(path.read_text().replace("2.5", "0.5"))
    for read in (results.load, results.recorded):
        with pytest.raises(ValueError, match=r"cumf/x\.csv was changed since it was measured"):
            read("x", results.device_name())
