"""Launches kernels/als/tensor_core.cu."""

import numpy as np

from gpumf import gpu
from gpumf.models.als.half_sweeps import HalfSweeps
from gpumf.models.base import KernelTrainer


def segments_of(indptr, longest=8192):
    """The work list of kernels/als/tensor_core.cu: every row as segments of at most `longest` ratings, longest first.

    Parameters
    ----------
    indptr : int64 (rows + 1,), of the CSR rows
    longest : int, ratings of a segment; long enough that few rows pay for adding up parts, short enough that the last
        segment does not keep one multiprocessor busy alone

    Returns
    -------
    (segments, slots) : the kernel's `Segment` records, and the number of parts of all rows that have several
    """
    counts = np.diff(indptr)
    parts = np.maximum(-(-counts // longest), 1)
    row = np.repeat(np.arange(len(counts)), parts)
    part = np.arange(len(row)) - np.repeat(np.cumsum(parts) - parts, parts)
    length = -(-counts // parts)[row]
    begin = indptr[row] + part * length
    slots = np.where(parts > 1, parts, 0)
    segments = np.empty(
        len(row), [("begin", "i8")] + [(n, "i4") for n in ("length", "row", "part", "parts", "slot", "count")]
    )
    segments["begin"], segments["row"], segments["part"], segments["parts"] = begin, row, part, parts[row]
    segments["length"] = np.clip(indptr[row + 1] - begin, 0, length)
    segments["slot"], segments["count"] = (np.cumsum(slots) - slots)[row], counts[row]
    # There are as many segments as rows, at the least: NumPy is quick at sorting 16-bit keys, and at taking rows of
    # plain numbers.
    shorter = (longest - segments["length"]).astype(np.min_scalar_type(longest))
    records = segments.view(np.int64).reshape(len(row), -1)
    records = records.take(np.argsort(shorter, kind="stable"), axis=0)
    return records.reshape(-1).view(segments.dtype), int(slots.sum())


class _Side:
    """What the kernel is told of the rows of one side: the work list, the ratings, where the parts of long rows meet."""

    def __init__(self, device, indptr, indices, values, longest, part_bytes):
        segments, slots = segments_of(indptr, longest)
        self.n_segments = np.int32(len(segments))
        self.given = (
            device.array(segments.view(np.uint8)),
            self.n_segments,
            device.array(indices),
            device.array(values),
        )
        partial = device.empty(max(slots, 1) * part_bytes, np.uint8)
        self.meeting = partial, device.array(np.zeros(max(slots, 1), np.int32))


class TensorCore(KernelTrainer, HalfSweeps):
    """kernels/als/tensor_core.cu: FP16 factors, products on the tensor cores, the solve fused behind them.

    longest : ratings of a segment, see `segments_of`
    """

    source, entry = "als/tensor_core.cu", "tensor_core"

    @staticmethod
    def defines(model):
        return {"FACTORS": model.factors, "IMPLICIT": int(model.implicit)}

    def __init__(self, model, train, user_factors, item_factors, longest=8192):
        self._device = gpu.device(model.device)
        self._defines = self.defines(model)
        self._kernel = self.compile(model)
        shape = self._device.empty(5, np.int32)
        self._entry("shape")(1, 1, shape)
        self._block, self._teams, team_bytes, self._padded, part_bytes = map(int, self._device.to_numpy(shape))
        self._shared = self._teams * team_bytes

        self._p, self._q = map(self._with_halves, (user_factors, item_factors))
        self._users, self._items = (
            _Side(self._device, rows.indptr, rows.indices, rows.values, longest, part_bytes)
            for rows in (train.by_user, train.by_item)
        )
        self._ridge = np.float32(model.regularization), np.int32(model.weighted)
        self._steps = np.int32(model.cg_steps), np.float32(model.cg_tolerance)
        self._confidence = np.float32(0), np.float32(1), self._device.empty(part_bytes, np.uint8)

    def _entry(self, name):
        return self._device.kernel(self.source, name, **self._defines)

    def _with_halves(self, factors):
        """Factors on the device, and their padded copy in half precision."""
        whole = self._device.array(factors)
        halves = self._device.empty((len(factors), self._padded), np.uint16)
        self._entry("round_factors")(-(-halves.size // 256), 256, whole, halves, np.int32(len(factors)))
        return whole, halves

    def _launch(self, kernel, side, *arguments):
        kernel(-(-side.n_segments // self._teams), self._block, *side.given, *arguments, shared=self._shared)

    def _solve(self, rows, fixed, solved):
        arguments = fixed[1], *solved, *rows.meeting, *self._ridge, *self._steps, *self._confidence
        self._launch(self._kernel, rows, *arguments)

    def factors(self):
        return self._p[0], self._q[0]
