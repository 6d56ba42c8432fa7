"""Plants single faults and counts how many the tests notice: `make mutants ARGS="--jobs 2 --only src/gpumf/models"`.

Each fault is put into a copy of the tree, in which the tests run that reach the function it is in, quickest first,
until one fails. Which tests reach what is measured once and kept in build/mutants, as are the outcomes: a run that
was interrupted goes on where it was. The score, and the faults that no test noticed, go to
data/results/<device>/mutants.json.
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import faults
from faults import ROOT

BUILD = ROOT / "build/mutants"
TARGET, STRETCH = 0.85, 0.95
_MOST_SECONDS = 60  # of tests that a fault is shown to, as they were measured
_NOT_RUN = ("tests/book", "tests/mutants", "tests/test_environment.py", "tests/gpu/test_gpu_sanitize.py")
_COMPILES = ("cached_njit", "cached_vectorize", "njit")


def sha(*contents):
    return hashlib.sha256(b"\0".join(contents)).hexdigest()[:16]


def tracked(*folders):
    """Files of the working tree, those that git does not know yet among them."""
    words = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *folders]
    names = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return sorted({name for name in names if (ROOT / name).is_file()})


def copied(slot):
    """A copy of the working tree with the repository's history, for one fault after another."""
    to = BUILD / f"tree-{slot}"
    if not to.exists():
        subprocess.run(["git", "clone", "--quiet", "--shared", ROOT, to], check=True)
    subprocess.run(["git", "fetch", "--quiet", "origin", "HEAD"], cwd=to, check=True)
    subprocess.run(["git", "reset", "--quiet", "--hard", "FETCH_HEAD"], cwd=to, check=True)
    here = set(tracked())
    for name in subprocess.run(["git", "ls-files"], cwd=to, capture_output=True, text=True).stdout.splitlines():
        if name not in here:
            (to / name).unlink()
    for name in here:
        if not (to / name).exists() or (to / name).read_bytes() != (ROOT / name).read_bytes():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, to / name)
        if name.startswith("src/"):  # Numba tells sources by their times
            os.utime(to / name, (1e9, 1e9))
    return to


# Numba's cache, one for all faults but those of what it compiles


def compiled_modules():
    """The modules whose functions Numba compiles, with what these may inline: a dict of path -> names imported."""
    texts = {path: (ROOT / path).read_text() for path in tracked("src/gpumf") if path.endswith(".py")}
    found = {path for path, text in texts.items() if any(word in text for word in _COMPILES)}
    found |= {"src/gpumf/hashing.py"}
    return {
        path: {
            other
            for other in found - {path}
            if other.removeprefix("src/").removesuffix(".py").replace("/", ".") in texts[path]
            or other.endswith("__init__.py")
        }
        for path in found
    }


def numba_folder(path):
    """The cache for a fault in `path` (None: no fault), without what may have inlined it."""
    whole, modules = BUILD / "numba", compiled_modules()
    if path not in modules:
        return whole
    stale = {path}
    while more := {other for other, uses in modules.items() if uses & stale} - stale:
        stale |= more
    folder = BUILD / f"numba-{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)
    stems = tuple(f"{Path(name).stem}." for name in stale)
    for file in whole.rglob("*"):
        if file.is_file() and not file.name.startswith(stems):
            to = folder / file.relative_to(whole)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, to)
    return folder


# Runs


def preload():
    """What every test imports, once for all."""
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


def child(tree, files, plugin, path, log, options):
    """Run pytest in a copy of the tree, in this process, which ends with it; returns nothing."""
    os.setsid()
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
        import plugin as plugins
        import pytest

        folder = numba_folder(path)
        made = plugin(plugins)
        if path != "src/gpumf/compiled.py":
            plugins.share_compiled(folder)
        status = pytest.main([*options, "-p", "no:cacheprovider", "-p", "no:xdist", *files], plugins=[made])
        if folder.name != "numba":
            shutil.rmtree(folder, ignore_errors=True)
        made.finish(int(status))
    except BaseException as error:  # a fault may make an import fail
        print(f"{type(error).__name__}: {error}", flush=True)
    finally:
        sys.stdout.flush()
        os._exit(int(status))


def in_children(jobs, slots, work, done):
    """work(job, tree) in child processes, a tree a child; done(job, status, seconds) after each, None for too long.

    work returns the child's arguments and its limit in seconds.
    """
    free, running, waiting = list(slots), {}, list(jobs)[::-1]
    while waiting or running:
        while free and waiting:
            job, tree = waiting.pop(), free.pop()
            arguments, limit = work(job, tree)
            pid = os.fork()
            if pid == 0:
                child(tree, *arguments)
            running[pid] = job, tree, time.monotonic(), limit
        time.sleep(0.05)
        for pid, (job, tree, started, limit) in list(running.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            seconds = time.monotonic() - started
            if not ended and seconds < limit:
                continue
            if not ended:
                os.killpg(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            del running[pid]
            free.append(tree)
            done(job, tree, os.waitstatus_to_exitcode(status) if ended else None, seconds)


# Which tests reach what


def reach_of(slots, measured):
    """The tests, their seconds and what they reach; unless those `measured` shall do, changed files are run again."""
    kept = BUILD / "reach.json"
    known = json.loads(kept.read_text()) if kept.exists() else {}
    files = [name for name in tracked("tests") if Path(name).name.startswith("test_") and name.endswith(".py")]
    files = [name for name in files if not name.startswith(_NOT_RUN)]
    known = {name: known[name] for name in files if name in known}
    shas = {name: sha((ROOT / name).read_bytes()) for name in files}
    jobs = [name for name in files if known.get(name, {}).get("sha") != shas[name] and not measured]

    def work(name, tree):
        outcome = BUILD / f"{Path(name).stem}-reach.json"
        outcome.unlink(missing_ok=True)

        def plugin(plugins):
            reach = plugins.Reach(tree)
            reach.finish = lambda status: outcome.write_text(json.dumps(reach.tests))
            return reach

        return ([name], plugin, None, BUILD / f"{Path(name).stem}-reach.log", ["-q"]), 1200

    def done(name, tree, status, seconds):
        outcome = BUILD / f"{Path(name).stem}-reach.json"
        tests = json.loads(outcome.read_text()) if outcome.exists() else {}
        print(f"{name}: {len(tests)} tests, {seconds:.0f} s", flush=True)
        known[name] = {"sha": shas[name], "tests": tests}
        kept.write_text(json.dumps(known))

    in_children(jobs, slots, work, done)
    tests = {node: test for file in known.values() for node, test in file["tests"].items()}
    return {node: test | {"seconds": min(max(test["seconds"], 0.01), 600)} for node, test in tests.items()}


def included(path):
    """The sources of kernels/ that include a header, or the source itself."""
    if not path.endswith((".cuh", ".h")):
        return {path}
    name, found = path.removeprefix("kernels/"), set()
    for other in tracked("kernels"):
        if f'#include "{name}"' in (ROOT / other).read_text():
            found |= included(other)
    return found


def tests_for(fault, tests, most_seconds):
    """The tests that may notice a fault, quickest first, of at most so many seconds: list of node ids."""
    like = {fault.path} if fault.path.endswith(".py") else included(fault.path)
    if fault.path.endswith(".cpp"):
        like = {f"src/gpumf/cpu/{name}.py" for name in ("als", "sgd")} | {
            "src/gpumf/experiments/gpumf/cpu_baselines.py"
        }
    reached = {node: {name.replace(".<locals>", "") for name in test["reached"]} for node, test in tests.items()}
    known, function = set().union(*reached.values()), fault.function
    while function and f"{fault.path}:{function}" not in known:  # one that is compiled is reached by what makes it
        function = function.rpartition(".")[0]
    reaching, near = [], []
    for node, functions in reached.items():
        if f"{fault.path}:{function}" in functions or functions & like:
            reaching.append(node)
        elif any(name.split(":")[0] in like for name in functions):
            near.append(node)
    stem = Path(fault.path).stem

    def order(node):
        mirrors = f"test_{stem}.py" in node or (stem == "__init__" and Path(fault.path).parent.name in node)
        return tests[node]["seconds"] * (0.3 if mirrors else 1)

    chosen, total = [], 0.0
    for nodes in (reaching, near if not reaching or ".py" not in fault.path or "cpu/" in fault.path else []):
        for node in sorted(nodes, key=order):
            if total + tests[node]["seconds"] <= most_seconds or not chosen:
                chosen.append(node)
                total += tests[node]["seconds"]
    return chosen, total


# The outcome


def summed_up(outcomes):
    """noticed, drawn and score by part of the tree, and in all."""
    parts = defaultdict(lambda: [0, 0])
    for outcome in outcomes:
        for part in (outcome["group"], "all"):
            parts[part][0] += outcome["outcome"] == "noticed"
            parts[part][1] += 1
    return {
        part: {"noticed": noticed, "run": run, "score": round(noticed / run, 4)}
        for part, (noticed, run) in parts.items()
    }


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes at a time")
    parser.add_argument("--only", default="", help="faults of files whose paths begin so")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=_MOST_SECONDS, help="of tests that a fault is shown to")
    parser.add_argument("--survivors", action="store_true", help="show those unnoticed so far to the tests again")
    parser.add_argument("--measured", action="store_true", help="run only tests of which it is known what they reach")
    parser.add_argument("--list", action="store_true", help="print the faults and plant none")
    parser.add_argument("--reach", action="store_true", help="only measure which tests reach what")
    chosen = parser.parse_args(arguments)

    every = [*faults.drawn(chosen.seed), *faults.planted()]
    random.Random(chosen.seed).shuffle(every)  # so that a part of a run is a fair sample
    wanted = [fault for fault in every if fault.path.startswith(chosen.only)]
    if chosen.list:
        for fault in wanted:
            print(f"{fault.id} {fault.path}:{fault.line} {fault.kind}: {fault.old!r} -> {fault.new!r}")
        return 0
    BUILD.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable,
        "-c",
        "import json; from gpumf import results; print(json.dumps(results.provenance()))",
    ]
    before = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)
    slots = [copied(slot) for slot in range(chosen.jobs)]
    preload()
    tests = reach_of(slots, chosen.measured)
    if chosen.reach:
        return 0

    code = sha(*((ROOT / name).read_bytes() for name in tracked("src", "kernels")))
    kept = BUILD / f"outcomes-{code}-{chosen.seed}.json"
    outcomes = json.loads(kept.read_text()) if kept.exists() else {}
    left = [
        fault
        for fault in wanted
        if fault.id not in outcomes or (chosen.survivors and outcomes[fault.id]["outcome"] != "noticed")
    ]
    print(f"{len(every)} faults, {len(outcomes)} done, {len(left)} to go; {len(tests)} tests", flush=True)

    def work(fault, tree):
        nodes, seconds = tests_for(fault, tests, chosen.seconds)
        target, outcome = tree / fault.path, BUILD / f"{fault.id}.txt"
        outcome.unlink(missing_ok=True)
        target.write_bytes(fault.applied((ROOT / fault.path).read_bytes()))

        def plugin(plugins):
            made = plugins.Chosen(nodes)
            made.finish = lambda status: outcome.write_text(made.noticed or "")
            return made

        files = list(dict.fromkeys(node.split("::")[0] for node in nodes))
        options = ["-x", "-q", "--no-header", "--tb=line"]
        return (files, plugin, fault.path, BUILD / f"{fault.id}.log", options), 60 + 4 * seconds

    def done(fault, tree, status, seconds):
        shutil.copyfile(ROOT / fault.path, tree / fault.path)
        if fault.path.startswith("src/"):
            os.utime(tree / fault.path, (1e9, 1e9))
        outcome = BUILD / f"{fault.id}.txt"
        by = outcome.read_text() if outcome.exists() else ""
        outcome.unlink(missing_ok=True)
        nodes, _ = tests_for(fault, tests, chosen.seconds)
        # 0: all tests passed; 5: there was none.
        noticed = bool(nodes) and status not in (0, 5)
        outcomes[fault.id] = {
            "path": fault.path,
            "line": fault.line,
            "function": fault.function,
            "kind": fault.kind,
            "old": fault.old,
            "new": fault.new,
            "group": fault.group,
            "outcome": "noticed" if noticed else "survived",
            "by": (by or ("too long" if status is None else "the process ended")) if noticed else None,
            "tests": len(nodes),
            "seconds": round(seconds, 1),
        }
        kept.write_text(json.dumps(outcomes))
        count = sum(one["outcome"] == "noticed" for one in outcomes.values())
        print(
            f"{len(outcomes)}/{len(every)} {count / len(outcomes):.1%} {outcomes[fault.id]['outcome']:8} "
            f"{seconds:5.1f} s {fault.path}:{fault.line} {fault.kind}: {fault.old!r} -> {fault.new!r}"[:230],
            flush=True,
        )

    in_children(left, slots, work, done)
    of_these = [outcomes[fault.id] for fault in every if fault.id in outcomes]
    survivors = [one for one in of_these if one["outcome"] != "noticed"]
    facts = {
        "seed": chosen.seed,
        "drawn": len(every),
        "target": TARGET,
        "stretch": STRETCH,
        "seconds_of_tests": chosen.seconds,
        "scores": summed_up(of_these),
        "survivors": [
            {key: one[key] for key in ("path", "line", "function", "kind", "old", "new", "tests")}
            for one in survivors
        ],
    }
    from gpumf import results

    results.store_tests("mutants", facts, before)
    for part, score in facts["scores"].items():
        print(f"{part}: {score['noticed']} of {score['run']} noticed, {score['score']:.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
