"""Where the ratings come from, and how each worker gets those of its users and items."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gpumf.distributed.partition import owners
from gpumf.distributed.shared import SharedColumns
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
        self._given, self._frames = given, hasattr(given, "to_delayed")
        if not (isinstance(given, Ratings | str | Path) or self._frames):
            raise TypeError(
                f"{name} must be Ratings, the path of a folder of Parquet files or a Dask DataFrame, not "
                f"{type(given).__name__}"
            )
        self._files = parquet_files(given) if isinstance(given, str | Path) else None
        self._partitions = self._shared = None

    def parts(self, client, addresses):
        """[(part, futures)] by rank, as `gpumf.distributed.program.run` takes them."""
        n = len(addresses)
        if self._files is not None:
            paths, sizes = zip(*self._files, strict=True)
            return [(("parquet", [paths[k] for k in chosen]), []) for chosen in dealt(sizes, n)]
        if self._frames:
            if self._partitions is None:
                self._partitions = client.compute(self._given.to_delayed())
            client.gather(client.map(len, self._partitions))  # all there before workers wait for each other
            chosen = dealt([1] * len(self._partitions), n)
            return [(("frames", len(some)), [self._partitions[k] for k in some]) for some in chosen]
        ratings, parts = self._given.on_host(), []
        columns = ratings.users, ratings.items, ratings.values
        if self._shared is None:
            self._shared = SharedColumns(columns)
        seen, ends = self._shared.seen(client, addresses), np.arange(n + 1) * ratings.nnz // n
        for address, begin, end in zip(addresses, ends[:-1], ends[1:], strict=True):
            if address in seen:
                parts.append((("mapped", self._shared.part(begin, end)), []))
                continue
            arrays = tuple(column[begin:end] for column in columns)
            (there,) = client.scatter([("arrays", arrays)], workers=[address], hash=False, direct=True)
            parts.append((there, []))
        return parts

    def close(self):
        """Let go what was written for the workers."""
        if self._shared is not None:
            self._shared.close()


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


def read_parquet(paths, worker):
    """The columns of some Parquet files, one after another; DataError, which names file and worker, of a bad one."""
    import pyarrow.parquet as pq

    parts = []
    for path in paths:
        where = f"{path} (read by worker {worker})"
        try:
            table = pq.read_table(path, columns=list(_COLUMNS))
        except Exception as error:  # what a damaged file makes of Arrow is not bounded by its documentation
            raise DataError(f"{where}: {error}") from error
        missing = [name for name in _COLUMNS if name not in table.column_names]
        if missing:
            raise DataError(f"{where}: it has no column {', '.join(missing)}; it needs {', '.join(_COLUMNS)}")
        parts.append(checked_columns([table[name].to_pandas() for name in _COLUMNS], where))
    return joined(parts)


def of_frames(frames, worker):
    """The columns of some pandas DataFrames, as `read_parquet`."""
    parts = []
    for k, frame in enumerate(frames):
        where = f"partition {k} of those of worker {worker}"
        missing = [name for name in _COLUMNS if name not in frame]
        if missing:
            raise DataError(f"{where}: it has no column {', '.join(missing)}; it needs {', '.join(_COLUMNS)}")
        parts.append(checked_columns([frame[name] for name in _COLUMNS], where))
    return joined(parts)


def checked_columns(columns, where):
    """(users, items, values): ids as int64 or as strings, ratings as float32, all there and finite."""
    for name, column in zip(_COLUMNS, columns, strict=True):
        if column.isna().any():
            row = int(column.isna().to_numpy().argmax())
            raise DataError(f"{where}, row {row}: the {name} is missing; fill it in or remove the rating")
    *ids, values = columns
    if values.dtype.kind not in "fiu":
        raise DataError(f"{where}: ratings of type {values.dtype} are not numbers")
    with np.errstate(over="ignore"):
        values = values.to_numpy(np.float32)
    if not np.isfinite(values).all():
        row = int((~np.isfinite(values)).argmax())
        raise DataError(f"{where}, row {row}: the rating is not a finite number; correct or remove it")
    found = []
    for name, column in zip(_COLUMNS, ids, strict=False):
        if column.dtype.kind in "iu":
            found.append(column.to_numpy(np.int64))
        elif all(isinstance(value, str) for value in column):
            found.append(column.to_numpy(str) if len(column) else np.empty(0, np.int64))
        else:
            raise DataError(f"{where}: {name} ids of type {column.dtype}; give integers or strings")
    return *found, values


def joined(parts):
    """Columns of several parts as one; of none, empty ones."""
    if not parts:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32)
    return tuple(np.concatenate(columns) for columns in zip(*parts, strict=True))


def all_ids(comm, ids, side):
    """The distinct ids of all workers, ascending; DataError where some are strings and some integers."""
    every = [some for some in comm.all_gather_object(np.unique(ids)) if len(some)]
    if len({some.dtype.kind for some in every}) > 1:
        raise DataError(f"{side} ids are integers in some parts and strings in others; give all as one of them")
    return np.unique(np.concatenate(every)) if every else np.empty(0, np.int64)


def positions(ids, known, side):
    """The positions of ids among known ones, ascending, int32; DataError for one that is not there."""
    if len(ids) == 0:
        return np.empty(0, np.int32)
    if len(known) == 0 or ids.dtype.kind != known.dtype.kind:
        raise DataError(f"{side} {ids[0]} has no rating in the training set; remove it from the validation set")
    found = np.minimum(np.searchsorted(known, ids), len(known) - 1)
    strange = known[found] != ids
    if strange.any():
        raise DataError(
            f"{side} {ids[strange.argmax()]} has no rating in the training set; remove it from the validation set"
        )
    return found.astype(np.int32)


def numbered(comm, columns, shape):
    """((user ids, item ids), columns of positions), of the training set of which every worker has some ratings.

    Parameters
    ----------
    comm : DaskCommunicator
    columns : (users, items, values) of this worker, any ratings
    shape : (users, items), where ids are positions already; None where the distinct ids are to be numbered
    """
    *given, values = columns
    if not any(comm.all_gather_object(len(values))):
        raise DataError("the training set holds no ratings; check that this is the right place and complete")
    ids, placed = [], []
    for k, (side, some) in enumerate(zip(("user", "item"), given, strict=True)):
        if shape is None:
            ids.append(all_ids(comm, some, side))
            placed.append(positions(some, ids[-1], side))
        else:
            if some.dtype != np.int32:  # which are of `Ratings`, in which no other is
                outside = some if some.dtype.kind not in "iu" else _outside(some, shape[k])
                if len(outside):
                    raise DataError(f"{side} {outside[0]} is not a position below the {shape[k]} of the shape")
            ids.append(np.arange(shape[k]))
            placed.append(some.astype(np.int32, copy=False))
    return ids, (*placed, values)


def _outside(positions, n):
    """Those of the positions that are not in 0..n-1."""
    if not len(positions) or 0 <= positions.min() <= positions.max() < n:
        return positions[:0]
    return positions[(positions < 0) | (positions >= n)]


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
    if scale is not None and ratings.nnz and not scale[0] <= own[0] <= own[1] <= scale[1]:
        raise DataError(f"a rating is off the scale {scale[0]:g} to {scale[1]:g}; correct it, or check the columns")
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
