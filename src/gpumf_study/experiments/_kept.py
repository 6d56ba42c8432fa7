"""What a run is not to do twice: drawing a large data set, and what it had measured when it was stopped.

Both lie in build, which is no part of the repository.
"""

import hashlib
import json
import pickle
import shutil
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np

import gpumf
from gpumf._util import counter_rng
from gpumf.ratings import Ratings, synthetic
from gpumf_study import results

_ARRAYS = "users", "items", "values", "test_mask"
_FACTS = "n_users", "n_items", "scale", "name", "sha256"
_SOURCES = ".py", ".toml", ".cpp", ".h"


def drawn(name, draw):
    """Return the synthetic data set of a name: what draw() gave on this machine before, by the same code."""
    folder = _folder("drawn", name, _code())
    if not folder.exists():
        ratings = draw()
        with _whole(folder) as partial:
            partial.mkdir(parents=True)
            for array in _ARRAYS:
                if (values := getattr(ratings, array)) is not None:
                    np.save(partial / f"{array}.npy", values)
            (partial / "facts.json").write_text(json.dumps({fact: getattr(ratings, fact) for fact in _FACTS}))
        return ratings
    facts = json.loads((folder / "facts.json").read_text())
    facts["scale"] = tuple(facts["scale"])
    return Ratings(**{path.stem: np.load(path) for path in folder.glob("*.npy")}, **facts)


def _code():
    """What tells the text of all that decides what is drawn."""
    return _texts([*sorted(Path(synthetic.__file__).parent.glob("*.py")), Path(counter_rng.__file__)])


@contextmanager
def measured(name, parameters, modules=()):
    """Keep what `once` makes in the body, for the next run; drop it when the body ends without an error.

    A piece is taken by a run of the same code, parameters, packages, GPU, CPU model and number of cores. So
    `build/measured` can be carried to another machine of the same kind. Nothing is kept where the tree has changes.

    name : of the experiment
    modules : paths of the modules of the study that decide what is measured
    """
    global _run
    now = results.provenance()
    if not now["clean"]:
        yield
        return
    machine = [now.get(key) for key in ("gpu", "cpu", "cpu_count", "experiments_at_a_time", "packages")]
    facts = [*machine, _texts([*_package(), *modules]), now.get("kernels_sha256"), parameters]
    _run = _Run(_folder("measured", name, facts), {"started": now.get("started"), "commit": now["commit"]})
    try:
        yield
        shutil.rmtree(_run.folder, ignore_errors=True)
    finally:
        _run = None


def once(key, make):
    """Return make(), or what it gave in a run of this experiment that was stopped: see `measured`.

    key : str, unique in the run; what make returns is pickled
    """
    if _run is None or key in _run.origins:
        return make()
    path = _run.folder / f"{key}.pkl"
    if path.exists():
        origin, made = pickle.loads(path.read_bytes())
    else:
        begun = time.monotonic()
        made = make()
        origin = _run.own | {"seconds": time.monotonic() - begun}
        with _whole(path) as partial:
            partial.write_bytes(pickle.dumps((origin, made)))
    _run.origins[key] = origin
    return made


class Unfinished(Exception):
    """A recording whose other runs are processes to come."""


def of_processes(runs, make):
    """What make() gives in so many runs of an experiment, each a process of its own: a list.

    Where pieces are kept, a process that has made one ends with `Unfinished` while others are missing. Else all are
    made here.
    """
    found = []
    for number in range(runs):
        key = f"run-{number}"
        found.append(once(key, make))
        missing = runs - number - 1
        if missing and _run is not None and _run.origins[key]["started"] == _run.own["started"]:
            raise Unfinished(f"{number + 1} of {runs} runs are measured and kept: start it again for the next one.")
    return found


def origins():
    """What provenance says of a result whose pieces come from several runs; nothing where they come from one.

    Return a dict with 'pieces': runs, the number of processes; first, when the first one started; their commits; and
    the seconds that pieces took in other processes than this one
    """
    runs = {of["started"]: of["commit"] for of in [*_run.origins.values(), _run.own]} if _run else {}
    if len(runs) < 2:
        return {}
    seconds = sum(of["seconds"] for of in _run.origins.values() if of["started"] != _run.own["started"])
    commits = sorted({*runs.values()})
    return {"pieces": {"runs": len(runs), "first": min(runs), "commits": commits, "seconds": round(seconds, 3)}}


@dataclass
class _Run:
    """The run that keeps its pieces: their folder, its own origin, and the origin of each piece by its key."""

    folder: Path
    own: dict
    origins: dict = field(default_factory=dict)


_run = None


@cache
def _package():
    """The files of the package whose text decides what its functions do; no experiment runs its command."""
    package = Path(gpumf.__file__).parent
    found = (path for path in package.rglob("*") if path.suffix in _SOURCES)
    return sorted(path for path in found if package / "command_line" not in path.parents)


def _texts(paths):
    """The SHA-256 of all these files, one after another."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()


def _folder(kind, name, facts):
    digest = hashlib.sha256(json.dumps(facts).encode()).hexdigest()
    return results.repository() / "build" / kind / f"{name}-{digest[:16]}"


@contextmanager
def _whole(path):
    """Give a path beside this one, which takes its place when the body is done: never is half of it there.

    Of two processes at a time, the first one's stays.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".partial-", dir=path.parent) as folder:
        partial = Path(folder) / path.name
        yield partial
        try:
            partial.replace(path)
        except OSError:
            if not path.is_dir():
                raise
