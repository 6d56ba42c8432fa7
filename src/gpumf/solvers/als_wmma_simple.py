"""Launches kernels/als/wmma_simple.cu."""

from typing import ClassVar

from gpumf import backends
from gpumf.solvers.als_base import ALSSolver
from gpumf.solvers.als_biases import Biases
from gpumf.solvers.base import KernelSolver, Version


class WmmaSimple(KernelSolver, ALSSolver):
    """kernels/als/wmma_simple.cu: a block a row, products on the tensor cores, solved exactly in shared memory."""

    source, entry = "als/wmma_simple.cu", "wmma_simple"
    versions: ClassVar = {"": Version("tensor cores, simple", "grey", "-.")}
    variants: ClassVar = {"FACTORS": range(1, 129)}

    @staticmethod
    def defines(hyper):
        return {"FACTORS": hyper.columns}

    def __init__(self, problem):
        hyper, train, (user_factors, item_factors) = problem
        device = self._device = backends.device(hyper.device)
        self._kernel, self._block = self.compile(hyper), self.geometry(hyper).block
        self._users, self._items = (
            {name: device.array(getattr(rows, name)) for name in ("indptr", "indices", "values")}
            for rows in (train.by_user, train.by_item)
        )
        self._p, self._q = device.array(user_factors), device.array(item_factors)
        self._given = {"regularization": hyper.regularization, "weighted": int(hyper.weighted)}
        self._biases = Biases.of(hyper, train, device)

    def _solve(self, rows, fixed, solved):
        rows = rows | {"values": self._targets(rows["indices"], rows["values"])}
        self._kernel(len(solved), self._block, **rows, **self._given, fixed=fixed, solved=solved)
