"""Launches kernels/als/tensor_core.cu."""

import numpy as np

from gpumf import gpu
from gpumf.models.als.half_sweeps import HalfSweeps, segments_of
from gpumf.models.base import KernelTrainer

_LONGEST_OF_GRAM = 512  # ratings of a segment of the row that has all columns: enough segments for the whole GPU


class _Rows:
    """What the kernel is told of rows: the work list and the ratings, and where the parts of long rows meet."""

    def __init__(self, device, indptr, indices, values, longest, part_bytes):
        segments, slots = segments_of(indptr, longest)
        self.n_segments = np.int32(len(segments))
        ratings = device.array(indices), device.array(values)
        self.given = device.array(segments.view(np.uint8)), self.n_segments, *ratings
        partial = device.empty(max(slots, 1) * part_bytes, np.uint8)
        self.meeting = partial, device.array(np.zeros(max(slots, 1), np.int32))


class TensorCore(KernelTrainer, HalfSweeps):
    """kernels/als/tensor_core.cu: FP16 factors, products on the tensor cores, the solve fused behind them.

    longest : ratings of a segment, see `segments_of`
    """

    source, entry = "als/tensor_core.cu", "tensor_core"
    cg_steps = 4

    @staticmethod
    def defines(model):
        return {"FACTORS": model.factors, "IMPLICIT": int(model.alpha is not None)}

    def __init__(self, model, train, user_factors, item_factors, longest=8192):
        device = self._device = gpu.device(model.device)
        self._entry = {
            name: device.kernel(self.source, name, **self.defines(model))
            for name in ("shape", "round_factors", self.entry, *(["gram"] if model.alpha is not None else []))
        }
        shape = device.empty(5, np.int32)
        self._entry["shape"](1, 1, shape)
        self._block, self._teams, team_bytes, self._padded, part_bytes = map(int, device.to_numpy(shape))
        self._shared = self._teams * team_bytes

        self._p, self._q = map(self._with_halves, (user_factors, item_factors))
        sides = train.by_user, train.by_item
        ratings = [_Rows(device, rows.indptr, rows.indices, rows.values, longest, part_bytes) for rows in sides]
        grams, unit, alpha = [None, None], 1.0, 0.0
        if model.alpha is not None:
            # Divided by a power of two, the system has weights of at most 1, and FP16 holds them.
            unit = 2.0 ** -np.ceil(np.log2(max(model.alpha * train.values.max(), 1.0)))
            alpha = model.alpha * unit
            for k, n in enumerate((train.n_items, train.n_users)):  # rows of all columns, each with a weight of 1
                every, ones = np.arange(n, dtype=np.int32), np.full(n, 1 / model.alpha, np.float32)
                grams[k] = _Rows(device, np.array([0, n]), every, ones, _LONGEST_OF_GRAM, part_bytes)
        self._users, self._items = zip(ratings, grams, strict=True)
        self._ridge = np.float32(model.regularization * unit), np.int32(model.weighted)
        self._steps = np.int32(model.cg_steps), np.float32(model.cg_tolerance)
        self._weights = np.float32(alpha), np.float32(unit)
        self._gram = device.empty(part_bytes, np.uint8)

    def _with_halves(self, factors):
        """Factors on the device, and their padded copy in half precision."""
        whole = self._device.array(factors)
        halves = self._device.empty((len(factors), self._padded), np.uint16)
        self._entry["round_factors"](-(-halves.size // 256), 256, whole, halves, np.int32(len(factors)))
        return whole, halves

    def _launch(self, name, rows, *arguments):
        blocks = -(-rows.n_segments // self._teams)
        self._entry[name](blocks, self._block, *rows.given, *arguments, shared=self._shared)

    def _solve(self, rows, fixed, solved):
        rows, every = rows
        if every is not None:
            self._launch("gram", every, fixed[1], *every.meeting, *self._weights, self._gram)
        parameters = *self._ridge, *self._steps, *self._weights, self._gram
        self._launch(self.entry, rows, fixed[1], *solved, *rows.meeting, *parameters)

    def factors(self):
        return self._p[0], self._q[0]
