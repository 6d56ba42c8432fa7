"""Launches kernels/als/cumf.cu."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from gpumf import gpu
from gpumf.models.als.half_sweeps import HalfSweeps, segments_of
from gpumf.models.base import KernelTrainer, whole_warps

_LOADS = {"coalesced": 0, "l1": 1, "no_l1": 2}
_SHARE = 0.75  # of the free memory, for the matrices and what comes with them
_STATIC = 1024  # bytes of shared memory that a kernel may have besides what it asks for
_LONGEST_OF_GRAM = 1024  # ratings of a segment of the one row that has all columns


class _Shapes:
    """What the kernels derive from their factors."""

    def __init__(self, f):
        tile_rows, patch_rows, system_rows = -(-f // 16), f // 8 + 1, f // 16 + 1
        patches = patch_rows * (patch_rows + 1) // 2
        groups = next(g for g in range(1, 33) if 5 * g * patches >= 4 * whole_warps(g * patches))
        self.matrix = 128 * tile_rows * (tile_rows + 1)
        self.sums = 64 * patches
        self.hermitian_threads = whole_warps(groups * patches)
        self.hermitian_shared = 4 * max(2 * 32 * (8 * patch_rows + 4), (groups - 1) * self.sums)
        self.system_bytes = 640 * system_rows * (system_rows + 1)
        self.solvers = next(
            threads for rows, threads in ((2, 32), (4, 64), (8, 128), (17, 256)) if system_rows <= rows
        )
        self.cg_threads = whole_warps(16 * tile_rows)


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


@dataclass(frozen=True)
class Side:
    """The ratings of all users or all items, in batches of rows; and the row that has every column, if needed."""

    indices: Any
    values: Any
    batches: list[Batch]
    gram: "Side | None" = None


class Cumf(KernelTrainer, HalfSweeps):
    """kernels/als/cumf.cu: the rows' matrices to global memory, then a solver; rows in batches that fit the memory.

    Parameters
    ----------
    model : ALS, or ImplicitALS, whose alpha makes the ratings implicit feedback (cumf, section 5.6)
    load : how theta comes to shared memory: 'coalesced', 'l1' (each thread from its own theta, through L1) or
        'no_l1' (the same with L1 bypassed; cumf, Figure 3)
    longest : int, ratings of a segment
    """

    source = "als/cumf.cu"
    a_half = False
    fused_bias = True  # b comes with A; else from a phase of its own, as published

    def __init__(self, model, train, user_factors, item_factors, *, load="coalesced", longest=8192):
        device = self._device = gpu.device(model.device)
        self._kernels = self.compile(model, load)
        self._factors, self._shapes = model.factors, _Shapes(model.factors)
        alpha = model.alpha
        self._alpha = np.float32(0 if alpha is None else alpha)
        self._ridge = np.float32(model.regularization), np.int32(model.weighted)
        self._cg = np.int32(model.cg_steps), np.float32(model.cg_tolerance)

        self._p, self._q = device.array(user_factors), device.array(item_factors)
        self._nothing = device.empty(1, np.float32)
        self._prepare_solver(model)
        sides = train.by_user, train.by_item
        ratings = [(device.array(rows.indices), device.array(rows.values)) for rows in sides]
        grams = [self._gram(n) if alpha is not None else None for n in (len(self._q), len(self._p))]
        batches = self._batches([rows.indptr for rows in sides], longest)
        self._users, self._items = (Side(*r, b, g) for r, b, g in zip(ratings, batches, grams, strict=True))

    @classmethod
    def check(cls, model):
        """Whether a block of `get_hermitian` has the shared memory that this model's factors take.

        Raises
        ------
        ValueError : with the most factors that fit
        """
        has = gpu.device(model.device).facts["shared_bytes_per_block"]
        if _Shapes(model.factors).hermitian_shared + _STATIC <= has:
            return
        most = max(f for f in range(1, cls.max_factors) if _Shapes(f).hermitian_shared + _STATIC <= has)
        raise ValueError(
            f"kernel={model.kernel!r} takes up to {most} factors on this GPU, whose blocks have {has >> 10} KB of "
            f"shared memory, not {model.factors}; take fewer, or kernel='tensor_core'"
        )

    @classmethod
    def compile(cls, model, load="coalesced"):
        """The kernels by phase; what does not depend on a definition is compiled with 0 for it."""
        kernel = partial(gpu.device(model.device).kernel, cls.source, FACTORS=model.factors)
        half, implicit = int(cls.a_half), int(model.alpha is not None)
        kernels = {
            "get_hermitian": kernel("get_hermitian", LOAD=_LOADS[load], A_HALF=half, IMPLICIT=implicit),
            "get_bias": kernel("get_bias", LOAD=0, A_HALF=0, IMPLICIT=implicit),
            "solve": kernel(cls.solver_of(model), LOAD=0, A_HALF=half, IMPLICIT=0),
        }
        if implicit:
            kernels["get_gram"] = kernel("get_hermitian", LOAD=_LOADS[load], A_HALF=0, IMPLICIT=0)
        return kernels

    @classmethod
    def solver_of(cls, model):
        """The kernel that solves this model's systems."""
        return cls.entry

    # Memory

    def _batches(self, indptrs, longest):
        """For each side its batches, all in the same memory."""
        parts = [np.maximum(-(-np.diff(indptr) // longest), 1) for indptr in indptrs]
        matrix_bytes = self._shapes.matrix * (2 if self.a_half else 4) + 4 * (self._factors + 1)
        costs = [matrix_bytes + np.where(p > 1, p * self._shapes.sums * 4, 0) for p in parts]
        lists = sum(40 * len(p) + 36 * int(p.sum()) for p in parts)  # indptr, segments and counters, of all batches
        budget = _SHARE * self._device.free_bytes() - lists
        if budget < (needed := max(int(cost.max()) for cost in costs)):
            raise gpu.DeviceError(
                f"the system of one row takes {needed / 1e6:.1f} MB of device memory; beside ratings, factors and "
                f"work lists {max(budget, 0) / 1e6:.1f} MB are left; take fewer factors or ratings, "
                "kernel='tensor_core', or a GPU with more memory"
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
        n, shapes = len(indptr) - 1, self._shapes
        sizes = n * shapes.matrix // (2 if a_half else 1), n, n * self._factors, max(slots * shapes.sums, 1)
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

    def _gram(self, columns):
        """One row that has every column: its matrix is Theta^T Theta."""
        indptr = np.array([0, columns])
        parts = -(-columns // _LONGEST_OF_GRAM)
        memory = self._device.empty((1 + parts) * self._shapes.sums + self._shapes.matrix, np.float32)
        batch = self._batch(indptr, slice(0, 1), _LONGEST_OF_GRAM, memory, a_half=False)
        every, ones = np.arange(columns, dtype=np.int32), np.ones(columns, np.float32)
        return Side(self._device.array(every), self._device.array(ones), [batch])

    # Phases

    def _solve(self, side, fixed, solved):
        self.get_gram(side, fixed)
        for batch in side.batches:
            self.get_hermitian(side, batch, fixed)
            if not self.fused_bias:
                self.get_bias(side, batch, fixed)
            self.solve(batch, solved)

    def phases(self, which):
        """The phases of a half-sweep, to be timed apart: a dict of functions of no arguments, each over all batches.

        Where the rows have one batch, calling get_gram (which does nothing for explicit ratings), get_hermitian,
        get_bias and solve is a half-sweep; get_bias makes again what get_hermitian has made with `fused_bias`.

        Parameters
        ----------
        which : 'users' or 'items', the side to solve
        """
        side, fixed, solved = {
            "users": (self._users, self._q, self._p),
            "items": (self._items, self._p, self._q),
        }[which]

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
        given = batch.segments, side.indices, side.values, fixed, gram
        results = batch.matrices, batch.scales, batch.biases, batch.partial, batch.arrived
        shape = batch.n_segments, self._shapes.hermitian_threads
        self._kernels[kernel](*shape, *given, *results, self._alpha, shared=self._shapes.hermitian_shared)

    def get_bias(self, side, batch, fixed):
        """b of the rows of a batch."""
        given = batch.segments, side.indices, side.values, fixed
        results = batch.biases, batch.partial, batch.arrived
        self._kernels["get_bias"](batch.n_segments, 128, *given, *results, self._alpha)

    def solve(self, batch, solved):
        """The factors of the rows of a batch."""
        n_rows = batch.rows.stop - batch.rows.start
        blocks, threads, shared, more = self._solver(n_rows)
        system = batch.matrices, batch.scales, batch.biases, batch.indptr
        arguments = *system, solved[batch.rows], np.int32(n_rows), *self._ridge, *more
        self._kernels["solve"](blocks, threads, *arguments, shared=shared)

    def _prepare_solver(self, model):
        """Make what the solver needs."""

    def _solver(self, n_rows):
        """(blocks, threads, bytes of dynamic shared memory, further arguments) of the solver's launch."""
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


class _Exact(Cumf):
    """A solver with the system of a row, or two copies of it, in a block's shared memory where they fit."""

    copies: int

    @classmethod
    def _system_bytes(cls, model):
        """(bytes of a block's systems, whether they fit its shared memory)."""
        taken = cls.copies * _Shapes(model.factors).system_bytes
        return taken, taken + _STATIC <= gpu.device(model.device).facts["shared_bytes_per_block"]

    @classmethod
    def solver_of(cls, model):
        _, fit = cls._system_bytes(model)
        return cls.entry if fit else f"{cls.entry}_in_global"

    def _prepare_solver(self, model):
        """Memory for the systems of the blocks that run at once, where they exceed shared memory."""
        taken, fit = self._system_bytes(model)
        facts = self._device.facts
        held = facts["multiprocessors"] * max(facts["threads_per_multiprocessor"] // self._shapes.solvers, 1)
        self._most_blocks, self._shared, self._more = None, taken, ()
        if not fit:
            self._most_blocks, self._shared = held, 0
            self._more = (self._device.empty(held * taken // 4, np.float32),)

    def _solver(self, n_rows):
        blocks = n_rows if self._most_blocks is None else min(n_rows, self._most_blocks)
        return blocks, self._shapes.solvers, self._shared, self._more


class CumfLu(_Exact):
    """The phases as published, and a batched LU."""

    entry, copies = "solve_lu", 2
    fused_bias = False


class CumfCholesky(_Exact):
    """Batched Cholesky."""

    entry, copies = "solve_cholesky", 1


class CumfCg(Cumf):
    """Conjugate gradient, A in FP32."""

    entry = "solve_cg"

    def _solver(self, n_rows):
        return n_rows, self._shapes.cg_threads, 0, self._cg


class CumfCgHalf(CumfCg):
    """Conjugate gradient, A in FP16."""

    a_half = True
