"""A training's newest state in a file that all workers see."""

import hashlib
from pathlib import Path

import numpy as np

from gpumf._util.counter_rng import splitmix64
from gpumf.models import storage
from gpumf.ratings.columns import in_pieces


def digest_of(arrays):
    """SHA-256 of arrays, of which those of objects count as strings."""
    digest = hashlib.sha256()
    for array in arrays:
        plain = np.ascontiguousarray(array.astype(str) if array.dtype == object else array)
        digest.update(repr((plain.shape, plain.dtype.str)).encode())
        digest.update(plain.data)
    return digest.hexdigest()


def digest_of_ratings(comm, ratings):
    """A number for ratings of which every worker has some, the same in any order and for any division.

    ratings : Ratings, on the host
    """

    def hashes(part):
        pairs = ratings.users[part].astype(np.uint64) << np.uint64(32) | ratings.items[part].astype(np.uint64)
        return splitmix64(splitmix64(pairs) ^ ratings.values[part].view(np.uint32)).sum()

    sums = np.array(in_pieces(hashes, ratings.nnz), np.uint64).sum(keepdims=True)
    comm.all_reduce(sums)  # of 64 bits, and what is beyond them is lost on any number of workers
    return int(sums[0])


def training(model, facts, train, validation, keep, start):
    """What tells one training from another, as JSON has it.

    train, validation : of `digest_of_ratings`
    start : what it goes on from, None for a training from the start
    """
    bounds = np.asarray(facts.bounds, float).tolist()
    return {
        "parameters": model._parameters,
        "solver": model.solver,
        "ratings": [train, *bounds, digest_of((facts.user_ids, facts.item_ids))],
        "validation": validation,
        "keep": keep,
        "start": start,
    }


def write(path, model, of, arrays, rows, best):
    """Write a checkpoint, whole or not at all, in the place of the one before.

    of : of `training`
    arrays : what the model has learned, on the host; rows : its history
    best : (arrays, row of the history) to keep, or None
    """
    header = {"model": type(model).__name__, "rows": rows, "best": best and best[1], **of}
    named = dict(zip(model._arrays, arrays, strict=True))
    if best:
        named |= {f"best_{name}": array for name, array in zip(model._arrays, best[0], strict=True)}
    storage.write(path, header, named)


def read(path, model, of, epochs):
    """(arrays, rows, best) of a checkpoint; None where there is none.

    Raises
    ------
    ValueError : the file is damaged, or is of another model or training, or of more epochs
    """
    if not Path(path).exists():
        return None
    header, arrays = storage.read(path, type(model).__name__)
    other = [name for name, value in of.items() if header.get(name, ()) != value]
    if other:
        raise ValueError(
            f"{path} is of another training, of other {', '.join(other)}; give another path, or remove it"
        )
    with storage.damage_of(path):
        best = header["best"] and (tuple(arrays[f"best_{name}"] for name in model._arrays), header["best"])
        found = tuple(arrays[name] for name in model._arrays), header["rows"], best
        done = header["rows"][-1]["epoch"]
    if done > epochs:
        raise ValueError(
            f"{path} has {done} epochs of this training, more than the {epochs} in all that are asked for; ask for "
            "more, give another path, or remove it"
        )
    return found
