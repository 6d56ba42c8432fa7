"""Which tests reach what, and the tests that a fault is shown to."""

import json
from bisect import bisect
from collections import defaultdict
from pathlib import Path

from faults import ROOT
from runs import in_children
from trees import BUILD, sha, tracked

_NOT_RUN = ("tests/book", "tests/mutants", "tests/test_environment.py", "tests/backends/test_gpu_sanitize.py")
_NOT_RUN += ("tests/backends/test_nvrtc.py",)  # minutes of compiling what compiles with every planted fault
_PARTS = 1, 8  # seconds of tests after which a run ends and the next begins: an early failure spares reading files


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

        return [[name]], plugin, None, BUILD / f"{Path(name).stem}-reach.log", ["-q"], 1200

    def done(name, tree, status, seconds):
        outcome = BUILD / f"{Path(name).stem}-reach.json"
        tests = json.loads(outcome.read_text()) if outcome.exists() else {}
        print(f"{name}: {len(tests)} tests, {seconds:.0f} s", flush=True)
        known[name] = {"sha": shas[name], "tests": tests}
        kept.write_text(json.dumps(known))

    in_children(jobs, slots, work, done)
    tests = {node: test for file in known.values() for node, test in file["tests"].items()}
    return {
        node: {
            "seconds": min(max(test["seconds"], 0.01), 600),
            "reached": {name.replace(".<locals>", "") for name in test["reached"]},
        }
        for node, test in tests.items()
    }


def included(path):
    """The sources, those for tests among them, that include a header, or the source itself."""
    if not path.endswith((".cuh", ".h")):
        return {path}
    name, found = path.removeprefix("kernels/"), set()
    for other in tracked("kernels", "tests/kernels"):
        if f'#include "{name}"' in (ROOT / other).read_text():
            found |= included(other)
    return found


def tests_for(fault, tests, max_seconds):
    """The tests that may notice a fault, quick and small ones first, of at most so many seconds: ids, seconds."""
    like = {fault.path} if fault.path.endswith(".py") else included(fault.path)
    if fault.path.endswith(".cpp"):
        like = {f"src/gpumf/backends/cpu/{name}.py" for name in ("als", "sgd")} | {
            "src/gpumf_study/experiments/gpumf/cpu_baselines.py"
        }
    reached, function = {node: test["reached"] for node, test in tests.items()}, fault.function
    # One that is compiled is reached by what makes it.
    while function and not any(f"{fault.path}:{function}" in functions for functions in reached.values()):
        function = function.rpartition(".")[0]
    reaching, near = [], []
    for node, functions in reached.items():
        if f"{fault.path}:{function}" in functions or functions & like:
            reaching.append(node)
        elif f"[{Path(fault.path).stem}]" in node or any(name.split(":")[0] in like for name in functions):
            near.append(node)
    stem = Path(fault.path).stem

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
    return chosen, total


def in_parts(nodes, tests):
    """The nodes in the lists that are run one after the other, see `_PARTS`."""
    parts, total = defaultdict(list), 0.0
    for node in nodes:
        parts[bisect(_PARTS, total)].append(node)
        total += tests[node]["seconds"]
    return [*parts.values()]
