"""A worker's part of ALS: its own users and items, with the factors of all."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from gpumf.backends.cpu import als
from gpumf.distributed.sources import Facts, check_no_repeats, own_of, rows_of, shuffled
from gpumf.models.estimator import Model
from gpumf.ratings.csr import CompressedRows

_MAX_BYTES = 1 << 27  # of the systems that are added up at a time


@dataclass(frozen=True)
class Shard:
    """A worker's ratings in the shape of the whole: what the solvers of ALS ask of a training set.

    by_user, by_item : CompressedRows of this worker's users, of its items; columns are positions among all
    device : of `gpumf.backends`, where the rows are on one
    """

    facts: Facts
    by_user: CompressedRows
    by_item: CompressedRows
    device: Any = None

    @property
    def xp(self):
        return self.device.xp if self.device else np

    @property
    def n_users(self):
        return self.facts.n_users

    @property
    def n_items(self):
        return self.facts.n_items

    @property
    def nnz(self):
        """The most ratings of one order: what memory beside the ratings is for."""
        return max(len(self.by_user.values), len(self.by_item.values))

    def _once(self, key, make):
        """As of `Ratings` that no other training shares."""
        return make()


def way_of(model, item_update, n_users, n_items, workers):
    """How the item update is shared out: 'gather', or 'reduce' where that sends fewer bytes.

    'gather' gives each worker the ratings of its items and, after each user update, all their factors.
    'reduce' leaves the users' factors where they are: each worker makes, of its own users, its part of every item's
    normal equations; these are added up, each worker getting the sums of its items, which it solves. Data parallelism
    in place of model parallelism (Tan et al. 2016, of which cumf is the successor), for many more users than items.
    'auto' is the one with fewer bytes that the solver can do.

    Raises
    ------
    ValueError : another name; 'reduce' with a solver whose equations do not add up
    """
    if item_update not in ("auto", "gather", "reduce"):
        raise ValueError(f"item_update must be 'auto', 'gather' or 'reduce', not {item_update!r}")
    adds_up = model.solver_class.adds_up
    if item_update == "reduce" and not adds_up:
        able = [name for name, solver in model.solver_classes().items() if solver.adds_up]
        raise ValueError(
            f"item_update='reduce' goes with the solvers whose equations add up, {', '.join(able)}, not with "
            f"{model.solver!r}; take item_update='gather'"
        )
    if item_update != "auto" or not adds_up:
        return "gather" if item_update == "auto" else item_update
    # Numbers that a worker receives, but for a factor of both: users' factors, or items' equations.
    return "reduce" if n_items * system_size(model.columns) < n_users * model.columns and workers > 1 else "gather"


def shard_of(carrier, model, facts, ratings, bounds, way, unique):
    """The `Shard` of this worker, out of the ratings that every worker has some of, ordered where they are.

    carrier : Communicator that carries arrays from where they are
    ratings : Ratings, any part of them
    bounds : of the users and of the items, which are whose
    way : of `way_of`; unique : bool, check that no pair comes twice
    """
    users, items = own_of(bounds, carrier.rank)
    of_users = shuffled(carrier, ratings, bounds[0])
    by_user = rows_of(of_users, users)
    if unique:
        check_no_repeats(by_user, facts, users.start, ratings.xp)
    if way == "reduce" or carrier.size == 1:
        by_item = of_users.by_item
    else:
        by_item = rows_of(shuffled(carrier, ratings.transposed(), bounds[1]), items)
    if model._damped:
        biases, unit = facts.damped[:2], facts.damped.step
        rows = users, slice(None) if way == "reduce" or carrier.size == 1 else items
        by_user, by_item = (
            orders.standardized(facts.mean, of[own], other, unit, ratings.device)
            for orders, of, other, own in zip((by_user, by_item), biases, biases[::-1], rows, strict=True)
        )
    elif model._offset:
        by_user, by_item = by_user.less(model._offset), by_item.less(model._offset)
    return Shard(facts, by_user, by_item, ratings.device)


class Worker:
    """What a worker of a training does.

    It has a `_model`, a `_carrier`, the `_bounds` of the users and of the items, of which it solves its `_own`
    (slices of the arrays of `_factors()`), which began as those of `_start`.
    """

    def epoch(self, number, rows):
        """Run epoch `number`, from 0; rows are the history so far, by which a learning rate may go."""
        for step in self.steps().values():
            step()

    def errors(self, ratings):
        """The errors of ratings of this worker's users, by what `arrays` gives from now on; None of none."""
        return self._model._errors(ratings) if ratings.nnz else None

    def own_arrays(self):
        """(user_factors, item_factors) of this worker's users and items."""
        return tuple(array[own] for array, own in zip(self._factors(), self._own, strict=True))

    def set_own(self, arrays):
        """Put back what `own_arrays` gave."""
        for array, own, kept in zip(self._factors(), self._own, arrays, strict=True):
            array[own] = kept

    def arrays(self):
        """(user_factors, item_factors) where the kernel has them: all items, and of the users at least its own."""
        return self._model._whole(self._factors(), self._start)

    def complete(self):
        """Have the factors of all users and items on every worker; these, of the first one on the host."""
        for array, bounds in zip(self._factors(), self._bounds, strict=True):
            self._carrier.all_gather(array, bounds)
        arrays = Worker.arrays(self)
        return self._model._to_host(arrays) if self._carrier.rank == 0 else arrays


class ALSWorker(Worker):
    """One worker of a training by ALS.

    carrier : Communicator that carries the factors
    model : ALS or ImplicitALS
    shard : Shard, of this worker's users and items
    arrays : (user_factors, item_factors) to start from, of all
    bounds : of the users and of the items, which are whose
    way : of `way_of`
    """

    def __init__(self, carrier, model, shard, arrays, bounds, way):
        self._carrier, self._bounds, self._reduces = carrier, bounds, way == "reduce"
        users, items = self._own = own_of(bounds, carrier.rank)
        if model.device != "cpu" and (users.start == users.stop or items.start == items.stop):
            raise ValueError(
                f"worker {carrier.rank} has no users or no items to solve on its device; take fewer workers"
            )
        self._model, self._facts = model, shard.facts
        model.solver_class.compile(model.hyperparameters)
        self._start = arrays
        self._solver = solver = model.solver_class(Model._problem(model, shard, model._to_solve(arrays)))
        self._factors = solver.factors
        if self._reduces and model.device != "cpu":
            solver.share_items(carrier, bounds[1], users, shard.by_item.indptr, shard.facts.item_counts)

    def steps(self):
        """The parts of an epoch in their order, each complete on return: a dict of name -> function."""
        (users, items), solver = self._own, self._solver
        q = solver.factors()[1]
        steps = {"solve users": partial(self._solve, solver.solve_users, users)}
        if self._reduces:
            steps["add up and solve items"] = self._together
        else:
            steps["gather users"] = partial(solver.gather_users, self._carrier, self._bounds[0])
            steps["solve items"] = partial(self._solve, solver.solve_items, items)
        return steps | {"gather items": partial(self._carrier.all_gather, q, self._bounds[1])}

    def _solve(self, solve, own):
        if own.stop > own.start:
            solve(own)
        self._solver.synchronize()

    def _together(self):
        # Not an attribute: the worker would refer to itself, and outlive its training on the device.
        solve = self._reduced if self._model.device == "cpu" else self._solver.solve_shared
        self._solver.solve_items(solve=solve)
        self._solver.synchronize()

    def _reduced(self, rows, fixed, solved):
        """Solve this worker's items by the sums of all workers' parts of their equations, on the CPU."""
        hyper, f = self._model.hyperparameters, fixed.shape[1]
        gram = np.zeros((f, f))
        if hyper.alpha is not None:
            own = fixed[self._own[0]].astype(np.float64)
            gram = own.T @ own
            self._carrier.all_reduce(gram)
        step = max(_MAX_BYTES // (4 * system_size(f)), 1)
        for first in range(0, rows.n_rows, step):
            end = min(first + step, rows.n_rows)
            systems = added_up(rows, first, end, fixed, hyper.confidence)
            bounds = np.clip(self._bounds[1], first, end) - first
            sums = self._carrier.reduce_scatter(systems, bounds)
            begin = first + int(bounds[self._carrier.rank])
            mine = slice(begin, begin + len(sums))
            counts = self._facts.item_counts[mine]
            solved[mine] = solutions(sums, gram, hyper.ridges(np.maximum(counts, 1), len(fixed)), counts > 0)


def system_size(factors):
    """Numbers of an item's normal equations: a triangle of the matrix, and the right side."""
    return factors * (factors + 1) // 2 + factors


def added_up(rows, first, end, fixed, alpha=None):
    """Each row's sum v v^T, its lower triangle row by row, and sum r v.

    With implicit feedback alpha |r| is the weight of v v^T, and one more that of v where r > 0, else 0.

    rows : CompressedRows, of which those from `first` to before `end` are taken
    fixed : float32 (columns, f)

    Returns
    -------
    float32 (end - first, system_size(f))
    """
    f, own = fixed.shape[1], slice(rows.indptr[first], rows.indptr[end])
    indptr = rows.indptr[first : end + 1] - rows.indptr[first]
    indices, values, scales = rows.indices[own], rows.values[own], None
    if alpha is not None:
        weights = np.float32(alpha) * np.abs(values)
        scales, counted = np.sqrt(weights), (values > 0) & (weights > 0)
        values = np.divide(weights + 1, scales, out=np.zeros_like(scales), where=counted)
    systems = np.empty((end - first, system_size(f)), np.float32)
    native = als.native_sums(f)
    (native or _sums)(indptr, indices, values, scales, np.ascontiguousarray(fixed), systems)
    return systems


def _sums(indptr, indices, values, scales, fixed, systems):
    """As of `als.native_sums`, a row at a time in NumPy."""
    f = fixed.shape[1]
    lower = np.tril_indices(f)
    for row, system in enumerate(systems):
        own = slice(indptr[row], indptr[row + 1])
        v = fixed[indices[own]]
        if scales is not None:
            v *= scales[own, None]
        system[:-f], system[-f:] = (v.T @ v)[lower], v.T @ values[own]


def solutions(systems, gram, ridges, present):
    """Solve the normal equations of items: float32 (items, f).

    systems : float32 (items, system_size), as added up
    gram, ridges : float64 (f, f), and float32 (items,) for the diagonal, which are added to each item's matrix
    present : bool (items,), whether an item has a rating; without one its factors are zero
    """
    f = len(gram)
    a = np.empty((len(systems), f, f))
    lower = np.tril_indices(f)
    a[:, lower[0], lower[1]] = a[:, lower[1], lower[0]] = systems[:, :-f]
    a += gram + ridges[:, None, None] * np.eye(f)
    found = np.linalg.solve(a, systems[:, -f:, None].astype(np.float64))[..., 0]
    return (found * present[:, None]).astype(np.float32)
