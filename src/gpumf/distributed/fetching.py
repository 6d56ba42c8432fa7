"""A worker's part of ALS where no worker has room for the factors of either side.

After ALX (Mehta et al. 2021), which does so on TPUs: users and items are shared out, and their factors stay where
they are solved. A worker solves its rows in batches, each of which needs few enough rows of the other side, and
fetches those from the workers that have them.
"""

from copy import copy
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace

import numpy as np

from gpumf.distributed.als import Shard, Worker
from gpumf.distributed.sources import own_of
from gpumf.models.estimator import Model
from gpumf.ratings.csr import CompressedRows
from gpumf.ratings.ratings import Ratings

_NOBODY = CompressedRows(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32))


@dataclass(frozen=True)
class Batch:
    """Rows that are solved at a time.

    rows : slice of a worker's own
    needed : int32, positions of the other side's rows that have a rating here, ascending
    ratings : CompressedRows, whose columns count along `needed`
    """

    rows: slice
    needed: np.ndarray
    ratings: CompressedRows


def batches_of(rows, most):
    """Cut CompressedRows into a list of `Batch`, of at most `most` columns each; ValueError where a row has more."""
    begin, found = 0, []
    while begin < rows.n_rows:
        end = _furthest(rows, begin, most)
        ratings = slice(rows.indptr[begin], rows.indptr[end])
        needed, indices = np.unique(rows.indices[ratings], return_inverse=True)
        indptr = rows.indptr[begin : end + 1] - ratings.start
        cut = CompressedRows(indptr, indices.astype(np.int32), rows.values[ratings])
        found.append(Batch(slice(begin, end), needed, cut))
        begin = end
    return found


def _furthest(rows, begin, most):
    """Up to where rows from `begin` have so few columns: by steps that double, and halve where one is too far."""

    def columns(end):
        return len(np.unique(rows.indices[rows.indptr[begin] : rows.indptr[end]]))

    if (alone := columns(begin + 1)) > most:
        raise ValueError(f"a row has {alone} ratings, so that max_rows must be at least that, not {most}")
    end, step = begin + 1, 1
    while step:
        ahead = min(end + step, rows.n_rows)
        if ahead > end and columns(ahead) <= most:
            end, step = ahead, 2 * step
        else:
            step //= 2
    return end


class Fetch:
    """Gets rows from the workers that own them: fetch(own rows of this worker) -> the rows that it needs.

    comm : Communicator; all workers make and call theirs at the same time
    needed : positions, ascending; bounds : of all workers' rows
    """

    def __init__(self, comm, needed, bounds):
        ends = np.searchsorted(needed, bounds)
        wanted = {rank: needed[ends[rank] : ends[rank + 1]] - bounds[rank] for rank in range(comm.size)}
        self._comm, self._asked = comm, comm.exchange(wanted)

    def __call__(self, own):
        come = self._comm.exchange({rank: own[rows] for rank, rows in self._asked.items()})
        return np.concatenate([come[rank] for rank in range(self._comm.size)])


class FetchingALSWorker(Worker):
    """One worker of a training by ALS on the CPU, with the factors of its own users and items alone.

    shard : Shard, of this worker's users and items
    arrays : (user_factors, item_factors) to start from, of its own
    bounds : of the users and of the items, which are whose
    most : rows of the other side that it may have at a time, beside what it tests with
    """

    def __init__(self, comm, model, shard, arrays, bounds, most):
        self._comm, self._model, self._bounds = comm, model, bounds
        self._mine, self._own = own_of(bounds, comm.rank), (slice(None), slice(None))
        self._start, self._test = arrays, None
        self._arrays = tuple(map(np.ascontiguousarray, model._to_solve(arrays)))
        model.solver_class.compile(model.hyperparameters)
        self._batches = [
            self._planned(batches_of(rows, most), other)
            for rows, other in zip((shard.by_user, shard.by_item), reversed(bounds), strict=True)
        ]

    def _planned(self, batches, bounds):
        """[(Batch or None, Fetch)], as many on every worker: who has nothing to solve has others' rows to send."""
        longest = max(self._comm.all_gather_object(len(batches)))
        padded = [*batches, *[None] * (longest - len(batches))]
        nothing = np.empty(0, np.int32)
        return [(batch, Fetch(self._comm, batch.needed if batch else nothing, bounds)) for batch in padded]

    def steps(self):
        """The parts of an epoch in their order, each complete on return: a dict of name -> function."""
        return {"solve users": partial(self._solve, 0), "solve items": partial(self._solve, 1)}

    def _solve(self, side):
        own, other = self._arrays[side], self._arrays[1 - side]
        for batch, fetch in self._batches[side]:
            fixed = fetch(other)
            if batch is not None:
                own[batch.rows] = self._solved(side, batch.ratings, own[batch.rows], fixed)

    def _solved(self, side, ratings, rows, fixed):
        """The rows of a batch, by the model's solver."""
        sides, arrays = (ratings, _NOBODY), (rows, fixed)
        if side == 1:
            sides, arrays = sides[::-1], arrays[::-1]
        shape = SimpleNamespace(n_users=len(arrays[0]), n_items=len(arrays[1]))
        solver = self._model.solver_class(Model._problem(self._model, Shard(shape, *sides), arrays))
        (solver.solve_items if side else solver.solve_users)()
        return solver.factors()[side]

    def errors(self, ratings):
        needed, items = np.unique(ratings.items, return_inverse=True)
        self._test = Fetch(self._comm, needed, self._bounds[1])
        if not ratings.nnz:
            return None
        model, own = copy(self._model), self._mine[0]
        model._user_known, model._item_counts = model._user_known[own], model._item_counts[needed]
        shape = own.stop - own.start, len(needed)
        users = ratings.users - np.int32(own.start)
        return model._errors(Ratings(users, items.astype(np.int32), ratings.values, *shape))

    def _factors(self):
        return self._arrays

    def arrays(self):
        """(user_factors, item_factors) of its own users, and of the items that it tests with."""
        users, items = super().arrays()
        return users, self._test(items)

    def complete(self):
        """The factors of all users and items, on the first worker; on the others their own."""
        arrays = super().arrays()
        come = self._comm.exchange({0: arrays}, None if self._comm.rank == 0 else [])
        if self._comm.rank:
            return arrays
        return tuple(np.concatenate([come[rank][side] for rank in range(self._comm.size)]) for side in (0, 1))
