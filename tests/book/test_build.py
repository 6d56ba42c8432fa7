"""book/build.py runs what changed, once, and loses nothing that is finished: on a project of two tiny notebooks."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from support import ROOT

# A machine that only runs the GPU tests may have neither.
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("papermill")
yaml = pytest.importorskip("yaml")

BUILD = ROOT / "book/build.py"
sys.path.insert(0, str(BUILD.parent))
spec = importlib.util.spec_from_file_location("build", BUILD)
build = importlib.util.module_from_spec(spec)
spec.loader.exec_module(build)
sys.path.remove(str(BUILD.parent))

# Each run of a notebook leaves a line in runs.txt: its name and the parameters that it saw.
LOG = "open('{runs}', 'a').write(f'{{name}} {{profile}} {{repeats!r}}\\n')"


def write_notebook(project, name, *code):
    new_code_cell, new_markdown_cell = nbformat.v4.new_code_cell, nbformat.v4.new_markdown_cell
    cells = [
        new_markdown_cell(f"# Chapter {Path(name).name}"),
        new_code_cell('profile = "quick"\nrepeats = 1', metadata={"tags": ["parameters"]}),
        new_code_cell(f"name = {Path(name).name!r}\n{LOG.format(runs=project / 'runs.txt')}"),
        *map(new_code_cell, code),
    ]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), project / "book" / f"{name}.ipynb")


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with the chapters one and two, without data of its own and without this repository's."""
    monkeypatch.delenv("GPUMF_DATA", raising=False)
    # What build.py puts there is gone again after the test.
    monkeypatch.setenv("JUPYTER_PATH", "")
    monkeypatch.setenv("GPUMF_RECORD", "")
    for folder in ("book/a", "src/gpumf", "kernels/als", "data/results/a-gpu", "data/raw", "figures/drawings"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "src/gpumf/model.py").write_text("factors = 16\n")
    (tmp_path / "kernels/als/als.cu").write_text("// one\n")
    (tmp_path / "data/results/a-gpu/als.csv").write_text("seconds\n1\n")
    (tmp_path / "data/raw/ratings.csv").write_text("1,1,5\n")
    (tmp_path / "figures/als.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg" width="10" height="10"/>')
    (tmp_path / "book/_config.yml").write_text('title: Tiny\nexecute: {execute_notebooks: "off"}\n')
    (tmp_path / "book/_toc.yml").write_text(
        "format: jb-book\nroot: intro\nparts:\n- caption: All\n  chapters:\n  - file: one\n  - file: a/two\n"
    )
    (tmp_path / "book/intro.md").write_text("# Tiny\n\n![als](../figures/als.svg)\n")
    write_notebook(tmp_path, "one")
    write_notebook(tmp_path, "a/two")
    return tmp_path


@pytest.fixture
def execute(project):
    """Run build.py without rendering: its exit status and what it ran, as lines of runs.txt."""

    def execute(*options):
        runs = project / "runs.txt"
        runs.write_text("")
        status = build.main(["--profile", "quick", "--execute-only", str(project / "out"), *options], root=project)
        return status, runs.read_text().splitlines()

    return execute


def test_runs_each_notebook_once_and_then_only_what_changed(project, execute):
    assert execute() == (0, ["one quick 1", "two quick 1"])
    assert execute() == (0, [])
    write_notebook(project, "a/two", "print('changed')")
    assert execute() == (0, ["two quick 1"])
    assert execute("--profile", "full") == (0, ["one full 1", "two full 1"])


@pytest.mark.parametrize(
    "changed",
    ["src/gpumf/model.py", "kernels/als/als.cu", "figures/drawings/warps.svg", "data/results/a-gpu/als.csv",
     "data/raw/ratings.csv"],
)  # fmt: skip
def test_what_every_notebook_depends_on(project, changed):
    before = build.shared_key(project)
    assert build.shared_key(project) == before
    (project / changed).write_text("something else\n")
    assert build.shared_key(project) != before


def test_a_data_file_of_the_same_size_and_a_new_time_has_changed(project):
    path = project / "data/raw/ratings.csv"
    before, facts = build.shared_key(project), path.stat()
    path.write_text("1,1,4\n")
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns + 1))
    assert path.stat().st_size == facts.st_size and build.shared_key(project) != before


def test_caches_and_the_place_of_the_data_change_nothing(project, tmp_path, monkeypatch):
    before = build.shared_key(project)
    (project / "src/gpumf/__pycache__").mkdir()
    (project / "src/gpumf/__pycache__/model.pyc").write_bytes(b"compiled")
    assert build.shared_key(project) == before
    monkeypatch.setenv("GPUMF_DATA", str(tmp_path / "elsewhere"))
    assert build.shared_key(project) == before
    (project / "data/raw").rename(tmp_path / "elsewhere")
    assert build.shared_key(project) == before


@pytest.mark.slow
def test_the_executed_copy_is_complete_and_the_source_untouched(project, execute):
    write_notebook(project, "one", "print(6 * 7)")
    source = (project / "book/one.ipynb").read_bytes()
    execute("--only", "one")
    assert (project / "book/one.ipynb").read_bytes() == source
    (executed,) = (project / "out").iterdir()
    assert executed.name == "one.ipynb"
    assert nbformat.read(executed, as_version=4).cells[-2].outputs[0].text == "42\n"


@pytest.mark.slow
def test_only_runs_one_chapter_with_parameters_read_as_yaml(execute):
    execute()
    assert execute("--only", "two", "-p", "repeats", "3.0") == (0, ["two quick 3"])
    assert execute("--only", "a/two", "-p", "repeats", "3") == (0, ["two quick 3"])
    assert execute("--only", "two", "-p", "repeats", "3") == (0, ["two quick 3"])
    assert execute() == (0, ["two quick 1"])


def test_wrong_names_are_told(execute, capsys):
    with pytest.raises(SystemExit, match=r"no notebook 'three'.*one, a/two"):
        execute("--only", "three")
    with pytest.raises(SystemExit):
        execute("-p", "repeats", "3")
    assert "-p goes with --only" in capsys.readouterr().err
    wrong = {
        ("repeat", "3"): "one: it has no parameter repeat; it has profile, repeats",
        ("repeats", "three"): "one: repeats must be a whole number above 0, as 1, not 'three'",
        ("profile", "fast"): "one: profile must be smoke, quick or full, not 'fast'",
    }
    for given, message in wrong.items():
        with pytest.raises(SystemExit, match=message):
            execute("--only", "one", "-p", *given)


@pytest.mark.slow
def test_a_failing_notebook_is_named_and_the_others_are_kept(project, execute, capsys):
    write_notebook(project, "one", "1 / 0")
    assert execute() == (1, ["one quick 1", "two quick 1"])
    error = capsys.readouterr().err
    assert "one.ipynb failed" in error and "In [4]" in error and "ZeroDivisionError" in error
    write_notebook(project, "one")
    assert execute() == (0, ["one quick 1"])


@pytest.mark.slow
def test_an_interrupted_build_goes_on_where_it_stopped(project, execute):
    write_notebook(project, "a/two", "import time; time.sleep(600)")
    # Whoever runs the tests in the background has told them not to listen.
    command = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    command += f"import build, pathlib, sys; sys.exit(build.main(root=pathlib.Path({str(project)!r})))"
    options = ["--profile", "quick", "--execute-only", str(project / "out")]
    process = subprocess.Popen(
        [sys.executable, "-c", command, *options],
        env={**os.environ, "PYTHONPATH": str(BUILD.parent)},
        stderr=subprocess.PIPE,
        text=True,
    )
    runs, deadline = project / "runs.txt", time.monotonic() + 300
    while not (runs.exists() and "two" in runs.read_text()) and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=300)
    assert process.returncode == 130 and "Interrupted" in error
    write_notebook(project, "a/two")
    assert execute() == (0, ["two quick 1"])


KILLS = int(os.environ.get("GPUMF_KILLS", "2"))


@pytest.mark.slow
def test_a_build_that_is_killed_at_any_point_loses_no_finished_chapter(project):
    """GPUMF_KILLS=20 tries more points."""
    names = [f"chapter{k}" for k in range(2 * KILLS + 2)]
    (project / "book/_toc.yml").write_text(yaml.safe_dump([{"file": "intro"}, *({"file": name} for name in names)]))
    log = "import os; open('../attempts.txt', 'a').write(f'{name} {os.environ[\"ATTEMPT\"]}\\n')"
    for name in names:
        write_notebook(project, name, log)
    attempts, out, rng = project / "attempts.txt", project / "out", np.random.default_rng(0)
    attempts.touch()
    command = f"import build, pathlib, sys; sys.exit(build.main(root=pathlib.Path({str(project)!r})))"
    command = [sys.executable, "-c", command, "--profile", "quick", "--execute-only", str(out)]

    def finished():
        return {name for name in names if build.executed_key(out / f"{name}.ipynb")}

    for attempt in range(KILLS + 1):
        before, last = finished(), attempt == KILLS
        process = subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": str(BUILD.parent), "ATTEMPT": str(attempt)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        begun = f" {attempt}\n"  # a chapter, by this build: one that was killed before may leave a kernel behind
        while process.poll() is None and (last or attempts.read_text().count(begun) < 1 + attempt % 2):
            time.sleep(0.01)
        time.sleep(0 if last else rng.uniform(0, 0.7))
        process.kill()
        process.wait()
        ran = {line.split()[0] for line in attempts.read_text().splitlines() if line.endswith(begun.strip("\n"))}
        assert ran and not ran & before and before <= finished()
    assert process.returncode == 0 and finished() == set(names)


@pytest.mark.slow
def test_recording_measures_anew_and_tells_the_notebooks(project, execute):
    write_notebook(project, "one", "import os; print(os.environ.get('GPUMF_RECORD'))")
    execute()
    assert execute("--record")[1] == ["one quick 1", "two quick 1"]
    assert nbformat.read(project / "out/one.ipynb", as_version=4).cells[-2].outputs[0].text == "1\n"


@pytest.mark.slow
def test_relative_data_folder_means_the_same_inside_a_notebook(project, execute, monkeypatch):
    monkeypatch.chdir(project)
    monkeypatch.setenv("GPUMF_DATA", "data/raw")
    write_notebook(project, "one", "import os; print(os.environ['GPUMF_DATA'])")
    execute("--only", "one")
    printed = nbformat.read(project / "out/one.ipynb", as_version=4).cells[-2].outputs[0].text
    assert printed == f"{project / 'data/raw'}\n"


def test_what_the_build_did_not_write_stays(tmp_path):
    pages, written = tmp_path / "book", tmp_path / "written.json"
    build.mirror({pages / "a.md": b"a", pages / "deep/b.md": b"b"}, {pages / "c.ipynb"}, written)
    for name in ("c.ipynb", "mine.md", "deep/mine.md"):
        (pages / name).write_text(name)
    build.mirror({pages / "a.md": b"other"}, (), written)
    left = {path.relative_to(pages).as_posix(): path.read_text() for path in pages.rglob("*") if path.is_file()}
    assert left == {"a.md": "other", "mine.md": "mine.md", "deep/mine.md": "deep/mine.md"}


@pytest.mark.book
def test_pages_are_rendered_when_they_changed_and_only_then(project, capfd):
    def render():
        status = build.main(["--profile", "quick"], root=project)
        return status, "Rendering" in capfd.readouterr().out

    index = project / "build/quick/_build/html/index.html"
    assert render() == (0, True)
    assert index.is_file() and (index.parent / "_images/als.svg").is_file()
    assert "Chapter one" in (index.parent / "one.html").read_text()
    assert render() == (0, False)

    (project / "book/intro.md").write_text("# Tiny\n\nNow [broken](nowhere.md).\n")
    assert render() == (1, True), "a warning of Sphinx is an error"
    assert render() == (1, True), "and stays one until it is mended"
    (project / "book/intro.md").write_text("# Tiny, mended\n")
    assert render() == (0, True)
    assert "mended" in (index.parent / "intro.html").read_text()

    for style in ("body { color: red }", "body { color: tan }"):
        (project / "book/_static").mkdir(exist_ok=True)
        (project / "book/_static/own.css").write_text(style)
        assert render() == (0, True)
        assert (index.parent / "_static/own.css").read_text() == style


@pytest.mark.book
def test_a_chapter_that_never_ran_is_rendered_without_results(project, capfd):
    assert build.main(["--profile", "quick", "--only", "one"], root=project) == 0
    assert "Chapter two" in (project / "build/quick/_build/html/a/two.html").read_text()
    assert build.main(["--profile", "quick"], root=project) == 0
    assert (project / "runs.txt").read_text() == "one quick 1\ntwo quick 1\n"


@pytest.mark.book
def test_a_chapter_that_failed_is_rendered_as_failed_until_it_runs(project, capfd):
    write_notebook(project, "one", "raise OSError('no C++ compiler')")
    assert build.main(["--profile", "quick"], root=project) == 1
    page = project / "build/quick/_build/html/one.html"
    assert "Failed: one" in capfd.readouterr().err
    assert "Chapter one" in page.read_text() and "OSError: no C++ compiler" in page.read_text()
    assert "How this page was run" in (page.parent / "a/two.html").read_text()
    write_notebook(project, "one")
    assert build.main(["--profile", "quick", "--only", "one"], root=project) == 0
    assert f"The page: {page}\n" in capfd.readouterr().out
    assert "C++ compiler" not in page.read_text()


EXPERIMENT = """import pathlib
from gpumf_study import experiments, results
results.repository = lambda: pathlib.Path("..").resolve()
experiments.run("{name}", profile)
"""


@pytest.mark.slow
def test_parameters_of_the_experiments_of_a_chapter(project, execute):
    write_notebook(project, "one", EXPERIMENT.format(name="rating_counts"))
    of_one = "rating_counts.data", "ml-100k-synthetic"
    ran, _ = execute("--only", "one", "-p", "repeats", "2", "-p", *of_one, "-p", "points", "7")
    assert ran == 0
    facts = json.loads(next(project.glob("data/live/*/gpumf/rating_counts.json")).read_text())
    assert facts["parameters"] == {"data": ["ml-100k-synthetic"], "points": 7, "profile": "quick"}
    cells = nbformat.read(project / "out/one.ipynb", as_version=4).cells
    assert cells[2].metadata.tags == ["injected-parameters"], "what differs from the cell above is shown"
    said = cells[-1].source
    assert "`repeats = 2`" in said and "| `rating_counts` | `data = ['ml-100k-synthetic']`, `points = 7` |" in said
    for wrong in (("points", "[7]"), ("rating_counts.points", "few")):
        with pytest.raises(SystemExit, match="one: points must be a whole number above 0"):
            execute("--only", "one", "-p", *wrong)
    with pytest.raises(SystemExit, match=r"no parameter speedups.data; .*; rating_counts has data, points"):
        execute("--only", "one", "-p", "speedups.data", "ml-100k")


@pytest.mark.parametrize("name", build.notebooks(ROOT / "book"))
def test_every_chapter_takes_its_own_parameters_as_they_are(name):
    path = ROOT / f"book/{name}.ipynb"
    own = build.chapter.own(path)
    assert own["profile"] == "quick"
    given = build.chapter.parameters(path, own)
    assert {key: value for key, value in given.items() if key != "profile"} == {
        key: value for key, value in own.items() if key != "profile"
    }


def test_the_documented_call_is_understood():
    given = {"profile": "quick", "repeats": 3}
    assert build.chapter.parameters(ROOT / "book/method.ipynb", given) == given


@pytest.mark.slow
def test_lines_take_the_place_of_bars_where_nobody_watches(execute, capfd):
    execute()
    err = capfd.readouterr().err
    assert "\r" not in err and "(1 of 2)\n" in err and "a/two: " in err


def test_prose_of_a_chapter_that_never_ran_has_dashes_for_numbers():
    prose = "# Title\n\nIt takes {glue:text}`seconds:.1f` s, `seconds` times {glue:text}`n` ({numref}`fig-a`)."
    cells = [nbformat.v4.new_code_cell("# hidden"), nbformat.v4.new_markdown_cell(prose)]
    given = nbformat.writes(nbformat.v4.new_notebook(cells=cells)).encode()
    _, title, box = nbformat.reads(build.chapter.not_run(given, "learn/als"), 4).cells
    assert title.source == "# Title\n\nIt takes – s, `seconds` times – (–)."
    assert box.source.startswith(":::{note}\nThis page was not run") and "make notebook NB=learn/als" in box.source
    _, title, box = nbformat.reads(build.chapter.not_run(given, "learn/als", "no\nNameError: x"), 4).cells
    assert box.source.startswith("````{error}\n") and "NameError: x" in box.source


def test_a_notebook_that_is_downloaded_carries_its_numbers():
    kept = {"text/plain": "0.12345"}
    number = nbformat.v4.new_output("display_data", kept, metadata={"scrapbook": {"name": "error"}})
    name = nbformat.v4.new_output("display_data", {"text/plain": "'ml-1m'"}, metadata={"scrapbook": {"name": "data"}})
    cells = [
        nbformat.v4.new_code_cell("numbers(error=error)", outputs=[number, name], execution_count=1),
        nbformat.v4.new_code_cell("profile = 'quick'", metadata={"tags": ["injected-parameters"]}),
        nbformat.v4.new_markdown_cell("{glue:text}`error:.2f` on {glue:text}`data` ({numref}`fig-a`, {cite}`cumf`)"),
        nbformat.v4.new_markdown_cell("{download}`Another notebook <../a.ipynb>` goes on."),
    ]
    notebook = build.chapter.with_numbers(nbformat.v4.new_notebook(cells=cells))
    assert [cell.source for cell in notebook.cells][1] == "0.12 on ml-1m (the figure, [cumf])"
    assert notebook.cells[2].source == "Another notebook goes on."
    assert len(notebook.cells) == 3 and not notebook.cells[0].outputs and notebook.cells[0].execution_count is None
    nbformat.validate(notebook)
    assert cells[0].outputs, "the notebook itself keeps them"


@pytest.mark.parametrize("damage", [b"", b'{"cells": [', b"[]", b"\xff\xfe", b'{"metadata": 1}'])
def test_a_damaged_copy_is_named_and_counts_as_none(damage, tmp_path, capsys):
    (tmp_path / "one.ipynb").write_bytes(damage)
    assert build.executed_key(tmp_path / "one.ipynb") is None
    assert "one.ipynb is damaged and made again" in capsys.readouterr().err


def test_builds_wait_for_each_other(tmp_path, capsys):
    code = "import build, pathlib, sys\nwith build.alone(pathlib.Path(sys.argv[1])): print('alone')"
    environment = os.environ | {"PYTHONPATH": str(BUILD.parent)}
    with build.alone(tmp_path):
        command = [sys.executable, "-c", code, str(tmp_path)]
        other = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert "Waiting for another build" in other.stderr.readline()
        assert other.poll() is None
    assert other.communicate(timeout=300)[0] == "alone\n"
    with build.alone(tmp_path):
        assert capsys.readouterr().err == ""


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()  # which stops even root
    with pytest.raises(SystemExit, match=r"built in .*file/build, which cannot be written"):
        build.alone(tmp_path / "file/build").__enter__()
