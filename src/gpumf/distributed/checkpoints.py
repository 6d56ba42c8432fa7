"""A training's newest state in a file that all workers see."""

import hashlib
from pathlib import Path

import numpy as np

from gpumf.models import storage


def _expected(model, facts):
    """What tells one training from another: parameters, solver, and a hash of the ratings' counts and ids."""
    digest = hashlib.sha256()
    for array in (facts.user_counts, facts.item_counts, facts.user_ids, facts.item_ids):
        digest.update(np.ascontiguousarray(array.astype(str) if array.dtype == object else array).tobytes())
    ratings = [facts.n_users, facts.n_items, facts.nnz, facts.mean, digest.hexdigest()]
    return {"parameters": model._parameters, "solver": model.solver, "ratings": ratings}


def write(path, model, facts, arrays, rows, best):
    """Write a checkpoint, whole or not at all, in the place of the one before.

    arrays : what the model has learned, on the host; rows : its history
    best : (arrays, row of the history) to keep, or None
    """
    header = {"model": type(model).__name__, "rows": rows, "best": best and best[1], **_expected(model, facts)}
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
        other = [name for name, value in _expected(model, facts).items() if header[name] != value]
        best = header["best"] and (tuple(arrays[f"best_{name}"] for name in model._arrays), header["best"])
        found = tuple(arrays[name] for name in model._arrays), header["rows"], best
    if other:
        raise ValueError(f"{path} is of another training, of other {other[0]}; give another path, or remove it")
    return found
