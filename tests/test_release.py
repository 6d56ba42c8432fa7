"""What a release says of itself agrees: version, publications, supported Pythons; what make says."""

import re
import shutil
import subprocess
import tomllib

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

import gpumf
from support import ROOT, outside_make

yaml = pytest.importorskip("yaml")  # a machine that only runs the GPU tests may not have it

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())
NEWEST = re.search(r"^## \[(\d.*?)\] - (\S+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


def test_the_version_is_written_down_once_for_the_package_and_repeated_where_people_look():
    assert PROJECT["project"]["dynamic"] == ["version"] and "version" not in PROJECT["project"]
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "src/gpumf/__init__.py"
    assert CITATION["version"] == NEWEST[1]
    here = Version(gpumf.__version__)
    assert here == Version(NEWEST[1]) or (here.is_devrelease and here > Version(NEWEST[1]))
    assert str(CITATION["date-released"]) == NEWEST[2]


def test_the_citation_names_the_publications_of_the_book():
    def plain(title):
        return re.sub(r"[\W_]+", " ", title).strip().lower()

    own = (ROOT / "book/references.bib").read_text().split("% Systems")[0]
    titles = re.findall(r"title\s*=\s*\{(.*?)\},?\n\s*(?:\w+\s*=|\})", own, re.DOTALL)
    assert [plain(reference["title"]) for reference in CITATION["references"]] == [*map(plain, titles)]


def test_the_classifiers_are_the_pythons_that_are_allowed():
    named = [c.split()[-1] for c in PROJECT["project"]["classifiers"] if re.search(r":: 3\.\d+$", c)]
    allowed = SpecifierSet(PROJECT["project"]["requires-python"])
    assert named == [version for version in (f"3.{minor}" for minor in range(20)) if version in allowed]


def test_workflows_run_what_a_checkout_runs():
    jobs = [yaml.safe_load(path.read_text())["jobs"] for path in (ROOT / ".github/workflows").iterdir()]
    commands = [step["run"] for of in jobs for job in of.values() for step in job["steps"] if "run" in step]
    assert ".ci/run" in commands and "make book" in commands


def make(*words, folder=ROOT):
    environment = {key: value for key, value in outside_make().items() if key != "PYTHONPATH"}
    return subprocess.run(["make", *words], cwd=folder, env=environment, capture_output=True, text=True)


def copied_to(folder):
    """What `make` needs to set up an environment there."""
    shutil.copy(ROOT / "Makefile", folder)
    for name in ("requirements.lock", "requirements-cuda12.lock", "requirements-cuda13.lock", "pyproject.toml"):
        (folder / name).touch()


needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


@needs_make
@pytest.mark.parametrize("target", ["test", "book", "lint", "test-wheel"])
def test_an_interpreter_without_packages_is_told_what_to_install(target, tmp_path):
    python = tmp_path / "python"  # an interpreter that sees no packages
    python.write_text('#!/bin/sh\nexec python3 -I -S "$@"\n')
    python.chmod(0o755)
    done = make(target, f"PYTHON={python}")
    assert done.returncode == 2
    said, _ = done.stderr.split("\nmake: ")
    assert re.fullmatch(r".*/python lacks .*: install what gpumf needs with `.*`, or leave PYTHON away, and .*", said)


@needs_make
def test_a_finished_set_up_is_left_alone_by_whoever_waited_for_it(tmp_path):
    """The second of two finds all done, and nothing to install."""
    copied_to(tmp_path)
    (tmp_path / "build").mkdir()
    # Holds the lock until it has finished the set-up.
    code = (
        "import fcntl, time; lock = open('build/set-up.lock', 'w'); fcntl.flock(lock, fcntl.LOCK_EX); "
        "print('locked', flush=True); input(); import os; os.mkdir('.venv'); "
        "[open(f'.venv/.ready-requirements{of}.lock', 'w') for of in ('', '-cuda12', '-cuda13')]"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(["python3", "-c", code], cwd=tmp_path, **pipes) as first:
        assert first.stdout.readline() == "locked\n"
        command = ["make", ".venv/.ready-requirements.lock"]
        with subprocess.Popen(
            command, cwd=tmp_path, env=outside_make(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as second:
            assert "Waiting for another set-up" in second.stdout.readline()
            first.communicate("\n")
            said, error = second.communicate(timeout=300)
    assert (second.returncode, said, error) == (0, "", "")


@needs_make
@pytest.mark.parametrize("target", [".venv/.ready-requirements.lock", "clean"])
def test_an_environment_that_make_did_not_set_up_stays(target, tmp_path):
    copied_to(tmp_path)
    mine = tmp_path / ".venv/bin/mine"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    done = make(target, folder=tmp_path)
    assert done.returncode == 2 and "did not set up .venv, and leaves it" in done.stderr and mine.exists()
    (tmp_path / ".venv/.ready-requirements.lock").touch()
    for folder in ("src", "tests", "book"):
        (tmp_path / folder).mkdir()
    assert make("clean", folder=tmp_path).returncode == 0
    assert not (tmp_path / ".venv").exists()
