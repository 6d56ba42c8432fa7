"""A worker's part of SGD: its own users, and one part of the items after another, which go round a ring."""

from functools import partial
from itertools import pairwise

import numpy as np

from gpumf import backends
from gpumf.distributed.als import Worker
from gpumf.distributed.sources import check_no_repeats, own_of, owners, rows_of, shuffled
from gpumf.models.estimator import Model
from gpumf.ratings.device import DeviceRatings
from gpumf.ratings.ratings import Ratings

SOLVERS = (
    *("sequential", "ordered", "ordered_parallel", "parallel", "kato_hosino"),
    *("gpusgd", "newgpusgd", "bsgd", "hogwild", "fast"),
)
"""Solvers that go on from factors that others have changed, see `Descent.set_factors`."""


def check(model):
    """ValueError where this SGD does not train in blocks."""
    if model.solver not in SOLVERS:
        raise ValueError(f"solver={model.solver!r} does not train in blocks; choose from {', '.join(SOLVERS)}")
    if model.biases == "baseline":
        raise ValueError("baseline predictors are made of all ratings at once; take biases=True")


def blocks_of(rows, users, bounds, device=None):
    """Yield (users, items, ratings) of each block of items in which these users have ratings.

    A block's `Ratings` are a training set of its own, with users and items counted from the first.

    rows : CompressedRows of these users, a slice of all
    bounds : of the items of each block
    device : of `gpumf.backends`, where the rows are on one
    """
    xp, kind = (device.xp, partial(DeviceRatings, device=device)) if device else (np, Ratings)
    block_of, nnz = owners(rows.indices, bounds, xp), len(rows.indices)
    of_users = xp.searchsorted(xp.asarray(rows.indptr[1:]), xp.arange(nnz), side="right").astype(np.int32)
    for block, (begin, end) in enumerate(pairwise(map(int, bounds))):
        chosen = block_of == block
        if chosen.any():
            columns = of_users[chosen], rows.indices[chosen] - np.int32(begin), rows.values[chosen]
            yield users, slice(begin, end), kind(*columns, users.stop - users.start, end - begin)


def own_blocks(carrier, facts, ratings, bounds, unique):
    """`blocks_of` this worker's users; parameters as of `gpumf.distributed.als.shard_of`."""
    users = own_of(bounds, carrier.rank)[0]
    # Always in the same order, whatever order they came in.
    rows = rows_of(shuffled(carrier, ratings, bounds[0]), users)
    if unique:
        check_no_repeats(rows, facts, users.start, ratings.xp)
    return blocks_of(rows, users, bounds[1], ratings.device)


class SGDWorker(Worker):
    """One worker of a training by SGD: blocks, of which no two at work share users or items.

    In each of the epoch's steps a worker trains on the blocks of its users and of the items that it holds, and passes
    these on (cumf, section 6: blocks with no overlapping rows and columns; the ring is that of NOMAD and DSGD). A
    block is a training set of its own for the model's solver.

    carrier : Communicator that carries the factors
    blocks : yields those of this worker's users, as of `blocks_of`, each within one worker's items
    arrays : (user_factors, item_factors) to start from, of all
    bounds : of the users and of the items, which are whose
    """

    def __init__(self, carrier, model, blocks, arrays, bounds):
        check(model)
        self._carrier, self._bounds, self._model = carrier, bounds, model
        self._rank, self._size = carrier.rank, carrier.size
        self._own = own_of(bounds, self._rank)
        there = None if model.device == "cpu" else backends.device(model.device)
        place, self._xp = (np.array, np) if there is None else (there.array, there.xp)
        self._start, (self._p, self._q) = arrays, map(place, model._to_solve(arrays))
        model.solver_class.compile(model.hyperparameters)
        self._blocks, before = [[] for _ in range(self._size)], None  # by the worker who has their items
        for users, items, ratings in blocks:
            ratings = model._as_trained(ratings)
            if model._damped:
                biases = self._start[0][users, -2], self._start[1][items, -1]
                ratings = ratings.standardized(model.mean, *biases, model._standard.step)
            solver = model.solver_class(Model._problem(model, ratings, (self._p[users], self._q[items])))
            solver.set_counts(model._counts[0][users], model._counts[1][items])
            solver.share_memory(before)
            whose = int(np.searchsorted(bounds[1], items.start, side="right")) - 1
            self._blocks[whose].append((self._p[users], self._q[items], solver))
            before = solver

    def _factors(self):
        return self._p, self._q

    def _items(self, part):
        return self._q[int(self._bounds[1][part]) : int(self._bounds[1][part + 1])]

    def epoch(self, number, rows):
        rate = self._model._rate(rows)
        if self._model._damped:
            sides = (self._p, self._q), self._own, self._model._shrinkage(rate, number)
            for factors, own, by in zip(*sides, strict=True):
                factors[own] *= self._xp.asarray(by[own])[:, None]
        for step in range(self._size):
            part = (self._rank + step) % self._size
            for p, q, solver in self._blocks[part]:
                solver.set_factors(p, q)
                solver.learning_rate = rate / self._model._ratio
                solver.epoch(number)
                p[...], q[...] = solver.factors()
                solver.synchronize()
            if self._size > 1:
                self._carrier.shift(self._items(part), self._items((part + 1) % self._size))

    def arrays(self):
        self._carrier.all_gather(self._q, self._bounds[1])
        return super().arrays()
