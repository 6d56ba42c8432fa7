"""Launches kernels/als/tensor_core.cu."""

from typing import ClassVar

import numpy as np

from gpumf import gpu
from gpumf.models.als.trainer import ALSTrainer, segment_records
from gpumf.models.base import KernelTrainer, Version, shape_of

_LONGEST_OF_GRAM = 512  # ratings of a segment of the row that has all columns: enough segments for the whole GPU
_MOST_BLOCKS, _BLOCK = 256, 1024  # that go over all factors, and their threads


class _Rows:
    """The work list and the ratings of rows on the device, and memory for the parts of long rows."""

    def __init__(self, device, indptr, indices, values, longest, part_bytes):
        segments, slots = segment_records(device.array(indptr), longest, device.xp)
        self.n_segments, self.n_rows = np.int32(len(segments)), len(indptr) - 1
        self.segments = segments.view(np.uint8), self.n_segments
        self.values = device.array(values)
        self.given = *self.segments, device.array(indices), self.values
        partial = device.empty(max(slots, 1) * part_bytes, np.uint8)
        self.meeting = partial, device.array(np.zeros(max(slots, 1), np.int32))


class TensorCore(KernelTrainer, ALSTrainer):
    """kernels/als/tensor_core.cu: FP16 factors, products on the tensor cores, the solve fused behind them.

    longest : ratings of a segment, see `gpumf.models.als.trainer.segments_of`
    """

    source, entry = "als/tensor_core.cu", "tensor_core"
    versions: ClassVar = {"": Version("tensor cores")}
    variants: ClassVar = {"FACTORS": range(1, 257), "IMPLICIT": range(2), "STAGE_ROWS": [64, 32]}
    cg_steps = 4

    @staticmethod
    def defines(model):
        # Three stages of rows of halves, and the ratings of four: Work of the source, at the most.
        columns = -(-model.factors // 16) * 16 + 8
        has = gpu.device(model.device).facts["shared_bytes_per_block"]
        rows = next(rows for rows in (64, 32) if rows * (6 * columns + 40) <= has or rows == 32)
        return {"FACTORS": model.factors, "IMPLICIT": int(model.alpha is not None), "STAGE_ROWS": rows}

    def __init__(self, model, train, user_factors, item_factors, longest=8192):
        device = self._device = gpu.device(model.device)
        implicit = model.alpha is not None
        names = "largest_ratings", "largest_factors", "round_factors", self.entry, *["gram"] * implicit
        defines = self.defines(model)
        self._entry = {name: device.kernel(self.source, name, **defines) for name in names}
        shape = shape_of(device, self.source, **defines)
        self._block, self._teams, part_bytes = shape["block"], shape["teams"], shape["part_bytes"]
        self._shared = self._teams * shape["team_bytes"]

        self._p, self._q = device.array(user_factors), device.array(item_factors)
        sides = train.by_user, train.by_item
        ratings = [_Rows(device, rows.indptr, rows.indices, rows.values, longest, part_bytes) for rows in sides]
        largest, grams = map(self._largest_ratings, ratings), [None, None]
        if implicit:
            for k, n in enumerate((train.n_items, train.n_users)):  # rows of all columns, each with a weight of 1
                every, ones = np.arange(n, dtype=np.int32), np.ones(n, np.float32)
                grams[k] = _Rows(device, np.array([0, n]), every, ones, _LONGEST_OF_GRAM, part_bytes)
        self._users, self._items = zip(ratings, largest, grams, strict=True)
        self._ridge = np.float32(model.regularization), np.int32(model.weighted)
        self._steps = np.int32(model.cg_steps), np.float32(model.cg_tolerance)
        self._root_of_alpha = np.float32(np.sqrt(model.alpha or 1))
        self._halves = device.empty((max(train.n_users, train.n_items), shape["padded"]), np.uint16)
        self._unit, self._largest = device.empty(2, np.float32), device.empty(_MOST_BLOCKS, np.float32)
        self._gram = device.empty(part_bytes, np.uint8)

    def _largest_ratings(self, rows):
        """The magnitude of each row's largest rating; of implicit feedback its largest rating, or 0."""
        largest = self._device.zeros(rows.n_rows, np.float32)
        self._entry["largest_ratings"](
            -(-rows.n_segments // 8), 256, *rows.segments, rows.values, largest.view(np.uint32)
        )
        return largest

    def _round(self, factors):
        """The factors in half precision, and the power of two that they were divided by for its range."""
        n_rows, blocks = np.int32(len(factors)), min(-(-factors.size // _BLOCK), _MOST_BLOCKS)
        self._entry["largest_factors"](blocks, _BLOCK, factors, n_rows, self._largest)
        scaled = self._largest, np.int32(blocks), self._ridge[0], self._unit
        self._entry["round_factors"](blocks, _BLOCK, factors, self._halves, n_rows, *scaled)

    def _launch(self, name, rows, *arguments):
        blocks = -(-rows.n_segments // self._teams)
        self._entry[name](blocks, self._block, *rows.given, self._halves, *arguments, shared=self._shared)

    def _solve(self, side, fixed, solved):
        rows, largest, every = side
        self._round(fixed)
        if every is not None:
            self._launch("gram", every, *every.meeting, self._gram)
        parameters = *self._ridge, *self._steps, self._root_of_alpha, self._gram
        self._launch(self.entry, rows, self._unit, largest, solved, *rows.meeting, *parameters)

    def factors(self):
        return self._p, self._q
