"""Launches kernels/als/thesis.cu."""

from typing import ClassVar

import numpy as np

from gpumf import gpu
from gpumf.models.als.trainer import ALSTrainer
from gpumf.models.base import KernelTrainer, Version, lanes, launch_shape


class Thesis(KernelTrainer, ALSTrainer):
    """kernels/als/thesis.cu: a half-warp a row, in whichever memory its two symmetric matrices lie."""

    source = "als/thesis.cu"
    variants: ClassVar = {"FACTORS": range(1, 33)}
    groups: ClassVar = dict.fromkeys(("thesis_global", "thesis_hybrid"), (16, {"matrices"}))
    shared_matrices: int  # of the two, how many lie in shared memory; the others in global memory

    def __init__(self, model, train, user_factors, item_factors, shared_bytes=0):
        """shared_bytes : what a block asks for where it is more than it needs, as if there were less of it."""
        device = self._device = gpu.device(model.device)
        self._kernel = self.compile(model)
        self._users, self._items = (self._side(rows, model) for rows in (train.by_user, train.by_item))
        self._p, self._q = device.array(user_factors), device.array(item_factors)
        self._given = {"regularization": model.regularization, "weighted": model.weighted}
        words = (2 - self.shared_matrices) * model.factors * (model.factors + 1) // 2
        groups = max(blocks * block for _, (blocks, block) in (self._users, self._items)) // lanes(model.factors)
        if words:
            self._given["matrices"] = device.empty((groups, words), np.float32)
        self._asked = shared_bytes

    def _side(self, rows, model):
        """What the kernel wants to know of the rows, and the shape of its grid."""
        arrays = {name: self._device.array(getattr(rows, name)) for name in ("indptr", "indices", "values")}
        return arrays, launch_shape(model.threads, rows.n_rows, model.factors, self._device)

    @classmethod
    def shared_bytes(cls, factors, block=128):
        """Dynamic shared memory of a block: the packed matrices and a column for each of its groups."""
        return block // lanes(factors) * (cls.shared_matrices * factors * (factors + 1) // 2 + lanes(factors)) * 4

    def _solve(self, rows, fixed, solved):
        arrays, (blocks, block) = rows
        n_rows, factors = solved.shape
        shared = max(self._asked, self.shared_bytes(factors, block))
        given = arrays | self._given
        self._kernel(blocks, block, **given, fixed=fixed, solved=solved, n_rows=n_rows, shared=shared)


class ThesisGlobal(Thesis):
    """Both matrices in global memory."""

    entry, shared_matrices = "thesis_global", 0
    versions: ClassVar = {"": Version("thesis, global memory")}


class ThesisHybrid(Thesis):
    """The sum in global memory, the solve in shared memory."""

    entry, shared_matrices = "thesis_hybrid", 1
    versions: ClassVar = {"": Version("thesis, hybrid")}


class ThesisShared(Thesis):
    """Both matrices in shared memory."""

    entry, shared_matrices = "thesis_shared", 2
    versions: ClassVar = {"": Version("thesis, shared memory")}
