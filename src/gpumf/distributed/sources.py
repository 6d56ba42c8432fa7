"""Where the ratings come from, and how each worker gets those of its users and items."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gpumf.distributed.partition import owners
from gpumf.distributed.shared import SharedColumns, mapped
from gpumf.ratings.checks import DataError
from gpumf.ratings.csr import CompressedRows
from gpumf.ratings.ratings import Ratings

_COLUMNS = "user", "item", "rating"


@dataclass(frozen=True)
class Facts:
    """What all workers know of a training set: what a model asks of it, but for the ratings themselves.

    nnz, mean, scale, bounds, n_users, n_items, user_counts, item_counts : as of `Ratings`
    user_ids, item_ids : the id of each position
    device : of `gpumf.backends`, where initial factors are made; None for the host
    damped : as of `Ratings`, of models that ask for it
    """

    nnz: int
    mean: float
    scale: tuple | None
    bounds: tuple[float, float]
    user_counts: np.ndarray
    item_counts: np.ndarray
    user_ids: np.ndarray
    item_ids: np.ndarray
    device: Any = None
    damped: Any = None

    @property
    def xp(self):
        return self.device.xp if self.device else np

    @property
    def n_users(self):
        return len(self.user_counts)

    @property
    def n_items(self):
        return len(self.item_counts)


class Source:
    """Ratings that are shared out among so many workers, for every attempt anew.

    Those of the driver's memory are mapped by workers of the same machine, and sent to all others.
    """

    def __init__(self, given, name):
        self._given, self._partitions, self._shared = given, None, None
        if isinstance(given, str | Path):
            self._files = parquet_files(given)
        elif hasattr(given, "to_delayed"):
            if missing := [name for name in _COLUMNS if name not in given.columns]:
                raise DataError(f"{name} has no column {', '.join(missing)}; it needs {', '.join(_COLUMNS)}")
        elif isinstance(given, Ratings):
            self._given = given.on_host()
            self._shared = SharedColumns((self._given.users, self._given.items, self._given.values))
        else:
            raise TypeError(
                f"{name} must be Ratings, the path of a folder of Parquet files or a Dask DataFrame, not "
                f"{type(given).__name__}"
            )

    def parts(self, client, addresses):
        """The pieces of each worker, as `load` takes them, by rank: Dask brings what is in memory."""
        n, given = len(addresses), self._given
        if self._shared is not None:
            shape, parts = (given.n_users, given.n_items), []
            seen, ends = self._shared.seen(client, addresses), np.arange(n + 1) * given.nnz // n
            for address, begin, end in zip(addresses, ends[:-1], ends[1:], strict=True):
                if address in seen:
                    parts.append([partial(_mapped, self._shared.part(begin, end), shape)])
                    continue
                columns = (column[begin:end] for column in (given.users, given.items, given.values))
                parts.append(client.scatter([Ratings(*columns, *shape)], workers=[address], hash=False, direct=True))
            return parts
        if isinstance(given, str | Path):
            pieces, sizes = zip(*self._files, strict=True)
        else:
            self._partitions = pieces = self._partitions or client.compute(given.to_delayed())
            client.gather(client.map(len, pieces))  # all there before workers wait for each other
            sizes = [1] * len(pieces)
        return [[pieces[k] for k in chosen] for chosen in dealt(sizes, n)]

    def close(self):
        """Let go what was written for the workers."""
        if self._shared is not None:
            self._shared.close()


def _mapped(part, shape):
    return Ratings(*mapped(*part), *shape)


def parquet_files(folder):
    """The Parquet files of a folder, as (path, bytes), sorted by name; DataError where there is none."""
    files = sorted((str(path), path.stat().st_size) for path in Path(folder).glob("*.parquet"))
    if not files:
        raise DataError(f"{folder}: there is no file *.parquet; give the folder in which the parts lie")
    return files


def dealt(sizes, n):
    """Which of n workers takes which part, about as many bytes each: a list of positions for each worker."""
    taken, totals = [[] for _ in range(n)], [0] * n
    for k in sorted(range(len(sizes)), key=lambda k: (-sizes[k], k)):
        least = totals.index(min(totals))
        taken[least].append(k)
        totals[least] += sizes[k]
    return [sorted(positions) for positions in taken]


def load(pieces, worker, shape=None, scale=None):
    """A worker's part of a data set: a list of `Ratings`, each with ids of its own.

    Parameters
    ----------
    pieces : of `Source.parts`: paths of Parquet files, pandas DataFrames, `Ratings`, or functions that return these
    worker : its rank, for messages
    shape, scale : as of `gpumf.distributed.fit`

    Raises
    ------
    DataError : as of `Ratings.from_arrays`; it names the file, or the partition, and the worker
    """
    loaded = []
    for k, piece in enumerate(pieces):
        if isinstance(piece, Ratings):
            loaded.append(piece)
            continue
        if callable(piece):
            loaded.append(piece())
            continue
        where = f"partition {k} of those of worker {worker}"
        if isinstance(piece, str):
            where = f"{piece} (read by worker {worker})"
            try:
                piece = pd.read_parquet(piece, columns=list(_COLUMNS))
            except Exception as error:  # what a damaged file makes of Arrow is not bounded by its documentation
                raise DataError(f"{where}: {error}") from error
        if len(piece):
            checks = {"shape": shape, "scale": scale, "one_user": True, "name": where}
            loaded.append(Ratings.from_pandas(piece, locate=partial("{}, row {}".format, where), **checks))
    return loaded


def all_ids(comm, ids, side):
    """The distinct ids of all workers, ascending; DataError where some are strings and some integers."""
    every = [some for some in comm.all_gather_object(np.unique(ids)) if len(some)]
    if len({some.dtype == object for some in every}) > 1:
        raise DataError(f"{side} ids are integers in some parts and strings in others; give all as one of them")
    return np.unique(np.concatenate(every))


def numbered(comm, loaded, shape):
    """((user ids, item ids), `Ratings`) of the training set, of which every worker has `load`ed some.

    Parameters
    ----------
    comm : DaskCommunicator
    loaded : list of `Ratings`
    shape : (users, items), where ids are positions already; None where the distinct ids are to be numbered
    """
    if not any(comm.all_gather_object(sum(part.nnz for part in loaded))):
        raise DataError("the training set holds no ratings; check that this is the right place and complete")
    if shape is not None:
        ids = tuple(map(np.arange, shape))
    else:
        of_sides = ([getattr(part, f"{side}_ids") for part in loaded] for side in ("user", "item"))
        empty = np.empty(0, np.int64)
        ids = tuple(
            all_ids(comm, np.concatenate(some or [empty]), side)
            for side, some in zip(("user", "item"), of_sides, strict=True)
        )
    return ids, of_known(loaded, ids)


def of_known(loaded, ids):
    """Parts of a data set as one `Ratings` of positions among known ids, ascending; DataError for an id not there."""
    columns = [], [], [part.values for part in loaded]
    for side, known, found in zip(("user", "item"), ids, columns, strict=False):
        for part in loaded:
            found.append(_positions(getattr(part, f"{side}s"), getattr(part, f"{side}_ids"), known, side))
    kinds = np.int32, np.int32, np.float32
    columns = (
        some[0] if len(some) == 1 else np.concatenate([np.empty(0, kind), *some])
        for kind, some in zip(kinds, columns, strict=True)
    )
    return Ratings(*columns, *map(len, ids))


def _positions(codes, names, known, side):
    if (names.dtype == object) != (known.dtype == object):
        found, strange = codes, np.ones(len(names), bool)
    else:
        found = np.minimum(np.searchsorted(known, names), len(known) - 1)
        strange = known[found] != names
    if strange.any() and (unknown := strange[codes]).any():
        raise DataError(
            f"{side} {names[codes[unknown.argmax()]]} has no rating in the training set; remove it from the "
            "validation set"
        )
    return codes if np.array_equal(found, np.arange(len(names))) else found.astype(np.int32)[codes]


def placed(comm, model, ratings):
    """A worker's `Ratings` where the model orders them: on devices, or, if one has no room or none, on the host."""
    there = model._placed(ratings)
    return there if all(comm.all_gather_object(there.device is not None and there.nnz > 0)) else there.on_host()


def facts_of(comm, ratings, ids, scale):
    """The `Facts` of the training set of which every worker has some `Ratings`.

    ids : (user ids, item ids); scale : (lowest, highest) possible rating or None
    """
    values = ratings.values
    own = (float(values.min()), float(values.max())) if ratings.nnz else (np.inf, -np.inf)
    counts = ratings.user_counts.copy(), ratings.item_counts.copy()
    sums = np.array([ratings.nnz, float(values.sum(dtype=np.float64))])
    for array in (*counts, sums):
        comm.all_reduce(array)
    lows, highs = zip(*comm.all_gather_object(own), strict=True)
    bounds = scale or (min(lows), max(highs))
    return Facts(int(sums[0]), float(sums[1] / sums[0]), scale, bounds, *counts, *ids)


def shuffled(carrier, ratings, bounds):
    """The ratings of this worker's users, from all workers: `Ratings`, where these are.

    bounds : of all workers' users
    """
    if carrier.size == 1:
        return ratings
    order, ends = ratings.sorted_by(owners(ratings.users, bounds, ratings.xp), carrier.size)
    columns = [column[order] for column in (ratings.users, ratings.items, ratings.values)]
    return replace(ratings, **dict(zip(("users", "items", "values"), carrier.all_to_all(columns, ends), strict=True)))


def rows_of(ratings, users):
    """`CompressedRows` of these users, a slice, who have all of the ratings."""
    if users.start == users.stop:
        return CompressedRows(np.zeros(1, np.int64), ratings.items, ratings.values)
    if users.stop - users.start == ratings.n_users:
        return ratings.by_user
    shape = {"n_users": users.stop - users.start, "user_ids": ratings.user_ids[users]}
    return replace(ratings, users=ratings.users - np.int32(users.start), **shape).by_user


def check_no_repeats(rows, facts, first, xp):
    """DataError, with the ids, where a user of these rows, numbered from `first`, rates an item twice.

    xp : of the rows' arrays, NumPy or CuPy
    """
    same = rows.indices[1:] == rows.indices[:-1]
    same[xp.asarray(rows.indptr[(rows.indptr > 0) & (rows.indptr < len(rows.indices))] - 1)] = False
    if same.any():
        k = int(same.argmax())
        user = first + int(np.searchsorted(rows.indptr, k, side="right")) - 1
        raise DataError(
            f"user {facts.user_ids[user]} rates item {facts.item_ids[int(rows.indices[k])]} more than once; keep one "
            "rating of each pair"
        )
