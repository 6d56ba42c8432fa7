"""Launches kernels/sgd/fast.cu."""

from typing import ClassVar

import numpy as np

from gpumf.hashing import splitmix64
from gpumf.models.base import whole_warps
from gpumf.models.sgd.chunks import Chunks
from gpumf.models.sgd.options import Option
from gpumf.models.sgd.partition import tiled
from gpumf.models.sgd.updates import DescentKernel, quad_lanes, quads, with_quads

# Users for each group of lanes in flight: with fewer, two blocks often hold the same user's row, and lose a run.
_USERS_A_GROUP = 16
_GROUPS_AN_ITEM = 8  # at most, on average: with more, those of a block often write to the same item's row
_LEAST_THREADS = 128  # of a block, before it is worth another multiprocessor
_PART_BYTES = 32 << 20  # of users' rows in a part: most of them stay in the L2 cache of a large GPU


class Fast(DescentKernel):
    """kernels/sgd/fast.cu: a block owns a tile of items in shared memory, users' rows are in registers for a run."""

    source, entry = "sgd/fast.cu", "fast"
    # tiles, parts : by default as many as the device, the memory of a multiprocessor and the number of users ask for
    # longest : ratings of a segment, which a group takes at a time
    # precision : bits of a user's factor in memory, 16 or 32
    # reread : whether an item's row is read once more before it is written: fewer of its updates are lost
    options: ClassVar = {
        "tiles": Option(None),
        "parts": Option(None),
        "longest": Option(32),
        "precision": Option(16, choices=(16, 32)),
        "reread": Option(True, choices=(True, False)),
    }

    @classmethod
    def compile(cls, model):
        return cls.kernel(model, {16: "fast", 32: "fast_single"}[model.options["precision"]])

    def __init__(self, model, train, user_factors, item_factors):
        stored = {16: np.float16, 32: np.float32}[model.options["precision"]]
        super().__init__(model, with_quads(user_factors, stored), item_factors)
        blocks, self._groups, n_tiles, most, n_parts = self.shape(model, train, self._device)
        tiles = tiled(train, n_tiles, most, n_parts, model.options["longest"], model.seed)
        self._blocks, self._n_tiles, self._columns = blocks, n_tiles, model.columns
        # Whole warps, as the groups of a warp go in step; those that are too many have nothing to do.
        self._block = whole_warps(self._groups * quad_lanes(model.columns))
        self._shared = 16 * quads(model.columns) * int(np.diff(tiles.tile_rows).max())
        arrays = train.users[tiles.order], tiles.rows, train.values[tiles.order]
        self._chunks = Chunks(self._device, arrays, tiles.parts, model.chunk)
        self._tiles = [
            self._device.array(a) for a in (tiles.segments, tiles.tile_segments, tiles.items, tiles.tile_rows)
        ]
        self._reread, self._seed = np.int32(model.options["reread"]), model.seed

    @staticmethod
    def shape(model, train, device):
        """(blocks, groups of a block, tiles, most items of a tile, parts) for a model and its training set."""
        lanes = quad_lanes(model.columns)
        held = min(1024 if model.columns <= 256 else 512, device.facts["threads_per_multiprocessor"]) // lanes
        if model.threads:
            groups, least = -(-model.threads // lanes), held
        else:
            groups = max(min(train.n_users // _USERS_A_GROUP, train.n_items * _GROUPS_AN_ITEM), 1)
            least = _LEAST_THREADS // lanes
        blocks = min(device.facts["multiprocessors"], -(-groups // least))
        most = (device.facts["shared_bytes_per_multiprocessor"] - 1024) // (16 * quads(model.columns))
        n_tiles = model.options["tiles"] or max(blocks, -(-train.n_items // most))
        row_bytes = quads(model.columns) * model.options["precision"] // 2
        n_parts = model.options["parts"] or -(-train.n_users * row_bytes // _PART_BYTES)
        return min(blocks, n_tiles), min(held, groups // blocks), n_tiles, most, n_parts

    @staticmethod
    def rotation(number, seed):
        """Where in their parts the tiles begin in epoch `number`, in turns of 2^-32, and the key of its roundings."""
        draw = int(splitmix64(np.uint64((seed << 32) + number)))
        return np.uint32(draw >> 32), np.uint32(draw & 0xFFFFFFFF)

    @staticmethod
    def start(tile, n_tiles, rotation, count):
        """Which of its `count` segments of a part a tile begins with, as the kernel reckons."""
        return ((0xFFFFFFFF // n_tiles * tile + int(rotation)) % 2**32 * int(count)) >> 32

    def epoch(self, number):
        segments, tile_segments, items, tile_rows = self._tiles
        for first_part, end_part, first_rating, arrays in self._chunks:
            for part in range(first_part, end_part):
                self._kernel(
                    self._blocks,
                    self._block,
                    segments,
                    tile_segments,
                    np.int32(part),
                    items,
                    tile_rows,
                    np.int32(self._n_tiles),
                    *arrays,
                    np.int64(first_rating),
                    self._p,
                    self._q,
                    *self.steps(),
                    np.int32(self._groups),
                    self._reread,
                    *self.rotation(number, self._seed),
                    shared=self._shared,
                )

    def factors(self):
        return self._p[:, : self._columns].astype(np.float32), self._q
