"""What every version of ALS does in an epoch, and the versions that run on the CPU."""

from abc import abstractmethod
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

import numpy as np

from gpumf._util import threads
from gpumf._util.sorting import stable_order
from gpumf.backends import compile
from gpumf.backends.cpu import als as cpu_als
from gpumf.backends.cpu import cg as cpu_cg
from gpumf.ratings.csr import row_offsets
from gpumf.solvers.als_biases import Biases
from gpumf.solvers.base import COLUMNS, Hyperparameters, Solver, Version


@dataclass(frozen=True)
class ALSHyperparameters(Hyperparameters):
    """Those of ALS, and of ImplicitALS, which has an alpha; see the parameters of these models.

    columns : of the factors, two more than `factors` with biases
    """

    factors: int
    columns: int
    biases: bool
    regularization: float
    weighted: bool
    alpha: float | None
    unobserved_weight: float | None
    regularization_exponent: float | None
    cg_steps: int
    cg_tolerance: float
    threads: int | None
    chunk: int | None

    @property
    def confidence(self):
        """What a rating of 1 adds to the weight of a pair, in units of the weight of one without a rating.

        Solvers divide the equations of implicit feedback by that weight, which leaves Y^T Y as it is. None where
        ratings are explicit.
        """
        return None if self.alpha is None else self.alpha / self.unobserved_weight

    def ridges(self, counts, columns):
        """Return what each row's matrix has on its diagonal besides products of factors, in the solvers' units.

        counts : int (rows,), of the rows' ratings
        columns : int, users or items of the other side
        Returns float32 (rows,)
        Raises ValueError: one exceeds float32
        """
        if self.alpha is None:
            power = 1.0 if self.weighted else self.regularization_exponent or 0.0
            return np.float32(self.regularization) * counts.astype(np.float32) ** np.float32(power)
        weight = self.unobserved_weight
        with np.errstate(over="ignore", invalid="ignore"):
            found = self.regularization * (counts + weight * columns) ** self.regularization_exponent / weight
            found = found.astype(np.float32)
        if not np.isfinite(found).all():
            raise ValueError(
                f"with regularization={self.regularization} and regularization_exponent="
                f"{self.regularization_exponent} the regularization of a user or an item exceeds the range of float32"
            )
        return found


class ALSSolver(Solver):
    """An epoch is two updates: the users' factors from the items', then the items' from the users'.

    streams : whether it takes ratings a chunk after another
    adds_up : whether an item's equations may be the sum of parts that several workers made
    """

    streams = adds_up = False
    max_factors = COLUMNS[-1]
    layout: ClassVar = ("by_user", "by_item")
    orders = layout
    _biases = None  # `Biases` of a model that has them
    cg_steps = 6  # of conjugate gradient, where it is used and nothing else is asked for (cumf, section 4)

    @classmethod
    def check(cls, hyper):
        """Whether the kernel runs this model on its device; ValueError where it does not."""

    def epoch(self, number):
        self.solve_users()
        self.solve_items()

    def solve_users(self, which=slice(None)):
        """Solve users, those of a training set that has the ratings of these positions alone."""
        self._update_of(self._users, self._q, self._p[which], -1)

    def solve_items(self, which=slice(None), solve=None):
        """Solve items, as users; by `solve(rows, fixed, solved)`, of CompressedRows, where that is given."""
        self._update_of(self._items, self._p, self._q[which], -2, solve)

    def gather_users(self, carrier, bounds):
        """Have the users of all workers, each of which has solved its own, where `solve_items` takes them from.

        carrier, bounds : see `gpumf.distributed.communicator.Communicator.all_gather`
        """
        carrier.all_gather(self._p, bounds)

    def _update_of(self, rows, fixed, solved, column, solve=None):
        """Solve rows, whose column is 1 where the model has biases."""
        with self._biases.aside(fixed, solved, column) if self._biases else nullcontext():
            if solve is None:
                self._solve(rows, fixed, solved)
            else:
                solve(replace(rows, values=self._targets(rows.indices, rows.values)), fixed, solved)

    @abstractmethod
    def _solve(self, rows, fixed, solved):
        """Overwrite `solved` with the solutions of the normal equations of the rows' targets."""

    def _targets(self, indices, values):
        """What is left of ratings for the factors: less the biases of the fixed side, where the model has any."""
        return values if self._biases is None else self._biases.subtract(indices, values)


SEGMENTS = "als/segments.cu"
_BLOCK = 256  # CUDA threads
_SEGMENT = np.dtype([("begin", "i8")] + [(n, "i4") for n in ("length", "row", "part", "parts", "slot", "count")])


def segments_of(indptr, longest=8192):
    """The work list of kernels/common/segments.cuh: each row as segments of at most `longest` ratings.

    The parts of a row differ by a rating at most. Those in the same eighth of their rows come together, before all
    other rows: they have columns near each other, whose factors the cache holds meanwhile. Inside, longest first.

    indptr : int64 (rows + 1,), of the CSR rows
    longest : int, ratings of a segment; long enough that few rows pay for adding up parts, short enough that the last
        segment does not keep one multiprocessor busy alone
    Returns (segments, slots): `Segment` records, and the number of parts of all rows that have several
    """
    counts = np.diff(indptr)
    parts = np.maximum(-(-counts // longest), 1)
    before = np.cumsum(parts) - parts
    row = np.repeat(np.arange(len(parts)), parts)
    part = np.arange(len(row)) - before[row]
    slots = np.where(parts > 1, parts, 0)
    begin, end = (indptr[row] + (part + k) * counts[row] // parts[row] for k in range(2))
    records = np.empty((len(row), 4), np.int64)  # gathered faster than what has names
    halves = records.view(np.int32)
    records[:, 0] = begin
    columns = end - begin, row, part, parts[row]
    for k, column in enumerate((*columns, (np.cumsum(slots) - slots)[row], counts[row]), 2):
        halves[:, k] = column
    eighth = np.where(parts[row] > 1, (2 * part + 1) * 4 // parts[row], 8)  # that its middle is in
    records = records[stable_order(eighth * (longest + 1) + longest - halves[:, 2], 9 * (longest + 1))]
    return records.reshape(-1).view(_SEGMENT), int(slots.sum())


def segments_on(device, indptr, longest):
    """As `segments_of` on a device, of ratings that begin at indptr[0]: (the records' bytes, their number), slots.

    indptr : on the host
    """
    counts = np.diff(indptr)
    several = np.flatnonzero(counts > longest)
    slots = row_offsets(-(-counts[several] // longest))
    n = len(counts) - len(several) + int(slots[-1])
    bits = (n - 1).bit_length()
    keys, segments = device.empty(n, np.int64), device.empty((n, _SEGMENT.itemsize), np.uint8)
    indptr, long_rows, firsts = map(device.array, (indptr, several.astype(np.int32), slots))
    rows = {"indptr": indptr, "n_rows": len(counts), "longest": longest}
    rows |= {"long_rows": long_rows, "n_long": len(several), "slots": firsts, "bits": bits}
    cut_rows, order = device.kernel(SEGMENTS, "cut_rows"), device.kernel(SEGMENTS, "order_segments")
    cut_rows(-(-len(counts) // _BLOCK), _BLOCK, **rows, keys=keys, segments=segments)
    keys.sort()
    ordered = device.empty(segments.shape, np.uint8)
    order(-(-n // _BLOCK), _BLOCK, keys=keys, n=n, places=(1 << bits) - 1, segments=segments, ordered=ordered)
    return (ordered, np.int32(n)), int(slots[-1])


class _Exact:
    """Numba, the solution of each row's system."""

    adds_up = True
    parallel: bool

    @classmethod
    def compile(cls, hyper):
        return cpu_als.side_update(hyper.columns, cls.parallel)

    def __init__(self, problem):
        hyper, train, (user_factors, item_factors) = problem
        self._update = self.compile(hyper)
        self._users, self._items = train.by_user, train.by_item
        self._p, self._q = user_factors.copy(), item_factors.copy()
        self._ridge = np.float32(hyper.regularization), hyper.weighted
        self._biases = Biases.of(hyper, train)

    def _solve(self, rows, fixed, solved):
        targets = self._targets(rows.indices, rows.values)
        self._update(rows.indptr, rows.indices, targets, fixed, solved, *self._ridge)


class Sequential(_Exact, ALSSolver):
    """Numba on one thread."""

    versions: ClassVar = {"": Version("1 thread", "sky", "--")}
    parallel = False


class Parallel(_Exact, ALSSolver):
    """Numba, rows over all threads."""

    versions: ClassVar = {"": Version("all threads", "blue", "--")}
    parallel = True


class ImplicitParallel(ALSSolver):
    """Numba and BLAS, rows over all threads, for implicit feedback.

    gram, n_items : float32 (f, f) and int, of all items, where `item_factors` are those of some and users alone are
        solved
    """

    adds_up = True

    versions: ClassVar = {"": Version("all threads", "blue", "--")}

    @classmethod
    def compile(cls, hyper):
        return cpu_als.implicit_update

    def __init__(self, problem, gram=None, n_items=None):
        hyper, train, (user_factors, item_factors) = problem
        self._users, self._items, self._gram = train.by_user, train.by_item, gram
        self._p, self._q = user_factors.copy(), item_factors.copy()
        self._hyper, self._n_items = hyper, n_items

    def _solve(self, rows, fixed, solved):
        arrays = rows.indptr, rows.indices, rows.values
        gram = fixed.T @ fixed if self._gram is None else self._gram
        ridges = self._hyper.ridges(rows.counts, self._n_items or len(fixed))
        with threads.limited_to(max(min(threads.count(), rows.n_rows), 1)):  # of one user no thread is to be awaited
            cpu_als.implicit_update(*arrays, fixed, gram, solved, ridges, np.float32(self._hyper.confidence))


_DOUBLE_ROUNDING = 2.0**-40  # well above that of a sum


class RowByRow(ALSSolver):
    """NumPy in double precision, a row after another: for so few that compiling or copying would take longer.

    gram, n_items : as of `ImplicitParallel`
    """

    @classmethod
    def compile(cls, hyper):
        """There is nothing to compile."""

    def __init__(self, problem, gram=None, n_items=None):
        self._hyper, train, (user_factors, item_factors) = problem
        self._users, self._p, self._q = train.by_user, user_factors.copy(), item_factors
        self._gram, self._n_items = gram, n_items
        self._biases = Biases.of(self._hyper, train)

    def _solve(self, rows, fixed, solved):
        ridges = self._hyper.ridges(rows.counts, self._n_items or len(fixed))
        factors, targets = fixed[rows.indices].astype(np.float64), self._targets(rows.indices, rows.values)
        for row, (begin, end) in enumerate(pairwise(rows.indptr)):
            solved[row] = solved_row(self._hyper, factors[begin:end], targets[begin:end], ridges[row], self._gram)


def solved_row(hyper, factors, targets, ridge, gram=None):
    """The factors of one row, float64 (f,), from those of its ratings, float64 (n, f); see `RowByRow`."""
    right, weights = targets.astype(np.float64), 1.0
    if hyper.alpha is None:
        gram = 0.0
    else:
        weights = hyper.confidence * np.abs(right)
        right = (1 + weights) * (right > 0)
    if not right.any():
        return np.zeros(factors.shape[1])
    # A product of one array and itself BLAS shares out among threads, however small.
    system = gram + (weights * factors.T) @ factors
    diagonal = system.reshape(-1)[:: len(system) + 1]
    diagonal += ridge
    diagonal *= 1 + _DOUBLE_ROUNDING  # weights that leave nothing of the ridge would make it singular
    return np.linalg.solve(system, factors.T @ right)


class _Gradient:
    """Conjugate gradient, from the factors before, of explicit or of implicit feedback."""

    cg_steps = 3
    parallel: bool

    @classmethod
    def compile(cls, hyper):
        return cpu_cg.side_update(hyper.columns, cls.parallel, hyper.alpha is not None)

    def __init__(self, problem):
        hyper, train, (user_factors, item_factors) = problem
        self._update = self.compile(hyper)
        sides = (train.by_user, len(item_factors)), (train.by_item, len(user_factors))
        self._users, self._items = (
            (rows, cpu_cg.longest_first(rows.indptr), hyper.ridges(rows.counts, columns)) for rows, columns in sides
        )
        self._p, self._q = compile.aligned(user_factors), compile.aligned(item_factors)
        self._parameters = hyper.confidence or 0, hyper.cg_steps, hyper.cg_tolerance
        self._biases = Biases.of(hyper, train)

    def _solve(self, side, fixed, solved):
        rows, order, ridges = side
        rows = replace(rows, values=self._targets(rows.indices, rows.values))
        self._update(rows, order, fixed, solved, ridges, *self._parameters)


class ConjugateGradient(_Gradient, ALSSolver):
    """Conjugate gradient on one thread."""

    versions: ClassVar = {"": Version("1 thread, CG", "rose", "-.")}
    parallel = False


class ParallelConjugateGradient(_Gradient, ALSSolver):
    """The same with rows over all threads, with the same factors bit for bit."""

    versions: ClassVar = {"": Version("all threads, CG", "wine", "-.")}
    parallel = True
