"""A training's newest state in a file that all workers see."""

import hashlib
from pathlib import Path

import numpy as np

from gpumf.models import storage


def fingerprint(facts):
    """What tells one training set from another: its shape, its mean and a hash of its counts and ids."""
    digest = hashlib.sha256()
    for array in (facts.user_counts, facts.item_counts, facts.user_ids, facts.item_ids):
        digest.update(np.ascontiguousarray(array.astype(str) if array.dtype == object else array).tobytes())
    return [facts.n_users, facts.n_items, facts.nnz, facts.mean, digest.hexdigest()]


def write(path, model, facts, arrays, rows, best):
    """Write a checkpoint, whole or not at all, in the place of the one before.

    Parameters
    ----------
    path : of the file
    model : that is trained
    facts : Facts of its training set
    arrays : what it has learned, on the host
    rows : its history
    best : (arrays, row of the history) to keep, or None
    """
    header = {
        "model": type(model).__name__,
        "parameters": model._parameters,
        "solver": model.solver,
        "ratings": fingerprint(facts),
        "rows": rows,
        "best": best and best[1],
    }
    named = dict(zip(model._arrays, arrays, strict=True))
    if best:
        named |= {f"best_{name}": array for name, array in zip(model._arrays, best[0], strict=True)}
    storage.write(path, header, named)


def read(path, model, facts):
    """(arrays, rows, best) of a checkpoint; None where there is none.

    Raises
    ------
    ValueError : the file is damaged, or is of another model, solver or training set
    """
    if not Path(path).exists():
        return None
    header, arrays = storage.read(path, type(model).__name__)
    with storage.damage_of(path):
        expected = {"parameters": model._parameters, "solver": model.solver, "ratings": fingerprint(facts)}
        other = [name for name in expected if header[name] != expected[name]]
        best = header["best"] and (tuple(arrays[f"best_{name}"] for name in model._arrays), header["best"])
        found = tuple(arrays[name] for name in model._arrays), header["rows"], best
    if other:
        raise ValueError(f"{path} is of another training, of other {other[0]}; give another path, or remove it")
    return found
