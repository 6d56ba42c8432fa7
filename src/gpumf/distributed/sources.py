"""Where the ratings come from, and how each worker gets those of its users and items."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gpumf._util.counter_rng import splitmix64
from gpumf.distributed.shared import SharedColumns, mapped
from gpumf.ratings.checks import DataError, joined_ids
from gpumf.ratings.convert import positions_of
from gpumf.ratings.csr import CompressedRows, row_offsets
from gpumf.ratings.damped import DAMPING, width_of
from gpumf.ratings.ratings import Ratings

_COLUMNS = "user", "item", "rating"


def balanced_bounds(counts, parts):
    """Cut rows into contiguous ranges with about as many ratings each.

    A row stays whole, so a range may have more than its share, by less than its last row's ratings, and, where rows
    are few, none.

    counts : int64 (rows,), ratings of each

    Returns
    -------
    int64 (parts + 1,), ascending from 0 to rows: range k has the rows bounds[k] to bounds[k + 1]
    """
    ends = row_offsets(counts)
    wanted = ends[-1] * np.arange(parts + 1) / parts
    after = np.clip(np.searchsorted(ends, wanted), 1, max(len(counts), 1))
    bounds = np.where(wanted - ends[after - 1] <= ends[after] - wanted, after - 1, after)
    bounds[0], bounds[-1] = 0, len(counts)
    return np.maximum.accumulate(bounds)


def own_of(bounds, rank):
    """The (users, items) of a worker, slices."""
    return tuple(slice(*map(int, ends[rank : rank + 2])) for ends in bounds)


def owners(positions, bounds, xp=np):
    """The part that each position, int32, is in: int32, where they are, on the host or as arrays of xp."""
    return (xp.searchsorted(xp.asarray(bounds, np.int32), positions, side="right") - 1).astype(np.int32)


@dataclass(frozen=True)
class Facts:
    """What all workers know of a training set: what a model asks of it, but for the ratings themselves.

    Of `Ratings`, and `device`, of `gpumf.backends`, where initial factors are made.
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

    pieces : of `Source.parts`: paths of Parquet files, pandas DataFrames, `Ratings`, or functions that return these
    worker : its rank, for messages
    shape, scale : as of `gpumf.distributed.fit`

    Raises
    ------
    DataError : as of `Ratings.from_arrays`; it names the file, or the partition, and the worker
    """
    loaded = []
    for k, given in enumerate(pieces):
        if isinstance(given, Ratings) or callable(given):
            loaded.append(given() if callable(given) else given)
            continue
        piece = given
        where = f"partition {k} of those of worker {worker}"
        if isinstance(given, str):
            where = f"{given} (read by worker {worker})"
            try:
                piece = pd.read_parquet(given, columns=list(_COLUMNS))
            except Exception as error:  # what a damaged file makes of Arrow is not bounded by its documentation
                raise DataError(f"{where}: {error}") from error
        if len(piece):
            checks = {"shape": shape, "scale": scale, "one_user": True, "name": where}
            ratings = Ratings.from_pandas(piece, locate=partial("{}, row {}".format, where), **checks)
            loaded.append(_trimmed(ratings) if isinstance(given, str) else ratings)
    return loaded


def _trimmed(ratings):
    """The ratings of a file, whose ids have no blanks around them, as of `read_ratings`: some may come twice then."""
    trimmed = {}
    for side in ("user", "item"):
        ids = getattr(ratings, f"{side}_ids")
        if ids.dtype == object:
            trimmed[f"{side}_ids"] = names = np.array([one.strip() for one in ids.tolist()], object)
            if (blank := names == "").any():
                row = int(blank[getattr(ratings, f"{side}s")].argmax())
                raise DataError(
                    f"{ratings.name}, row {row}: the {side} id is missing; fill it in or remove the rating"
                )
    return replace(ratings, **trimmed) if trimmed else ratings


def distinct(parts, side):
    """The distinct ids of some arrays, ascending; DataError where some are strings and some integers."""
    parts = [ids for ids in parts if len(ids)] or [np.empty(0, np.int64)]
    kinds = {ids.dtype.kind for ids in parts}
    if len(kinds) > 1 and "O" in kinds:
        raise DataError(f"{side} ids are integers in some parts and strings in others; give all as one of them")
    return np.unique(joined_ids(parts))


def numbered(comm, loaded, shape):
    """((user ids, item ids), `Ratings`) of the training set, of which every worker has `load`ed some.

    shape : (users, items), where ids are positions already; None where the distinct ids are to be numbered
    """
    if not any(comm.all_gather_object(sum(part.nnz for part in loaded))):
        raise DataError("the training set holds no ratings; check that this is the right place and complete")
    if shape is not None:
        ids = tuple(map(np.arange, shape))
    else:
        ids = tuple(
            distinct(comm.all_gather_object(distinct([getattr(part, f"{side}_ids") for part in loaded], side)), side)
            for side in ("user", "item")
        )
    return ids, of_known(loaded, ids)


def of_known(loaded, ids):
    """Parts of a data set as one `Ratings` of positions among known ids, ascending; DataError for an id not there."""
    columns = [
        [_positions(getattr(part, f"{side}s"), getattr(part, f"{side}_ids"), known, side) for part in loaded]
        for side, known in zip(("user", "item"), ids, strict=True)
    ]
    columns.append([part.values for part in loaded])
    columns = (
        some[0] if len(some) == 1 else np.concatenate([np.empty(0, kind), *some])
        for kind, some in zip((np.int32, np.int32, np.float32), columns, strict=True)
    )
    return Ratings(*columns, *map(len, ids))


def _positions(codes, names, known, side):
    found = positions_of(names, known)
    strange = found < 0
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
    """The `Facts` of the training set of which every worker has some `Ratings`; ids are those of (users, items)."""
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
    """The ratings of this worker's users, by the bounds of all, from all workers: `Ratings`, where these are."""
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
    """DataError, with the ids, where a user of these rows, numbered from `first`, rates an item twice."""
    same = rows.indices[1:] == rows.indices[:-1]
    same[xp.asarray(rows.indptr[(rows.indptr > 0) & (rows.indptr < len(rows.indices))] - 1)] = False
    if same.any():
        k = int(same.argmax())
        user = first + int(np.searchsorted(rows.indptr, k, side="right")) - 1
        raise DataError(
            f"user {facts.user_ids[user]} rates item {facts.item_ids[int(rows.indices[k])]} more than once; keep one "
            "rating of each pair"
        )


class Parts:
    """As `gpumf.ratings.damped.Table`, of `Ratings` of which each worker has a part, whose sums all add up."""

    def __init__(self, comm, ratings, facts):
        ratings = ratings.on_host()
        self._comm, self._sides, self._nnz = comm, (ratings.users, ratings.items), facts.nnz
        self.width = width_of(facts)
        self._left = (ratings.values - np.float64(facts.mean)) / self.width
        self.counts = facts.user_counts, facts.item_counts

    def biases(self, side, fixed):
        (sums,) = self._sums(side, self._left - (fixed / np.float64(self.width))[self._sides[1 - side]])
        return (self.width * sums / (self.counts[side] + DAMPING[side])).astype(np.float32)

    def subtract(self, *biases):
        for side, of in zip(self._sides, biases, strict=True):
            self._left -= (of / np.float64(self.width))[side]
        square = np.array([self._left @ self._left])
        self._comm.all_reduce(square)
        return self.width * float(np.sqrt(square[0] / self._nnz))

    def products(self, side, vectors):
        users, items = (positions.astype(np.uint64) for positions in self._sides)
        odd = splitmix64((users << np.uint64(32)) + items) & np.uint64(1)
        plain, signed = vectors[self._sides[1 - side]].T
        return self._sums(side, self._left * plain, np.where(odd, -self._left, self._left) * signed).T

    def _sums(self, side, *values):
        """The sums of each row's values, float64 (len(values), rows)."""
        rows, n = self._sides[side], len(self.counts[side])
        sums = np.array([np.bincount(rows, of, n) for of in values], np.float64)  # without ratings it counts integers
        self._comm.all_reduce(sums)
        return sums
