"""Launches kernels/als/tensor_core.cu."""

import numpy as np

from gpumf import gpu
from gpumf.models.als.half_sweeps import HalfSweeps, segments_of
from gpumf.models.base import KernelTrainer


class TensorCore(KernelTrainer, HalfSweeps):
    """kernels/als/tensor_core.cu: FP16 factors, products on the tensor cores, the solve fused behind them."""

    source, entry = "als/tensor_core.cu", "tensor_core"

    def __init__(self, model, train, user_factors, item_factors, longest=8192):
        self._device = gpu.device(model.device)
        self._kernel = self.compile(model)
        # The shapes that the kernel derives from its factors.
        f = model.factors
        tiles = -(-((f + 1) // 2 * 2 + 2) // 16)
        padded, self._block = 16 * tiles, 32 * ((tiles + 1) // 2)
        width = 4 * (-(-f // 4) // 2 * 2 + 1)
        self._shared = max(3 * 64 * (padded + 8) * 2, padded * width * 4)
        sums = 8 * (tiles + tiles // 2) * self._block

        self._p, self._q = (self._with_halves(factors, padded) for factors in (user_factors, item_factors))
        self._users, self._items = (self._side(rows, longest, sums) for rows in (train.by_user, train.by_item))
        ridge = np.float32(model.regularization), np.int32(model.weighted)
        self._parameters = *ridge, np.int32(model.cg_steps), np.float32(model.cg_tolerance)

    def _with_halves(self, factors, padded):
        """Factors on the device, and their padded copy in half precision."""
        whole = self._device.array(factors)
        halves = self._device.empty((len(factors), padded), np.uint16)
        to_half = self._device.kernel(self.source, "round_factors", FACTORS=factors.shape[1])
        to_half(-(-halves.size // 256), 256, whole, halves, np.int32(len(factors)))
        return whole, halves

    def _side(self, rows, longest, sums):
        """(number of segments, what the kernel wants to know of the rows, where the parts of long rows meet)."""
        segments, slots = segments_of(rows.indptr, longest)
        given = [self._device.array(a) for a in (segments.view(np.uint8), rows.indices, rows.values)]
        partial = self._device.empty(max(slots, 1) * sums, np.float32)
        arrived = self._device.array(np.zeros(max(slots, 1), np.int32))
        return len(segments), given, (partial, arrived)

    def _solve(self, rows, fixed, solved):
        n_segments, given, meeting = rows
        arguments = *given, fixed[1], *solved, *meeting, *self._parameters
        self._kernel(n_segments, self._block, *arguments, shared=self._shared)

    def factors(self):
        return self._p[0], self._q[0]
