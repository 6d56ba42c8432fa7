"""A worker's part of SGD: its own users, and one part of the items after another, which go round a ring."""

from dataclasses import replace

import numpy as np

from gpumf import gpu
from gpumf.datasets.orders import users_of
from gpumf.distributed.als import Worker, on_host, own_of
from gpumf.distributed.partition import owners
from gpumf.distributed.sources import check_no_repeats, rows_of, shuffled

SOLVERS = (
    "sequential",
    "ordered",
    "ordered_parallel",
    "parallel",
    "kato_hosino",
    "gpusgd",
    "newgpusgd",
    "bsgd",
    "hogwild",
    "fast",
)
"""Solvers that go on from factors that others have changed, see `Descent.set_factors`."""


def check(model):
    """ValueError where this SGD does not train in blocks."""
    if model.solver not in SOLVERS:
        raise ValueError(f"solver={model.solver!r} does not train in blocks; choose from {', '.join(SOLVERS)}")
    if model.biases == "baseline":
        raise ValueError("baseline predictors are made of all ratings at once; take biases=True")


class SGDWorker(Worker):
    """One worker of a training by SGD: workers x workers blocks, of which no two at work share users or items.

    In each of the epoch's steps a worker trains on the block of its users and of the items that it holds, and passes
    these on (cumf, section 6: blocks with no overlapping rows and columns; the ring is that of NOMAD and DSGD). A
    block is a training set of its own for the model's solver.

    Parameters
    ----------
    carrier, model, facts, ratings, bounds, unique : as of `gpumf.distributed.als.shard_of`
    arrays : (user_factors, item_factors) to start from, of all
    """

    def __init__(self, carrier, model, facts, ratings, arrays, bounds, unique):
        check(model)
        self._carrier, self._bounds, self._model = carrier, bounds, model
        self._rank, self._size = carrier.rank, carrier.size
        self._own = own_of(bounds, self._rank)
        users, ratings = self._own[0], shuffled(carrier, ratings, bounds[0])
        # Always in the same order, whatever order they came in.
        rows = rows_of(ratings, users)
        if unique:
            check_no_repeats(rows, facts, users.start, ratings.xp)
        there = None if model.device == "cpu" else gpu.device(model.device)
        place = np.array if there is None else there.array
        self._p, self._q = map(place, arrays)
        model.scheme.compile(model)
        part = owners(rows.indices, bounds[1], ratings.xp)
        of_users = users_of(rows.indptr, len(part), ratings.xp)
        columns = of_users, rows.indices, rows.values
        self._blocks = [self._block(ratings, columns, part == block, block) for block in range(self._size)]

    def _block(self, ratings, columns, chosen, block):
        """The solver at work on the chosen ones of these columns; None where there are none."""
        if not chosen.any():
            return None
        users, items = self._own[0], slice(*map(int, self._bounds[1][block : block + 2]))
        of_users, of_items, values = (column[chosen] for column in columns)
        shape = {"n_users": users.stop - users.start, "n_items": items.stop - items.start}
        ids = {"user_ids": ratings.user_ids[users], "item_ids": ratings.item_ids[items]}
        of_items = of_items - np.int32(items.start)
        ratings = replace(ratings, users=of_users, items=of_items, values=values, **shape, **ids)
        return self._model.scheme(self._model, self._model._as_trained(ratings), self._p[users], self._q[items])

    def _items(self, part):
        return self._q[int(self._bounds[1][part]) : int(self._bounds[1][part + 1])]

    def epoch(self, number, rows):
        p = self._p[self._own[0]]
        for step in range(self._size):
            part = (self._rank + step) % self._size
            q, trainer = self._items(part), self._blocks[part]
            if trainer is not None:
                trainer.set_factors(p, q)
                self._model._epoch(trainer, number, rows)
                trainer.synchronize()
                p[...], q[...] = trainer.factors()
            if self._size > 1:
                self._carrier.shift(q, self._items((part + 1) % self._size))

    def own_arrays(self):
        """(user_factors, item_factors) of this worker's users and items."""
        return self._p[self._own[0]], self._q[self._own[1]]

    def set_own(self, arrays):
        """Put back what `own_arrays` gave."""
        self._p[self._own[0]], self._q[self._own[1]] = arrays

    def arrays(self):
        """(user_factors, item_factors) where the kernel has them: all items, and of the users at least its own."""
        self._carrier.all_gather(self._q, self._bounds[1])
        return self._p, self._q

    def complete(self):
        """Have the factors of all users and items on every worker; these, of the first one on the host."""
        self._carrier.all_gather(self._p, self._bounds[0])
        arrays = self.arrays()
        return on_host(self._model, arrays) if self._rank == 0 else arrays
