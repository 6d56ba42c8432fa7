"""Launches kernels/als/cumf."""

from abc import abstractmethod
from bisect import bisect
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from gpumf import backends
from gpumf.backends import sources
from gpumf.solvers.als_base import ALSSolver, segments_of
from gpumf.solvers.als_biases import Biases
from gpumf.solvers.als_shared import SharedSums
from gpumf.solvers.base import KernelSolver, Publication, Version, shape_of

_LOADS = {"coalesced": 0, "l1": 1, "no_l1": 2}
_SHARE = 0.75  # of the free memory, for the matrices and what comes with them
_STATIC = 1024  # bytes of shared memory that a kernel may have in addition to the dynamic ones
_LONGEST_OF_GRAM = 1024  # ratings of a segment of the one row that has all columns

_FACTORS = range(1, 257)
sources.declare("als/cumf/launch_config.cu", FACTORS=_FACTORS)
sources.declare("als/cumf/bias.cu", FACTORS=_FACTORS, IMPLICIT=range(2))
sources.declare("als/cumf/cg.cu", FACTORS=_FACTORS, A_HALF=range(2))
sources.declare("als/cumf/direct.cu", FACTORS=_FACTORS, CHOLESKY=range(2), IN_GLOBAL=range(2))


def _shape(device, factors):
    """The geometry of the kernels for so many factors, by the names in kernels/als/cumf/launch_config.cu."""
    return shape_of(backends.device(device), "als/cumf/launch_config.cu", FACTORS=factors)


@dataclass(frozen=True)
class Batch:
    """Rows whose matrices are in memory at the same time: their work list, and where their results go."""

    rows: slice
    n_segments: int
    segments: Any
    indptr: Any
    matrices: Any
    scales: Any
    biases: Any
    partial: Any
    arrived: Any
    ridges: Any = None


@dataclass(frozen=True)
class Side:
    """The ratings of all users or all items, in batches of rows; and the row that has every column, if needed."""

    indices: Any
    values: Any
    batches: list[Batch]
    gram: "Side | None" = None


class Cumf(SharedSums, KernelSolver):
    """kernels/als/cumf: the rows' matrices to global memory, then a solver; rows in batches that fit the memory.

    model : ALS, or ImplicitALS, whose alpha makes the ratings implicit feedback (cumf, section 5.6)
    load : how theta comes to shared memory: 'coalesced', 'l1' (each thread from its own theta, through L1) or
        'no_l1' (the same with L1 bypassed; cumf, Figure 3)
    longest : int, ratings of a segment
    """

    source = "als/cumf/hermitian.cu"  # of the systems; each solver has its own
    publication: ClassVar[Publication | None] = Publication("cumf", "sections 2 to 4")
    variants: ClassVar = {"FACTORS": _FACTORS, "LOAD": range(3), "A_HALF": range(2), "IMPLICIT": range(2)}
    solver_source: str
    a_half, adds_up = False, True
    fused_bias = True  # get_hermitian computes b too; else a phase of its own does, as published

    def __init__(self, problem, *, load="coalesced", longest=8192):
        hyper, train, (user_factors, item_factors) = problem
        device, self._longest = backends.device(hyper.device), longest
        self._device = device
        self._kernels = self.compile(hyper, load)
        self._factors, self._shape = hyper.columns, _shape(hyper.device, hyper.columns)
        self._hyper, self._alpha = hyper, hyper.confidence or 0

        self._p, self._q = device.array(user_factors), device.array(item_factors)
        self._nothing = device.empty(1, np.float32)
        self._prepare_solver(hyper)
        sides = train.by_user, train.by_item
        ratings = [(device.array(rows.indices), device.array(rows.values)) for rows in sides]
        self._biases = Biases.of(hyper, train, device)
        columns = len(self._q), len(self._p)
        grams = [self._gram(n) if hyper.alpha is not None else None for n in columns]
        batches = self._batches([rows.indptr for rows in sides], longest)
        self._users, self._items = (
            Side(*of_ratings, [self._with_ridges(batch, rows.counts, n) for batch in of_side], gram)
            for of_ratings, rows, of_side, gram, n in zip(ratings, sides, batches, grams, columns, strict=True)
        )

    @classmethod
    def check(cls, hyper):
        """Check that a block of `get_hermitian` has the shared memory that this model's factors take.

        Raises ValueError: with the most factors that fit
        """
        has = backends.device(hyper.device).facts["shared_bytes_per_block"]

        biases = hyper.columns - hyper.factors

        def taken(factors):
            return _shape(hyper.device, factors + biases).hermitian_shared + _STATIC

        if taken(hyper.factors) <= has:
            return
        most = bisect(range(1, hyper.factors), has, key=taken)
        raise ValueError(
            f"solver={hyper.solver!r} takes up to {most} factors on this GPU, whose blocks have {has >> 10} KB of "
            f"shared memory, not {hyper.factors}; take fewer, or solver='tensor_core'"
        )

    @classmethod
    def compile(cls, hyper, load="coalesced"):
        """The kernels by phase."""
        kernel = partial(backends.device(hyper.device).kernel, FACTORS=hyper.columns)
        implicit = int(hyper.alpha is not None)
        hermitian = partial(kernel, cls.source, "get_hermitian", LOAD=_LOADS[load])
        kernels = {
            "get_hermitian": hermitian(A_HALF=int(cls.a_half), IMPLICIT=implicit),
            "get_bias": kernel("als/cumf/bias.cu", "get_bias", IMPLICIT=implicit),
            "solve": kernel(cls.solver_source, cls.entry, **cls.solver_defines(hyper)),
        }
        if implicit:
            kernels["get_gram"] = hermitian(A_HALF=0, IMPLICIT=0)
        return kernels

    @classmethod
    @abstractmethod
    def solver_defines(cls, hyper):
        """The definitions of the solver's source, beside FACTORS, for this model."""

    # Memory

    def _batches(self, indptrs, longest):
        """For each side its batches, all in the same memory."""
        parts = [np.maximum(-(-np.diff(indptr) // longest), 1) for indptr in indptrs]
        matrix_bytes = self._shape.matrix * (2 if self.a_half else 4) + 4 * (self._factors + 1)
        costs = [matrix_bytes + np.where(p > 1, p * self._shape.sums * 4, 0) for p in parts]
        lists = sum(44 * len(p) + 36 * int(p.sum()) for p in parts)  # indptr, ridges, segments, counters
        budget = _SHARE * self._device.free_bytes() - lists
        if budget < (needed := max(int(cost.max()) for cost in costs)):
            raise backends.DeviceError(
                f"the system of one row takes {needed / 1e6:.1f} MB of device memory; beside ratings, factors and "
                f"work lists {max(budget, 0) / 1e6:.1f} MB are left; take fewer factors or ratings, "
                "solver='tensor_core', or a GPU with more memory"
            )
        cuts = [_cut(cost, budget) for cost in costs]
        most = max(int(cost[rows].sum()) for cost, cut in zip(costs, cuts, strict=True) for rows in cut)
        memory = self._device.empty(most // 4 + 1, np.float32)
        return [
            [self._batch(indptr[rows.start : rows.stop + 1], rows, longest, memory, self.a_half) for rows in cut]
            for indptr, cut in zip(indptrs, cuts, strict=True)
        ]

    def _batch(self, indptr, rows, longest, memory, a_half):
        segments, slots = segments_of(indptr, longest)
        n, shape = len(indptr) - 1, self._shape
        sizes = n * shape.matrix // (2 if a_half else 1), n, n * self._factors, max(slots * shape.sums, 1)
        ends = np.cumsum(sizes)
        matrices, scales, biases, partial = (memory[e - s : e] for e, s in zip(ends, sizes, strict=True))
        return Batch(
            rows=rows,
            n_segments=len(segments),
            segments=self._device.array(segments.view(np.uint8)),
            indptr=self._device.array(indptr),
            matrices=matrices.view(np.uint16) if a_half else matrices,
            scales=scales,
            biases=biases,
            partial=partial,
            arrived=self._device.array(np.zeros(max(slots, 1), np.int32)),
        )

    def _with_ridges(self, batch, counts, columns):
        """The batch with what is added to the diagonals of its rows, of all of which these are the counts."""
        return replace(batch, ridges=self._device.array(self._hyper.ridges(counts[batch.rows], columns)))

    def _gram(self, columns):
        """One row that has every column: its matrix is Theta^T Theta."""
        indptr = np.array([0, columns])
        parts = -(-columns // _LONGEST_OF_GRAM)
        memory = self._device.empty((1 + parts) * self._shape.sums + self._shape.matrix, np.float32)
        batch = self._batch(indptr, slice(0, 1), _LONGEST_OF_GRAM, memory, a_half=False)
        every, ones = np.arange(columns, dtype=np.int32), np.ones(columns, np.float32)
        return Side(self._device.array(every), self._device.array(ones), [batch])

    # Phases

    def _solve(self, side, fixed, solved):
        side = replace(side, values=self._targets(side.indices, side.values))
        self.get_gram(side, fixed)
        for batch in side.batches:
            self.get_hermitian(side, batch, fixed)
            if not self.fused_bias:
                self.get_bias(side, batch, fixed)
            self.solve(batch, solved)

    def phases(self, which):
        """The phases of an update, to be timed apart: a dict of functions of no arguments, each over all batches.

        Where the rows have one batch, calling get_gram (which does nothing for explicit ratings), get_hermitian,
        get_bias and solve is an update of a model without biases; with `fused_bias` get_bias computes again what
        get_hermitian has.

        which : 'users' or 'items', the side to solve
        """
        side, fixed, solved = {"users": (self._users, self._q, self._p), "items": (self._items, self._p, self._q)}[
            which
        ]

        def over_batches(phase):
            return lambda: [phase(batch) for batch in side.batches]

        return {
            "get_gram": lambda: self.get_gram(side, fixed),
            "get_hermitian": over_batches(lambda batch: self.get_hermitian(side, batch, fixed)),
            "get_bias": over_batches(lambda batch: self.get_bias(side, batch, fixed)),
            "solve": over_batches(lambda batch: self.solve(batch, solved)),
        }

    def get_gram(self, side, fixed):
        """G = Theta^T Theta of all the fixed side, where the ratings are implicit feedback."""
        if side.gram is not None:
            self._hermitian("get_gram", side.gram, side.gram.batches[0], fixed, self._nothing)

    def get_hermitian(self, side, batch, fixed):
        """A of the rows of a batch; and b, on the way."""
        gram = self._nothing if side.gram is None else side.gram.batches[0].matrices
        self._hermitian("get_hermitian", side, batch, fixed, gram)

    def _hermitian(self, kernel, side, batch, fixed, gram):
        given, shape = self._of_segments(side, batch, fixed), self._shape
        given |= {"gram": gram, "matrices": batch.matrices, "scales": batch.scales}
        launch = self._kernels[kernel]
        launch(batch.n_segments, shape.hermitian_threads, shared=shape.hermitian_shared, **given)

    def get_bias(self, side, batch, fixed):
        """b of the rows of a batch."""
        self._kernels["get_bias"](batch.n_segments, 128, **self._of_segments(side, batch, fixed))

    def _of_segments(self, side, batch, fixed):
        """The arguments of the kernels that sum over the segments of a batch, by name."""
        of_batch = {name: getattr(batch, name) for name in ("segments", "biases", "partial", "arrived")}
        return of_batch | {"indices": side.indices, "values": side.values, "fixed": fixed, "alpha": self._alpha}

    def solve(self, batch, solved):
        """The factors of the rows of a batch."""
        n_rows = batch.rows.stop - batch.rows.start
        blocks, threads, shared, further = self._solver(batch, n_rows)
        further |= {name: getattr(batch, name) for name in ("matrices", "biases", "indptr", "ridges")}
        self._kernels["solve"](blocks, threads, shared=shared, solved=solved[batch.rows], n_rows=n_rows, **further)

    def _prepare_solver(self, hyper):
        """Allocate what the solver needs."""

    def _solver(self, batch, n_rows):
        """(blocks, threads, bytes of dynamic shared memory, further arguments by name) of the solver's launch."""
        raise NotImplementedError


def _cut(costs, budget):
    """Slices of rows whose costs add up to at most the budget, which no row's cost alone exceeds."""
    ends, cuts, first = np.cumsum(costs), [], 0
    while first < len(costs):
        spent = ends[first - 1] if first else 0
        last = int(np.searchsorted(ends, spent + budget, side="right"))
        cuts.append(slice(first, last))
        first = last
    return cuts


class Direct:
    """A solver with the system of a row, or two copies of it, in a block's shared memory where they fit."""

    solver_source, entry = "als/cumf/direct.cu", "solve_direct"
    copies: int

    @classmethod
    def _system_bytes(cls, hyper):
        """(bytes of a block's systems, whether they fit its shared memory)."""
        taken = cls.copies * _shape(hyper.device, hyper.columns).system_bytes
        return taken, taken + _STATIC <= backends.device(hyper.device).facts["shared_bytes_per_block"]

    @classmethod
    def solver_defines(cls, hyper):
        _, fit = cls._system_bytes(hyper)
        return {"CHOLESKY": int(cls.copies == 1), "IN_GLOBAL": int(not fit)}

    def _prepare_solver(self, hyper):
        """Memory for the systems of the blocks that run at once, where they exceed shared memory."""
        taken, fit = self._system_bytes(hyper)
        facts = self._device.facts
        resident = facts["multiprocessors"] * max(
            facts["threads_per_multiprocessor"] // self._shape.direct_threads, 1
        )
        self._max_blocks, self._shared, self._workspace = None, taken, self._nothing
        if not fit:
            self._max_blocks, self._shared = resident, 0
            self._workspace = self._device.empty(resident * taken // 4, np.float32)

    def _solver(self, batch, n_rows):
        blocks = n_rows if self._max_blocks is None else min(n_rows, self._max_blocks)
        return blocks, self._shape.direct_threads, self._shared, {"workspace": self._workspace}


class CumfLu(Direct, Cumf, ALSSolver):
    """The phases as published, and a batched LU."""

    versions: ClassVar = {"": Version("cuMF, LU", "red", "-s")}
    copies = 2
    fused_bias = False


class CumfCholesky(Direct, Cumf, ALSSolver):
    """Batched Cholesky."""

    versions: ClassVar = {"": Version("cuMF, Cholesky", "indigo", "-D")}
    copies = 1


class _Gradient:
    """Conjugate gradient."""

    solver_source, entry = "als/cumf/cg.cu", "solve_cg"

    @classmethod
    def solver_defines(cls, hyper):
        return {"A_HALF": int(cls.a_half)}

    def _prepare_solver(self, hyper):
        self._limits = {"cg_steps": hyper.cg_steps, "cg_tolerance": hyper.cg_tolerance}

    def _solver(self, batch, n_rows):
        return n_rows, self._shape.cg_threads, 0, {"scales": batch.scales, **self._limits}


class CumfCg(_Gradient, Cumf, ALSSolver):
    """Conjugate gradient, A in FP32."""

    versions: ClassVar = {"": Version("cuMF, CG in FP32", "olive", "-^")}


class CumfCgHalf(_Gradient, Cumf, ALSSolver):
    """Conjugate gradient, A in FP16."""

    versions: ClassVar = {"": Version("cuMF, CG in FP16", "teal", "-v")}
    a_half, adds_up = True, False  # each row's entries have a divisor of their own
