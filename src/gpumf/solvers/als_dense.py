"""ALS with any number of factors f: dense systems, for a row with n ratings of the fewer of n and f unknowns.

G = Y^T Y = V S V^T is decomposed once per update; for explicit ratings G = S = 0 and V = I. With the factors Y_u
and the weights C of the row's ratings, and D = (S + ridge I)^-1, W = C^1/2 Y_u V D^1/2 is n x f, and

    A = Y_u^T C Y_u + G + ridge I = V D^-1/2 (I + W^T W) D^-1/2 V^T

so that the solution of A x = Y_u^T b is x = V D^1/2 z with either of

    z = (I + W^T W)^-1 W^T C^-1/2 b    f unknowns (primal)
    z = W^T (I + W W^T)^-1 C^-1/2 b    n unknowns (dual, by the push-through identity)

The dual takes n^2 f operations in place of n f^2 + f^3.
"""

from contextlib import nullcontext
from dataclasses import replace
from typing import ClassVar

import numpy as np

from gpumf import backends
from gpumf._util import interrupts, threads
from gpumf._util.memory import free_bytes
from gpumf.solvers.als_base import ALSSolver
from gpumf.solvers.als_biases import Biases
from gpumf.solvers.base import Solver, Version

_COPIES = 3  # of the factors, besides those to start from: two are kept in case the next epoch diverges
_ONE_THREAD = 2048  # factors
_PADDED = 1.125  # of the fewest ratings of a batch's rows, as many are made of all of them


def batches(counts, factors, floats):
    """Return rows with about as many ratings each: a list of (int64 positions, most ratings), most ratings first.

    counts : int (rows,), of the rows' ratings; rows without any are left out
    floats : of the gathered factors of a batch, at most, unless it is one row
    """
    order = np.argsort(-counts, kind="stable")
    lengths, found, first = counts[order], [], 0
    while first < len(order) and lengths[first]:
        width = int(lengths[first])
        near = lengths[first : first + max(floats // (width * factors), 1)] * _PADDED >= width
        found.append((order[first : first + np.count_nonzero(near)], width))
        first += len(found[-1][0])
    return found


class DenseSystems:
    """Exact, by NumPy's BLAS and LAPACK.

    In addition to the factors and the ratings it takes, in floats, with implicit feedback 5 f^2 while G is decomposed
    and as many as the larger side's factors for Y V; and for each thread the gathered factors and two copies of the
    systems of a batch, at most 3 `floats`, or n f + 2 n^2 of one row with n < f ratings, where that is more. The
    systems of rows with more ratings are summed up in parts.
    """

    max_factors = Solver.max_factors
    xp, floats = np, 1 << 21

    @classmethod
    def compile(cls, hyper):
        """There is nothing to compile."""

    def __init__(self, problem):
        self._hyper, train, factors = problem
        hyper, sides, columns = self._hyper, (train.by_user, train.by_item), (train.n_items, train.n_users)
        lists = [batches(rows.counts, hyper.columns, self.floats) for rows in sides]
        self._check_memory(columns, lists)
        self._p, self._q = map(self._array, factors)
        self._biases = self._biases_of(train)
        self._users, self._items = map(self._side, sides, lists, columns)

    # Where it runs

    _array = staticmethod(np.array)
    _free_bytes = staticmethod(free_bytes)

    def _biases_of(self, train):
        return Biases.of(self._hyper, train)

    @staticmethod
    def _workers():
        return threads.count()

    @staticmethod
    def _decomposed(matrix):
        """Eigenvalues and eigenvectors; of a small matrix on one thread, as several wait more than they work."""
        with threads.one_blas_thread() if len(matrix) <= _ONE_THREAD else nullcontext():
            return np.linalg.eigh(matrix)

    def _each(self, work, batches):
        """Call work(*batch) for all of them, on all threads: many small products leave the threads of BLAS idle."""
        from concurrent.futures import ThreadPoolExecutor

        with interrupts.deferred(), threads.one_blas_thread(), ThreadPoolExecutor(self._workers()) as pool:
            for done in [pool.submit(work, *batch) for batch in batches]:
                done.result()

    # Work

    def _check_memory(self, rows, lists):
        f, implicit = self._hyper.columns, self._hyper.alpha is not None
        of_batches = [
            len(chosen) * (min(width, self._at_a_time(chosen)) * f + 2 * min(width, f) ** 2)
            for of_side in lists
            for chosen, width in of_side
        ]
        floats = _COPIES * sum(rows) * f + implicit * (5 * f * f + max(rows) * f)
        at_once = min(self._workers(), len(of_batches))
        asked, free = 4 * (floats + at_once * max(of_batches, default=0)), self._free_bytes()
        if asked > free:
            raise backends.out_of_memory(f"training with factors={self._hyper.factors}", asked, free)

    def _side(self, rows, lists, columns):
        ridges = self._hyper.ridges(rows.counts, columns)
        there = replace(rows, indices=self._array(rows.indices), values=self._array(rows.values))
        return there, [(chosen, width, self._array(ridges[chosen])) for chosen, width in lists]

    def _solve(self, side, fixed, solved):
        xp, (rows, lists), basis = self.xp, side, None
        roots, targets, spectrum = None, self._targets(rows.indices, rows.values), np.float32(0)
        if self._hyper.alpha is not None:
            weights = np.float32(self._hyper.confidence) * abs(targets)
            roots, chosen = xp.sqrt(weights), (targets > 0) & (weights > 0)
            targets = xp.where(chosen, (1 + weights) / xp.where(chosen, roots, 1), 0).astype(np.float32)
            spectrum, basis = self._decomposed(fixed.T @ fixed)
            spectrum, fixed = xp.maximum(spectrum, 0), fixed @ basis
        solved[...] = 0

        def solve(chosen, width, ridges):
            begins, counts = (self._array(of[chosen][:, None]) for of in (rows.indptr, rows.counts))
            scales = 1 / xp.sqrt(spectrum + ridges[:, None])

            def gathered(first, end):
                """W and C^-1/2 b of so many ratings of each row, zeros behind its last one."""
                places = xp.arange(first, end)
                there = places < counts
                places = xp.where(there, begins + places, 0)
                w = fixed.take(rows.indices[places], axis=0)
                w *= (there if roots is None else there * roots[places]).astype(np.float32)[..., None]
                w *= scales[:, None]
                return w, (there * targets[places])[..., None]

            solved[self._array(chosen)] = scales * self._solution(width, len(chosen), gathered)[..., 0]

        self._each(solve, lists)
        if basis is not None:
            step = max(self.floats // len(basis), 1)
            for first in range(0, len(solved), step):
                solved[first : first + step] = solved[first : first + step] @ basis.T

    def _solution(self, width, n_rows, gathered):
        """z of rows with at most `width` ratings each, (n_rows, f, 1)."""
        xp, f = self.xp, self._hyper.columns
        if width < f:
            w, right = gathered(0, width)
            system = w @ w.transpose(0, 2, 1)
            system += xp.eye(width, dtype=np.float32)
            return w.transpose(0, 2, 1) @ xp.linalg.solve(system, right)
        system, right, step = xp.eye(f, dtype=np.float32), 0, self._at_a_time(range(n_rows))
        for first in range(0, width, step):
            w, part = gathered(first, min(first + step, width))
            system = system + w.transpose(0, 2, 1) @ w
            right = right + w.transpose(0, 2, 1) @ part
        return xp.linalg.solve(system, right)

    def _at_a_time(self, rows):
        """Ratings of each of these rows whose factors are gathered together, where they have at least f."""
        return max(self.floats // (len(rows) * self._hyper.columns), 1)


class Dense(DenseSystems, ALSSolver):
    """Exact, by NumPy's BLAS and LAPACK."""

    versions: ClassVar = {"": Version("all threads, dense systems", "sand", "-")}


class DenseCuda(DenseSystems, ALSSolver):
    """Exact, by cuBLAS and cuSOLVER through CuPy; on the emulator by NumPy. Otherwise as `Dense`."""

    device, from_device = "cuda", True
    versions: ClassVar = {"": Version("dense systems, GPU", "forest", "-")}
    floats = 1 << 26

    def __init__(self, problem):
        self._device = backends.device(problem.hyperparameters.device)
        self.xp = self._device.xp
        super().__init__(problem)

    def _array(self, values):
        return self._device.array(values)

    def _free_bytes(self):
        return self._device.free_bytes()

    def _biases_of(self, train):
        return Biases.of(self._hyper, train, self._device)

    @staticmethod
    def _workers():
        return 1

    def _decomposed(self, matrix):
        return self.xp.linalg.eigh(matrix)

    def _each(self, work, batches):
        for batch in batches:
            work(*batch)

    def synchronize(self):
        self._device.synchronize()
