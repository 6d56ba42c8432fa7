"""Launches kernels/als/thesis.cu."""

from typing import ClassVar

import numpy as np

from gpumf import backends
from gpumf.solvers.als_base import ALSSolver
from gpumf.solvers.als_biases import Biases
from gpumf.solvers.base import KernelSolver, Publication, Version, launch_shape


class Thesis(KernelSolver):
    """kernels/als/thesis.cu: a half-warp a row, in whichever memory its two symmetric matrices lie."""

    source = "als/thesis.cu"
    publication: ClassVar[Publication | None] = Publication("thesis", "Algorithms 5.2 and 5.3")
    variants: ClassVar = {"FACTORS": range(1, 33)}
    groups: ClassVar = dict.fromkeys(("thesis_global", "thesis_hybrid"), (16, {"matrices"}))
    shared_matrices: int  # of the two, how many lie in shared memory; the others in global memory

    @staticmethod
    def defines(hyper):
        return {"FACTORS": hyper.columns}

    def __init__(self, problem, shared_bytes=0):
        """shared_bytes : what a block asks for where it is more than it needs, as if there were less of it."""
        hyper, train, (user_factors, item_factors) = problem
        device = self._device = backends.device(hyper.device)
        self._kernel, shape = self.compile(hyper), self.geometry(hyper)
        self._users, self._items = (
            self._side(rows, hyper, shape, shared_bytes) for rows in (train.by_user, train.by_item)
        )
        self._p, self._q = device.array(user_factors), device.array(item_factors)
        self._given = {"regularization": hyper.regularization, "weighted": hyper.weighted}
        words = (2 - self.shared_matrices) * shape.matrix
        groups = max(blocks * block for _, (blocks, block), _ in (self._users, self._items)) // shape.lanes
        if words:
            self._given["matrices"] = device.empty((groups, words), np.float32)
        self._biases = Biases.of(hyper, train, device)

    def _side(self, rows, hyper, shape, asked):
        """What the kernel wants to know of the rows, the shape of its grid, and the shared memory of a block."""
        arrays = {name: self._device.array(getattr(rows, name)) for name in ("indptr", "indices", "values")}
        grid = launch_shape(hyper.threads, rows.n_rows, shape.lanes, self._device)
        return arrays, grid, max(asked, self._bytes_of(shape, grid[1]))

    @classmethod
    def shared_bytes(cls, hyper, block=None):
        """Dynamic shared memory of a block, by default of the largest: packed matrices and a column of each group."""
        shape = cls.geometry(hyper)
        return cls._bytes_of(shape, block or shape.max_threads)

    @classmethod
    def _bytes_of(cls, shape, block):
        return block // shape.lanes * (cls.shared_matrices * shape.matrix + shape.column) * 4

    def _solve(self, rows, fixed, solved):
        arrays, grid, shared = rows
        arrays = arrays | {"values": self._targets(arrays["indices"], arrays["values"])}
        self._kernel(*grid, **arrays, **self._given, fixed=fixed, solved=solved, n_rows=len(solved), shared=shared)


class ThesisGlobal(Thesis, ALSSolver):
    """Both matrices in global memory."""

    entry, shared_matrices = "thesis_global", 0
    versions: ClassVar = {"": Version("thesis, global memory", "orange", ":")}


class ThesisHybrid(Thesis, ALSSolver):
    """The sum in global memory, the solve in shared memory."""

    entry, shared_matrices = "thesis_hybrid", 1
    versions: ClassVar = {"": Version("thesis, hybrid", "purple", ":")}


class ThesisShared(Thesis, ALSSolver):
    """Both matrices in shared memory."""

    entry, shared_matrices = "thesis_shared", 2
    versions: ClassVar = {"": Version("thesis, shared memory", "green", "-")}
