"""What a run is not to do twice on a machine: drawing a large data set, and what it had measured when it was stopped.

Both lie in build, which is no part of the repository.
"""

import hashlib
import json
import pickle
import platform
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from gpumf._util import counter_rng
from gpumf.ratings import Ratings, synthetic
from gpumf_study import results

_ARRAYS = "users", "items", "values", "test_mask"
_FACTS = "n_users", "n_items", "scale", "name", "sha256"


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
    """The text of all that decides what is drawn."""
    paths = [*sorted(Path(synthetic.__file__).parent.glob("*.py")), Path(counter_rng.__file__)]
    return [path.read_text(encoding="utf-8") for path in paths]


@contextmanager
def measured(name, parameters):
    """Give a function once(key, make) that returns make(), or what it gave in a run before that was stopped.

    That run was of the same commit and parameters on the same machine. What it measured is dropped when the body ends
    without an error. Nothing is kept where the tree has changes, since the commit does not tell the code then.

    key : str, unique in the run; what make returns is pickled
    """
    now = results.provenance()
    if not now["clean"]:
        yield lambda key, make: make()
        return
    folder = _folder("measured", name, [now["commit"], platform.node(), now.get("gpu"), parameters])

    def once(key, make):
        path = folder / f"{key}.pkl"
        if path.exists():
            return pickle.loads(path.read_bytes())
        made = make()
        with _whole(path) as partial:
            partial.write_bytes(pickle.dumps(made))
        return made

    yield once
    shutil.rmtree(folder, ignore_errors=True)


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
