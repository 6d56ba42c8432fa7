"""Launches kernels/als/thesis.cu."""

import numpy as np

from gpumf import gpu
from gpumf.models.als.half_sweeps import HalfSweeps
from gpumf.models.base import KernelTrainer, lanes, launch_shape


class ThesisShared(KernelTrainer, HalfSweeps):
    """kernels/als/thesis.cu: a half-warp a row, both symmetric matrices in shared memory."""

    source, entry = "als/thesis.cu", "thesis_shared"

    def __init__(self, model, train, user_factors, item_factors):
        device = self._device = gpu.device(model.device)
        self._kernel = self.compile(model)
        self._users, self._items = (
            [device.array(a) for a in (rows.indptr, rows.indices, rows.values)]
            for rows in (train.by_user, train.by_item)
        )
        self._p, self._q = device.array(user_factors), device.array(item_factors)
        self._ridge = np.float32(model.regularization), np.int32(model.weighted)
        self._threads = model.threads

    @staticmethod
    def shared_bytes(factors, block=128):
        """Dynamic shared memory of a block: two packed matrices and a column for each of its groups."""
        return block // lanes(factors) * (factors * (factors + 1) + lanes(factors)) * 4

    def _solve(self, rows, fixed, solved):
        n_rows, factors = solved.shape
        blocks, block = launch_shape(self._threads, n_rows, factors, self._device)
        shared = self.shared_bytes(factors, block)
        self._kernel(blocks, block, *rows, fixed, solved, np.int32(n_rows), *self._ridge, shared=shared)
