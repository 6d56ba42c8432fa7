"""Runs of pytest in copies of the tree, by forked processes that have imported all but the package already."""

import functools
import hashlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from faults import ROOT

BUILD = ROOT / "build/mutants"
_PATIENCE = 20  # seconds of the clock for each that a child may use, on a machine that others use


def sha(*contents):
    return hashlib.sha256(b"\0".join(contents)).hexdigest()[:16]


def tracked(*folders, root=ROOT):
    """Files of the working tree, those that git does not know yet among them."""
    words = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *folders]
    names = subprocess.run(words, cwd=root, capture_output=True, text=True, check=True).stdout.splitlines()
    return sorted({name for name in names if (root / name).is_file()})


def copied(slot):
    """A copy of the working tree with the repository's history, for one fault after another."""
    to = BUILD / f"tree-{slot}"
    if not to.exists():
        subprocess.run(["git", "clone", "--quiet", "--shared", ROOT, to], check=True)
    subprocess.run(["git", "fetch", "--quiet", ROOT, "HEAD"], cwd=to, check=True)
    subprocess.run(["git", "reset", "--quiet", "--hard", "FETCH_HEAD"], cwd=to, check=True)
    here = tracked()
    for name in {*tracked(root=to)} - {*here}:
        (to / name).unlink()
    for name in here:
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        restore(name, to)
    return to


def restore(name, tree):
    """Make a file of a copy what it is in the working tree."""
    if not (tree / name).exists() or (tree / name).read_bytes() != (ROOT / name).read_bytes():
        shutil.copyfile(ROOT / name, tree / name)
    if name.startswith("src/"):  # Numba tells sources by their times
        os.utime(tree / name, (1e9, 1e9))


def busy():
    """Seconds that processors have worked for this process and its children, whoever else they work for."""
    uses = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(use.ru_utime + use.ru_stime for use in uses)


class Reach:
    """A plugin that notes of every test that passes: seconds, functions ('path:qualified name'), kernels ('path').

    Seconds are those of `busy`. What a shared fixture reaches, and how long it takes, counts for each test that has
    it. A function that Numba compiles is reached by a call of it, and so are those that it calls.
    """

    def __init__(self, tree, files):
        self.parts, self.result, self._shared = [files], {}, {}
        self._root, self._home = f"{tree}/", f"{tree}/src/"
        self._seen, self._kernels, self._now = set(), set(), [set(), 0.0, True]
        functools.cache = self._noting_cache

    def _noting_cache(self, function):
        """functools.cache, where what a call has reached, and its seconds, count for each later one."""
        cached, known = functools.lru_cache(None)(function), {}

        @functools.wraps(function)
        def call(*arguments, **named):
            key, misses = (arguments, tuple(sorted(named.items()))), cached.cache_info().misses
            outer, started = (self._seen, self._kernels), busy()
            self._seen, self._kernels = set(), set()
            try:
                return cached(*arguments, **named)
            finally:
                if cached.cache_info().misses > misses:
                    known[key] = self._seen, self._kernels, busy() - started
                elif key in known:
                    self._now[1] += known[key][2]
                for into, of in zip(outer, known.get(key, ())[:2], strict=False):
                    into |= of
                self._seen, self._kernels = outer

        call.cache_clear, call.cache_info = cached.cache_clear, cached.cache_info
        return call

    def _event(self, frame, event, argument):
        code = frame.f_code
        if code.co_filename.startswith(self._home) and code.co_name != "<module>":
            self._seen.add(code)
            if code.co_qualname == "_Late.__call__":
                self._compiled(frame.f_locals["self"])

    def _compiled(self, late):
        function = late._function
        if function.__code__ not in self._seen:
            self._seen.add(function.__code__)
            for other in map(function.__globals__.get, function.__code__.co_names):
                if type(other).__name__ == "_Late":
                    self._compiled(other)

    def _described(self, codes):
        return {f"{code.co_filename.removeprefix(self._root)}:{code.co_qualname}" for code in codes}

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self):
        from hypothesis import settings

        from gpumf.backends import emulator

        # A few examples reach what many do.
        settings.register_profile("reach", settings.get_profile("few"), max_examples=5)
        settings.load_profile("reach")
        run = emulator.Kernel._run

        def noted(kernel, *arguments):
            source = Path(self._root, "kernels", kernel.source)  # those for tests are given by their whole path
            self._kernels.add(source.relative_to(self._root).as_posix())
            return run(kernel, *arguments)

        emulator.Kernel._run = noted

    @pytest.hookimpl(hookwrapper=True)
    def pytest_fixture_setup(self, fixturedef, request):
        before, started = (set(self._seen), set(self._kernels)), busy()
        yield
        if fixturedef.scope != "function":
            reached = self._described(self._seen - before[0]) | self._kernels - before[1]
            self._shared[fixturedef.argname] = reached, busy() - started

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item):
        self._now = [set(), 0.0, True]
        yield
        reached, seconds, passed = self._now
        reached = reached.union(*(self._shared.get(name, [()])[0] for name in getattr(item, "fixturenames", ())))
        if passed:
            self.result[item.nodeid] = {"seconds": round(seconds, 3), "reached": sorted(reached)}

    def _phase(self):
        self._seen, self._kernels = set(), set()
        started = busy()
        sys.settrace(self._event)
        yield
        sys.settrace(None)
        self._now[1] += busy() - started
        self._now[0] |= self._described(self._seen) | self._kernels

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_setup(self):
        yield from self._phase()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self):
        yield from self._phase()

    def pytest_runtest_logreport(self, report):
        self._now[2] &= report.outcome == "passed"


class Chosen:
    """A plugin that runs the tests of `parts` in their order, a run a part; `result` is the first that fails."""

    def __init__(self, parts):
        self.parts, self.result, self.nodes = parts, None, []

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        place = {node: k for k, node in enumerate(self.nodes)}
        items[:] = sorted((i for i in items if i.nodeid in place), key=lambda i: place[i.nodeid])

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.result = self.result or report.nodeid

    def pytest_collectreport(self, report):
        if report.failed:
            self.result = self.result or report.nodeid or "collection"


def preload():
    """What every test imports, once for all; the products of NumPy on one core, which never waits for another."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    import h5py  # noqa: F401
    import hypothesis  # noqa: F401
    import matplotlib
    import numba  # noqa: F401
    import pandas  # noqa: F401
    import pyarrow  # noqa: F401
    import scipy.sparse  # noqa: F401

    matplotlib.use("Agg")
    import matplotlib.pyplot


def child(tree, name, plugin, own_numba, options, limit):
    """Run pytest in a copy of the tree, in this process, which ends with it; returns nothing.

    Parameters
    ----------
    name : of the log, and of the file that the plugin's result is stored in
    plugin : a function of the tree that makes it; its parts are lists of files or node ids, and the first that fails
        is the last
    own_numba : whether what Numba compiles is kept from other runs
    limit : seconds of processors
    """
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
    log = os.open(BUILD / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    status = 3
    try:
        os.chdir(tree)
        os.environ["PYTHONPATH"] = os.pathsep.join([f"{tree}/src", os.environ.get("PYTHONPATH", "")])
        sys.dont_write_bytecode = True
        sys.path[:0] = [f"{tree}/src", f"{tree}/tests"]
        sys.argv = ["pytest"]
        import numba

        if not own_numba:
            numba.config.CACHE_DIR = str(BUILD / "numba")  # one for all faults: sources are a part of its keys
        made = plugin(tree)
        for nodes in made.parts:
            made.nodes = nodes
            files = dict.fromkeys(node.split("::")[0] for node in nodes)
            status = pytest.main([*options, "-p", "no:cacheprovider", "-p", "no:xdist", *files], plugins=[made])
            if status not in (0, 5):  # passed; no test
                break
        (BUILD / f"{name}.json").write_text(json.dumps(made.result))
    except BaseException as error:  # a fault may make an import fail
        print(f"{type(error).__name__}: {error}", flush=True)
        status = 3
    finally:
        sys.stdout.flush()
        os._exit(int(status))


def in_children(jobs, trees, work, done):
    """Run a job after the other in child processes, a tree a child.

    work(job, tree) returns the arguments of `child` behind the tree; done(job, tree, status, result, seconds) is
    called after each. The status is None where it took too long, the result where there is none; seconds are those
    of processors.
    """
    free, running, waiting, job = list(trees), {}, iter(jobs), True
    while job is not None or running:
        while free and (job := next(waiting, None)) is not None:
            tree = free.pop()
            arguments = work(job, tree)
            result = BUILD / f"{arguments[0]}.json"
            result.unlink(missing_ok=True)
            if (pid := os.fork()) == 0:
                child(tree, *arguments)
            running[pid] = job, tree, result, time.monotonic() + _PATIENCE * arguments[-1]
        time.sleep(0.02)
        for pid, (of, tree, result, latest) in list(running.items()):
            ended, status, used = os.wait4(pid, os.WNOHANG)
            if not ended and time.monotonic() < latest:
                continue
            if not ended:  # waits for what never comes
                os.killpg(pid, signal.SIGKILL)
                _, status, used = os.wait4(pid, 0)
            del running[pid]
            free.append(tree)
            status = os.waitstatus_to_exitcode(status)
            late = not ended or status == -signal.SIGXCPU
            found = json.loads(result.read_text()) if result.exists() else None
            result.unlink(missing_ok=True)
            done(of, tree, None if late else status, found, used.ru_utime + used.ru_stime)
