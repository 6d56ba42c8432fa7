"""Plants single faults and counts how many the tests notice: `make mutants ARGS="--jobs 2 --only src/gpumf/models"`.

Each fault is put into a copy of the tree, in which the tests run that reach the function it is in, quickest first,
until one fails: a few seconds of them for every fault, then more for those that none has noticed. Which tests reach
what is measured once and kept in build/mutants, as are the outcomes: a run that was interrupted, or ended by
--minutes, goes on where it was. The score, and the faults that no test noticed, go to
data/results/<device>/mutants.json.
"""

import argparse
import itertools
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections import defaultdict

import faults
from faults import ROOT
from reach import in_parts, reach_of, tests_for
from runs import in_children, preload
from trees import BUILD, copied, sha, tracked

TARGET, STRETCH = 0.85, 0.95
_FEW_SECONDS, _MAX_SECONDS = 8, 60  # of tests that a fault is shown to, as they were measured
_COMPILING = 300  # seconds more for those of a fault in what Numba compiles


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
    parser.add_argument("--seconds", type=float, default=_MAX_SECONDS, help="of tests that a fault is shown to")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="after which no further fault is planted")
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
        "import json; from gpumf_study import results; print(json.dumps(results.provenance()))",
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
    if chosen.survivors:
        outcomes = {name: one for name, one in outcomes.items() if one["outcome"] == "noticed"}
    print(f"{len(every)} faults, {len(outcomes)} done; {len(tests)} tests", flush=True)

    def to_show(fault, most):
        """The tests of `most` seconds that a fault was not shown to, and the seconds of them."""
        nodes, seconds = tests_for(fault, tests, most)
        if fault.id in outcomes:
            before, spent = tests_for(fault, tests, outcomes[fault.id]["max_seconds"])
            nodes, seconds = [node for node in nodes if node not in set(before)], seconds - spent
        return nodes, max(seconds, 0)

    def work(fault, tree):
        nodes, seconds = to_show(fault, most)
        target, outcome = tree / fault.path, BUILD / f"{fault.id}.txt"
        outcome.unlink(missing_ok=True)
        target.write_bytes(fault.applied((ROOT / fault.path).read_bytes()))

        def plugin(plugins):
            made = plugins.Chosen()
            made.finish = lambda status: outcome.write_text(made.noticed or "")
            return made

        options = ["-x", "-q", "--no-header", "--tb=line"]
        is_compiled = re.search("njit|vectorize", (ROOT / fault.path).read_text()) is not None
        limit = int(30 + 3 * seconds) + (_COMPILING if is_compiled else 0)
        return in_parts(nodes, tests), plugin, fault.path, BUILD / f"{fault.id}.log", options, limit

    def done(fault, tree, status, seconds):
        shutil.copyfile(ROOT / fault.path, tree / fault.path)
        if fault.path.startswith("src/"):
            os.utime(tree / fault.path, (1e9, 1e9))
        outcome = BUILD / f"{fault.id}.txt"
        by = outcome.read_text() if outcome.exists() else ""
        outcome.unlink(missing_ok=True)
        nodes, _ = tests_for(fault, tests, most)
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
            "max_seconds": most,
            "seconds": round(seconds, 1),
        }
        kept.write_text(json.dumps(outcomes))
        count = sum(one["outcome"] == "noticed" for one in outcomes.values())
        print(
            f"{len(outcomes)}/{len(every)} {count / len(outcomes):.1%} {outcomes[fault.id]['outcome']:8} "
            f"{seconds:5.1f} s {fault.path}:{fault.line} {fault.kind}: {fault.old!r} -> {fault.new!r}"[:230],
            flush=True,
        )

    latest = time.monotonic() + 60 * chosen.minutes
    for most in sorted({min(_FEW_SECONDS, chosen.seconds), chosen.seconds}):
        left = [fault for fault in wanted if outcomes.get(fault.id, {}).get("max_seconds", 0) < most]
        left = [fault for fault in left if outcomes.get(fault.id, {}).get("outcome") != "noticed"]
        print(f"{len(left)} to be shown to tests of {most:g} s", flush=True)
        in_children(itertools.takewhile(lambda _: time.monotonic() < latest, left), slots, work, done)
    of_these = [outcomes[fault.id] for fault in every if fault.id in outcomes]
    survivors = [one for one in of_these if one["outcome"] != "noticed"]
    facts = {
        "seed": chosen.seed,
        "drawn": len(every),
        "target": TARGET,
        "stretch": STRETCH,
        "scores": summed_up(of_these),
        "survivors": [
            {key: one[key] for key in ("path", "line", "function", "kind", "old", "new", "tests", "max_seconds")}
            for one in survivors
        ],
    }
    from gpumf_study import results

    results.store_tests("mutants", facts, before)
    for part, score in facts["scores"].items():
        print(f"{part}: {score['noticed']} of {score['run']} noticed, {score['score']:.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
