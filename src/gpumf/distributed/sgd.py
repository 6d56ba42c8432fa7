"""A worker's part of SGD: its own users, and one part of the items after another, which go round a ring."""

import numpy as np

from gpumf import gpu
from gpumf.datasets.ratings import Ratings
from gpumf.distributed.als import errors_of, on_host, own_of
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


class SGDWorker:
    """One worker of a training by SGD: workers x workers blocks, of which no two at work share users or items.

    In each of the epoch's steps a worker trains on the block of its users and of the items that it holds, and passes
    these on (cumf, section 6: blocks with no overlapping rows and columns; the ring is that of NOMAD and DSGD). A
    block is a training set of its own for the model's solver.

    Parameters
    ----------
    comm, carrier, model, facts, columns, bounds, unique : as of `gpumf.distributed.als.shard_of`
    arrays : (user_factors, item_factors) to start from, of all
    """

    def __init__(self, comm, carrier, model, facts, columns, arrays, bounds, unique):
        check(model)
        self._carrier, self._bounds, self._model, self._facts = carrier, bounds, model, facts
        self._rank, self._size = comm.rank, comm.size
        self._own = own_of(bounds, comm.rank)
        users, columns = self._own[0], shuffled(comm, columns, bounds[0], 0)
        if unique:
            check_no_repeats(rows_of(columns, users.start, users.stop, 0, facts.n_items), facts, users.start)
        there = None if model.device == "cpu" else gpu.device(model.device)
        place = np.array if there is None else there.array
        self._p, self._q = map(place, arrays)
        model.scheme.compile(model)
        # Always in the same order, whatever order they came in.
        order = np.lexsort((columns[1], columns[0]))
        columns = tuple(column[order] for column in columns)
        part = owners(columns[1], bounds[1])
        self._blocks = [self._block(columns, part == b, users, slice(*map(int, bounds[1][b : b + 2])))
                        for b in range(comm.size)]  # fmt: skip

    def _block(self, columns, chosen, users, items):
        """The solver at work on a block; None where it has no ratings."""
        if not chosen.any():
            return None
        of_users, of_items, values = (column[chosen] for column in columns)
        shape = users.stop - users.start, items.stop - items.start
        ratings = Ratings(of_users - np.int32(users.start), of_items - np.int32(items.start), values, *shape)
        ratings = self._model._as_trained(self._model._placed(ratings))
        return self._model.scheme(self._model, ratings, self._p[users], self._q[items])

    def _items(self, part):
        return self._q[int(self._bounds[1][part]) : int(self._bounds[1][part + 1])]

    def epoch(self, number, rows):
        """Run epoch `number`, from 0; rows are the history so far, by which the learning rate may go."""
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

    def errors(self, columns):
        """The errors of ratings of this worker's users, by what `arrays` gives; None of none."""
        return errors_of(self._model, self._facts, columns)

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
