"""Launches kernels/als/tensor_core.cu."""

from typing import ClassVar

import numpy as np

from gpumf import gpu
from gpumf.datasets.rows import CompressedRows
from gpumf.models.als.biases import Biases
from gpumf.models.als.trainer import ALSTrainer, segments_on
from gpumf.models.base import KernelTrainer, Version
from gpumf.models.chunks import Chunks

_LONGEST_OF_GRAM = 512  # ratings of a segment of the row that has all columns: enough segments for the whole GPU
_MOST_BLOCKS, _BLOCK = 256, 1024  # that go over all factors, and their threads
_MOST_PARTS = 1 << 17  # of all rows: the sums of each take about 2 f^2 bytes


def _longest(nnz):
    """Ratings of a segment: 8,192, and more where the sums of long rows' many parts would take much of the memory."""
    longest = 1 << 13
    while nnz > longest * _MOST_PARTS:
        longest *= 2
    return longest


def padded(factors):
    """Numbers of a row in half precision, PADDED of the source."""
    return 256 if factors > 208 else -(-factors // 16) * 16


def _most_shared_bytes(factors, stage_rows, ahead=3):
    """Work of the source, at the most: stages of rows in half precision, the ratings of these and of one stage more.

    With more than 192 factors so many stages are copied `ahead`, and the solver has memory of its own.
    """
    width = padded(factors)
    stages, others = (ahead + 2, 28 * width + 64) if width > 192 else (3, 0)
    return stage_rows * (2 * stages * (width + 8) + 10 * (stages + 1)) + others


class _Rows:
    """The ratings of rows, on the device whole or a chunk of rows after another, and the chunks' work lists there.

    rows : CompressedRows
    chunk : most ratings on the device at a time; by default all that fit
    beside : as of `Chunks`
    """

    def __init__(self, device, rows, longest, part_bytes, chunk=None, beside=0):
        self._chunks = Chunks(device, (rows.indices, rows.values), rows.indptr, chunk, beside)
        self._segments, slots = [], 1
        for first, end, _ in self._chunks.places:
            segments, of_chunk = segments_on(device, rows.indptr[first : end + 1], longest)
            self._segments.append(segments)
            slots = max(slots, of_chunk)
        self.n_rows, self.most = rows.n_rows, self._chunks.most
        # Of one chunk's long rows at a time: the parts, and how many of a row's have arrived, 0 between launches.
        self.meeting = device.empty(slots * part_bytes, np.uint8), device.array(np.zeros(slots, np.int32))

    def __iter__(self):
        """Yield (slice of the rows, work list, indices, values) of each chunk, for what is launched next.

        A work list is its segments and their number.
        """
        for segments, (first, end, _, ratings) in zip(self._segments, self._chunks, strict=True):
            yield slice(first, end), segments, *ratings


class TensorCore(KernelTrainer, ALSTrainer):
    """kernels/als/tensor_core.cu: FP16 factors, products on the tensor cores, the solve fused behind them.

    longest : ratings of a segment, see `gpumf.models.als.trainer.segments_of`; by default by the number of all
    """

    source, entry = "als/tensor_core.cu", "tensor_core"
    versions: ClassVar = {"": Version("tensor cores", "black", "-D")}
    variants: ClassVar = {"FACTORS": range(1, 257), "IMPLICIT": range(2), "STAGE_ROWS": [64, 32]}
    cg_steps, streams = 4, True
    _gathered = False  # whether what the next half-sweep takes as fixed is there in half precision

    @staticmethod
    def defines(model):
        has = gpu.device(model.device).facts["shared_bytes_per_block"]
        rows = next(rows for rows in (64, 32) if _most_shared_bytes(model.columns, rows) <= has or rows == 32)
        return {"FACTORS": model.columns, "IMPLICIT": int(model.alpha is not None), "STAGE_ROWS": rows}

    def __init__(self, model, train, user_factors, item_factors, longest=None):
        device = self._device = gpu.device(model.device)
        implicit = model.alpha is not None
        names = "largest_ratings", "largest_factors", "round_factors", self.entry, *["gram"] * implicit
        defines = self.defines(model)
        self._entry = {name: device.kernel(self.source, name, **defines) for name in names}
        shape = self.geometry(model)
        self._block, self._teams, part_bytes = shape.block, shape.teams, shape.part_bytes
        self._shared = self._teams * shape.team_bytes
        self._most_blocks = {self.entry: device.facts["multiprocessors"]} if shape.persistent else {}

        self._p, self._q = device.array(user_factors), device.array(item_factors)
        # Before the ratings, which take what is left or are streamed.
        self._halves = device.empty((max(train.n_users, train.n_items), shape.padded), np.uint16)
        self._unit, self._largest = device.empty(2, np.float32), device.empty(_MOST_BLOCKS, np.float32)
        self._gram = device.empty(part_bytes, np.uint8)
        sides, longest = (train.by_user, train.by_item), longest or _longest(train.nnz)
        beside = np.dtype(np.float32).itemsize if model.biases else 0
        ratings = [_Rows(device, rows, longest, part_bytes, model.chunk, beside) for rows in sides]
        self._biases = Biases.of(model, train, device, max(rows.most for rows in ratings))
        largest, grams = map(self._largest_ratings, ratings), [None, None]
        if implicit:
            for k, n in enumerate((train.n_items, train.n_users)):  # rows of all columns, each with a weight of 1
                every, ones = np.arange(n, dtype=np.int32), np.ones(n, np.float32)
                row = CompressedRows(np.array([0, n]), device.array(every), device.array(ones))
                grams[k] = _Rows(device, row, _LONGEST_OF_GRAM, part_bytes)
        self._users, self._items = zip(ratings, largest, grams, strict=True)
        self._ridge = np.float32(model.regularization), np.int32(model.weighted)
        self._steps = np.int32(model.cg_steps), np.float32(model.cg_tolerance)
        self._root_of_alpha = np.float32(np.sqrt(model.alpha or 1))

    def _largest_ratings(self, rows):
        """The magnitude of each row's largest rating."""
        largest = self._device.zeros(rows.n_rows, np.float32)
        for chosen, segments, _, values in rows:
            self._add_largest(segments, values, largest[chosen])
        return largest

    def _add_largest(self, segments, values, largest):
        self._entry["largest_ratings"](-(-segments[1] // 8), 256, *segments, values, largest.view(np.uint32))

    def _round(self, factors, halves=None, carrier=None):
        """The factors in half precision, and the power of two that they were divided by for its range.

        carrier : of workers, each with some of the rows, who divide by the same
        """
        n_rows, blocks = np.int32(len(factors)), min(-(-factors.size // _BLOCK), _MOST_BLOCKS)
        self._entry["largest_factors"](blocks, _BLOCK, factors, n_rows, self._largest)
        largest, n_largest = self._largest, blocks
        if carrier is not None:
            n_largest = carrier.size * _MOST_BLOCKS
            largest, first = self._device.zeros(n_largest, np.float32), carrier.rank * _MOST_BLOCKS
            largest[first : first + blocks] = self._largest[:blocks]
            carrier.all_gather(largest, np.arange(carrier.size + 1) * _MOST_BLOCKS)
        scaled = largest, np.int32(n_largest), self._ridge[0], self._unit
        halves = self._halves if halves is None else halves
        self._entry["round_factors"](blocks, _BLOCK, factors, halves, n_rows, *scaled)

    def gather_users(self, carrier, bounds):
        """As of `ALSTrainer`, but in half precision: half the bytes. Biases are set aside before they are rounded."""
        if self._biases:
            super().gather_users(carrier, bounds)
            return
        own = slice(*map(int, bounds[carrier.rank : carrier.rank + 2]))
        self._round(self._p[own], self._halves[own], carrier)
        carrier.all_gather(self._halves[: len(self._p)], bounds)
        self._gathered = True

    def _launch(self, name, segments, indices, values, *arguments):
        blocks, ratings = -(-segments[1] // self._teams), (indices, values)
        self._entry[name](
            min(blocks, self._most_blocks.get(name, blocks)),
            self._block,
            *segments,
            *ratings,
            self._halves,
            *arguments,
            shared=self._shared,
        )

    def _solve(self, side, fixed, solved):
        rows, largest, every = side
        if not self._gathered:
            self._round(fixed)
        self._gathered = False
        if every is not None:
            ((_, *given),) = every
            self._launch("gram", *given, *every.meeting, self._gram)
        parameters = *self._ridge, *self._steps, self._root_of_alpha, self._gram
        for chosen, segments, indices, values in rows:
            targets = self._targets(indices, values)
            if targets is not values:
                largest[chosen] = 0
                self._add_largest(segments, targets, largest[chosen])
            of_chunk = self._unit, largest[chosen], solved[chosen]
            self._launch(self.entry, segments, indices, targets, *of_chunk, *rows.meeting, *parameters)

    def factors(self):
        return self._p, self._q
