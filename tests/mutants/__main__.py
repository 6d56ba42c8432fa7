"""Plants single faults and counts how many the tests notice: `make mutants ARGS="--jobs 2 --only src/gpumf/models"`.

Each fault is put into a copy of the tree, in which the tests run that reach the function it is in, quickest first,
until one fails: a few seconds of `make test` for every fault, then more for those that none has noticed, then what
`make test-all` adds. Which tests reach what is measured once and kept in build/mutants, as are the outcomes: a run
that was interrupted, or ended by --minutes, goes on where it was, and shows what survived to tests that are new. The
score, and the faults that no test noticed, go to data/results/<device>/mutants.json.
"""

import argparse
import ast
import itertools
import json
import os
import random
import re
import subprocess
import sys
import time
from bisect import bisect
from collections import defaultdict
from pathlib import Path

import faults
from faults import ROOT
from runs import BUILD, Chosen, Reach, copied, in_children, preload, restore, sha, tracked

TARGET, STRETCH = 0.85, 0.95
_STAGES = ("not slow", 8), ("not slow", 60), ("slow", 60)
"""Which tests a fault is shown to, and for how many seconds of them, as they were measured."""
_COMPILING = 300  # seconds more for those of a fault in what Numba compiles
_PARTS = 1, 8  # seconds of tests after which a run ends and the next begins: an early failure spares reading files
_NOT_RUN = ("tests/book", "tests/mutants", "tests/test_environment.py", "tests/backends/test_gpu_sanitize.py")
_NOT_RUN += ("tests/backends/test_nvrtc.py",)  # minutes of compiling what compiles with every planted fault


def reach_of(trees, tier):
    """The tests of a tier, and of those before: seconds, what each reaches, digest of its file, by id."""
    kept = BUILD / "reach.json"
    known = json.loads(kept.read_text()) if kept.exists() else {}
    files = [name for name in tracked("tests") if Path(name).name.startswith("test_") and name.endswith(".py")]
    shas = {name: sha((ROOT / name).read_bytes()) for name in files if not name.startswith(_NOT_RUN)}
    none = {"tiers": [], "tests": {}}
    known = {
        name: known[name] if known.get(name, none).get("sha") == of else {"sha": of, **none}
        for name, of in shas.items()
    }

    def work(name, _):
        options = ["-q", "-m", tier]
        return f"reach-{name.replace('/', '-')}", lambda tree: Reach(tree, [name]), False, options, 1200

    def done(name, tree, status, tests, seconds):
        print(f"{name}, {tier}: {len(tests or {})} tests, {seconds:.0f} s", flush=True)
        of = known[name]
        known[name] = of | {"tiers": [*of["tiers"], tier], "tests": of["tests"] | (tests or {})}
        kept.write_text(json.dumps(known))

    in_children([name for name in known if tier not in known[name]["tiers"]], trees, work, done)
    return {
        node: {
            "seconds": min(max(test["seconds"], 0.01), 600),
            "reached": {name.replace(".<locals>", "") for name in test["reached"]},
            "sha": file["sha"],
        }
        for file in known.values()
        for node, test in file["tests"].items()
    }


def included(path):
    """The sources, those for tests among them, that include a header, or the source itself."""
    if not path.endswith((".cuh", ".h")):
        return {path}
    line = f'#include "{path.removeprefix("kernels/")}"'
    others = [name for name in tracked("kernels", "tests/kernels") if line in (ROOT / name).read_text()]
    return set().union(*map(included, others))


def files_naming(fault):
    """The files of tests that name what the statement of a fault, outside functions, binds in its module."""
    tree = ast.parse((ROOT / fault.path).read_bytes())
    (of,) = (node for node in tree.body if node.lineno <= fault.line <= node.end_lineno)
    names = {node.id for node in ast.walk(of) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    word = re.compile(rf"\b({'|'.join(names or [Path(fault.path).stem])})\b")
    return {name for name in tracked("tests") if name.endswith(".py") and word.search((ROOT / name).read_text())}


def tests_for(fault, tests, max_seconds):
    """The ids of the tests that may notice a fault, quick and small ones first, of at most so many seconds."""
    like = {fault.path} if fault.path.endswith(".py") else included(fault.path)
    if fault.path.endswith(".cpp"):
        like = {f"src/gpumf/backends/cpu/{name}.py" for name in ("als", "sgd")}
        like |= {"src/gpumf_study/experiments/gpumf/cpu_baselines.py"}
    function, stem = fault.function, Path(fault.path).stem
    naming = set() if function or not fault.path.endswith(".py") else files_naming(fault)
    # One that is compiled is reached by what makes it.
    while function and not any(f"{fault.path}:{function}" in test["reached"] for test in tests.values()):
        function = function.rpartition(".")[0]
    reaching, near = [], []
    for node, test in tests.items():
        if f"{fault.path}:{function}" in test["reached"] or test["reached"] & like or node.split("::")[0] in naming:
            reaching.append(node)
        elif f"[{stem}]" in node or any(name.split(":")[0] in like for name in test["reached"]):
            near.append(node)

    def order(node):
        """A test of little else is likely to be about this."""
        mirrors = f"test_{stem}.py" in node or (stem == "__init__" and Path(fault.path).parent.name in node)
        return tests[node]["seconds"] * len(tests[node]["reached"]) * (0.1 if mirrors else 1)

    chosen, total = [], 0.0
    for nodes in (reaching, near if not reaching or ".py" not in fault.path or "cpu/" in fault.path else []):
        for node in sorted(nodes, key=order):
            if total + tests[node]["seconds"] <= max_seconds or not chosen:
                chosen.append(node)
                total += tests[node]["seconds"]
    return chosen


def summed_up(outcomes):
    """noticed, drawn and score by part of the tree, and in all."""
    parts = defaultdict(list)
    for outcome in outcomes:
        for part in (outcome["group"], "all"):
            parts[part].append(outcome["outcome"] == "noticed")
    return {
        part: {"noticed": sum(of), "run": len(of), "score": round(sum(of) / len(of), 4)} for part, of in parts.items()
    }


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes at a time")
    parser.add_argument("--only", default="", help="faults of files whose paths begin so")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="after which no further fault is planted")
    parser.add_argument("--list", action="store_true", help="print the faults and plant none")
    chosen = parser.parse_args(arguments)

    every = [*faults.drawn(chosen.seed), *faults.planted()]
    random.Random(chosen.seed).shuffle(every)  # so that a part of a run is a fair sample
    wanted = [fault for fault in every if fault.path.startswith(chosen.only)]
    if chosen.list:
        for fault in wanted:
            print(f"{fault.id} {fault.path}:{fault.line} {fault.kind}: {fault.old!r} -> {fault.new!r}")
        return
    # In a process of its own: what is forked from this one has yet to import the package.
    command = [sys.executable, "-c", "import json, gpumf_study.results as r; print(json.dumps(r.provenance()))"]
    before = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)
    BUILD.mkdir(parents=True, exist_ok=True)
    trees = [copied(slot) for slot in range(chosen.jobs)]
    code = sha(*((ROOT / name).read_bytes() for name in tracked("src", "kernels")))
    kept = BUILD / f"outcomes-{code}-{chosen.seed}.json"
    outcomes = json.loads(kept.read_text()) if kept.exists() else {}
    print(f"{len(every)} faults, {len(outcomes)} done", flush=True)
    latest = time.monotonic() + 60 * chosen.minutes

    def to_show(fault):
        """The tests that a fault was not shown to yet, as they are."""
        shown = outcomes.get(fault.id, {}).get("shown", ())
        return [node for node in tests_for(fault, tests, most) if f"{node} {tests[node]['sha']}" not in shown]

    def work(fault, tree):
        nodes = to_show(fault)
        parts, total = defaultdict(list), 0.0
        for node in nodes:
            parts[bisect(_PARTS, total)].append(node)
            total += tests[node]["seconds"]
        content = (ROOT / fault.path).read_bytes()
        (tree / fault.path).write_bytes(fault.applied(content))
        limit = int(30 + 3 * total) + (_COMPILING if re.search(b"njit|vectorize", content) else 0)
        options = ["-x", "-q", "--no-header", "--tb=line"]
        plugin = lambda tree: Chosen([*parts.values()])  # noqa: E731
        return fault.id, plugin, fault.path == "src/gpumf/_util/jit.py", options, limit

    def done(fault, tree, status, by, seconds):
        restore(fault.path, tree)
        nodes = to_show(fault)
        # 0: all tests passed; 5: there was none.
        noticed = bool(nodes) and status not in (0, 5)
        shown = [*outcomes.get(fault.id, {}).get("shown", ()), *(f"{node} {tests[node]['sha']}" for node in nodes)]
        outcomes[fault.id] = {
            name: getattr(fault, name) for name in ("path", "line", "function", "kind", "old", "new", "group")
        }
        outcomes[fault.id] |= {
            "outcome": "noticed" if noticed else "survived",
            "by": (by or ("too long" if status is None else "the process ended")) if noticed else None,
            "quick": tier == "not slow",
            "shown": shown,
        }
        kept.write_text(json.dumps(outcomes))
        count = sum(one["outcome"] == "noticed" for one in outcomes.values())
        print(
            f"{len(outcomes)}/{len(every)} {count / len(outcomes):.1%} {outcomes[fault.id]['outcome']:8} "
            f"{seconds:5.1f} s {fault.path}:{fault.line} {fault.kind}: {fault.old!r} -> {fault.new!r}"[:230],
            flush=True,
        )

    preload()
    for tier, most in _STAGES:
        tests = reach_of(trees, tier)
        left = [fault for fault in wanted if outcomes.get(fault.id, {}).get("outcome") != "noticed"]
        left = [fault for fault in left if fault.id not in outcomes or to_show(fault)]
        print(f"{len(left)} to be shown to tests ({tier}) of {most} s", flush=True)
        in_children(itertools.takewhile(lambda _: time.monotonic() < latest, left), trees, work, done)
    of_these = [outcomes[fault.id] for fault in every if fault.id in outcomes]
    facts = {
        "seed": chosen.seed,
        "drawn": len(every),
        "target": TARGET,
        "stretch": STRETCH,
        "scores": summed_up(of_these),
        "by_quick_tests": summed_up(one | {"outcome": one["outcome"] * one["quick"]} for one in of_these),
        "survivors": [
            {key: one[key] for key in ("path", "line", "function", "kind", "old", "new")}
            | {"tests": len(one["shown"])}
            for one in of_these
            if one["outcome"] != "noticed"
        ],
    }
    from gpumf_study import results

    results.store_tests("mutants", facts, before)
    for part, score in facts["scores"].items():
        print(f"{part}: {score['noticed']} of {score['run']} noticed, {score['score']:.1%}")


if __name__ == "__main__":
    main()
