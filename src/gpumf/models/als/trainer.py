"""What every version of ALS does in an epoch, and the versions that run on the CPU."""

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from gpumf.cpu import als as cpu_als
from gpumf.cpu import cg as cpu_cg
from gpumf.models.base import FactorTrainer, Version
from gpumf.ordering import stable_order


class ALSTrainer(FactorTrainer):
    """An epoch is two half-sweeps: the users' factors from the items', then the items' from the users'."""

    cg_steps = 6  # of conjugate gradient, where it is used and nothing else is asked for (cumf, section 4)

    @classmethod
    def check(cls, model):
        """Whether the kernel runs this model on its device; ValueError where it does not."""

    def epoch(self, number):
        self.solve_users()
        self.solve_items()

    def solve_users(self):
        self._solve(self._users, self._q, self._p)

    def solve_items(self):
        self._solve(self._items, self._p, self._q)

    @abstractmethod
    def _solve(self, rows, fixed, solved):
        """Overwrite `solved` with the solutions of the rows' normal equations."""

    def factors(self):
        return self._p, self._q


_SEGMENT = np.dtype([("begin", "i8")] + [(n, "i4") for n in ("length", "row", "part", "parts", "slot", "count")])


def segments_of(indptr, longest=8192):
    """The work list of kernels/common/segments.cuh: each row as segments of at most `longest` ratings, longest first.

    Parameters
    ----------
    indptr : int64 (rows + 1,), of the CSR rows
    longest : int, ratings of a segment; long enough that few rows pay for adding up parts, short enough that the last
        segment does not keep one multiprocessor busy alone

    Returns
    -------
    (segments, slots) : `Segment` records, and the number of parts of all rows that have several
    """
    records, slots = segment_records(indptr, longest)
    return records.reshape(-1).view(_SEGMENT), slots


def segment_records(indptr, longest, xp=np):
    """As `segments_of`, made by xp (of NumPy or a device) where indptr is: int64 (n, 4), a record's bytes."""
    counts = xp.diff(indptr)
    parts = xp.maximum(-(-counts // longest), 1)
    before = xp.cumsum(parts) - parts
    n = int(before[-1] + parts[-1])
    if n == len(counts):
        row, part = xp.arange(n), xp.zeros(n, np.int64)
    else:
        row = xp.searchsorted(before, xp.arange(n), side="right") - 1
        part = xp.arange(n) - before[row]
    slots = xp.where(parts > 1, parts, 0)
    length = (-(-counts // parts))[row]
    begin = indptr[row] + part * length
    records = xp.empty((n, 4), np.int64)
    halves = records.view(np.int32)
    records[:, 0] = begin
    columns = xp.clip(indptr[row + 1] - begin, 0, length), row, part, parts[row]
    for k, column in enumerate((*columns, (xp.cumsum(slots) - slots)[row], counts[row]), 2):
        halves[:, k] = column
    return records[stable_order(longest - halves[:, 2], longest + 1, xp)], int(slots.sum())


class Sequential(ALSTrainer):
    """Numba on one core."""

    versions: ClassVar = {"": Version("one core")}
    parallel = False

    @classmethod
    def compile(cls, model):
        return cpu_als.half_sweep(model.factors, cls.parallel)

    def __init__(self, model, train, user_factors, item_factors):
        self._half_sweep = self.compile(model)
        self._users, self._items = train.by_user, train.by_item
        self._p, self._q = user_factors.copy(), item_factors.copy()
        self._ridge = np.float32(model.regularization), model.weighted

    def _solve(self, rows, fixed, solved):
        self._half_sweep(rows.indptr, rows.indices, rows.values, fixed, solved, *self._ridge)


class Parallel(Sequential):
    """Numba, rows over all cores."""

    versions: ClassVar = {"": Version("all cores")}
    parallel = True


class ImplicitParallel(ALSTrainer):
    """Numba and BLAS, rows over all cores, for implicit feedback."""

    versions: ClassVar = {"": Version("all cores")}

    @classmethod
    def compile(cls, model):
        return cpu_als.implicit_half_sweep

    def __init__(self, model, train, user_factors, item_factors):
        self._users, self._items = train.by_user, train.by_item
        self._p, self._q = user_factors.copy(), item_factors.copy()
        self._parameters = np.float32(model.regularization), np.float32(model.alpha)

    def _solve(self, rows, fixed, solved):
        arrays = rows.indptr, rows.indices, rows.values
        cpu_als.implicit_half_sweep(*arrays, fixed, fixed.T @ fixed, solved, *self._parameters)


class ConjugateGradient(ALSTrainer):
    """Conjugate gradient on one core, from the factors before, of explicit or of implicit feedback."""

    versions: ClassVar = {"": Version("one core, CG")}
    cg_steps = 3
    parallel = False

    @classmethod
    def compile(cls, model):
        return cpu_cg.half_sweep(model.factors, cls.parallel, model.alpha is not None)

    def __init__(self, model, train, user_factors, item_factors):
        self._half_sweep = self.compile(model)
        sides = train.by_user, train.by_item
        self._users, self._items = ((rows, cpu_cg.longest_first(rows.indptr)) for rows in sides)
        self._p, self._q = user_factors.copy(), item_factors.copy()
        self._parameters = model.regularization, model.weighted, model.alpha or 0, model.cg_steps, model.cg_tolerance

    def _solve(self, side, fixed, solved):
        self._half_sweep(*side, fixed, solved, *self._parameters)


class ParallelConjugateGradient(ConjugateGradient):
    """The same with rows over all cores, with the same factors bit for bit."""

    versions: ClassVar = {"": Version("all cores, CG")}
    parallel = True
