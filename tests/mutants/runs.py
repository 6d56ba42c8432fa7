"""Runs of pytest in child processes that have all but the package imported already."""

import os
import resource
import signal
import sys
import time

from trees import BUILD

_PATIENCE = 20  # seconds of the clock for each that a child may use, on a machine that others use


def preload():
    """What every test imports, once for all; the products of NumPy on one core, which never waits for another."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    import h5py  # noqa: F401
    import hypothesis  # noqa: F401
    import matplotlib
    import numba  # noqa: F401
    import pandas  # noqa: F401
    import pyarrow  # noqa: F401
    import pytest  # noqa: F401
    import scipy.sparse  # noqa: F401

    matplotlib.use("Agg")
    import matplotlib.pyplot


def child(tree, parts, plugin, path, log, options, limit):
    """Run pytest in a copy of the tree, in this process, which ends with it; returns nothing.

    Parameters
    ----------
    parts : of the tests, lists of files or node ids, one run each; the first that fails is the last
    path : of the fault, or None
    limit : seconds of processors
    """
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    status = 3
    try:
        os.chdir(tree)
        os.environ["PYTHONPATH"] = os.pathsep.join([f"{tree}/src", os.environ.get("PYTHONPATH", "")])
        sys.dont_write_bytecode = True
        sys.path[:0] = [f"{tree}/src", f"{tree}/tests"]
        sys.argv = ["pytest"]
        import numba
        import plugin as plugins
        import pytest

        made = plugin(plugins)
        if path != "src/gpumf/_util/jit.py":
            numba.config.CACHE_DIR = str(BUILD / "numba")  # one for all faults: sources are a part of its keys
        status = 0
        for made.nodes in parts:
            files = dict.fromkeys(node.split("::")[0] for node in made.nodes)
            status = pytest.main([*options, "-p", "no:cacheprovider", "-p", "no:xdist", *files], plugins=[made])
            if status not in (0, 5):  # passed; no test
                break
        made.finish(int(status))
    except BaseException as error:  # a fault may make an import fail
        status = 3
        print(f"{type(error).__name__}: {error}", flush=True)
    finally:
        sys.stdout.flush()
        os._exit(int(status))


def in_children(jobs, slots, work, done):
    """work(job, tree) in child processes, a tree a child; done(job, tree, status, seconds) after each.

    work returns the child's arguments, the last one of which is its limit; status is None where it took too long, and
    seconds are those of processors.
    """
    free, running, waiting, job = list(slots), {}, iter(jobs), True
    while job is not None or running:
        while free and (job := next(waiting, None)) is not None:
            tree = free.pop()
            arguments = work(job, tree)
            pid = os.fork()
            if pid == 0:
                child(tree, *arguments)
            running[pid] = job, tree, time.monotonic() + _PATIENCE * arguments[-1]
        time.sleep(0.02)
        for pid, (job, tree, latest) in list(running.items()):
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
            done(job, tree, None if late else status, used.ru_utime + used.ru_stime)
