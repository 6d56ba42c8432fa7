"""Launches kernels/sgd/gpusgd.cu."""

from typing import ClassVar

import numpy as np

from gpumf.models.base import whole_warps
from gpumf.models.sgd.chunks import Chunks
from gpumf.models.sgd.options import MOST_BLOCKS_A_SIDE, MOST_THREADS, Option
from gpumf.models.sgd.partition import conflict_free_groups, diagonal_blocks
from gpumf.models.sgd.updates import DescentKernel


class GpuSgd(DescentKernel):
    """kernels/sgd/gpusgd.cu: square blocks, one thread an update, ratings of a tag at a time."""

    source, entry = "sgd/gpusgd.cu", "gpusgd"
    # side : l, blocks of a side, thus thread blocks of a launch
    # block : threads of a block; by default the factors, rounded up to whole warps (newgpusgd, section 5.2)
    options: ClassVar = {"side": Option(64, most=MOST_BLOCKS_A_SIDE), "block": Option(None, most=MOST_THREADS)}

    def __init__(self, model, train, user_factors, item_factors):
        super().__init__(model, user_factors, item_factors)
        self._side = model.options["side"]
        self._block = model.options["block"] or whole_warps(model.columns)
        order, groups, of_blocks, tags = self.layout(train, self._side)
        arrays = train.users[order], train.items[order], train.values[order]
        self._chunks = Chunks(self._device, arrays, tags, model.chunk)
        self._groups = self._device.array(of_blocks), self._device.array(groups)

    @staticmethod
    def layout(train, side):
        """(order, groups, groups of the blocks, tags), see `partition`."""
        edge = -(-max(train.n_users, train.n_items) // side)
        blocks = diagonal_blocks(train, side, edge, edge)
        return *conflict_free_groups(train, blocks, edge), blocks.tags

    def epoch(self, number):
        for first_tag, end_tag, first_rating, arrays in self._chunks:
            for tag in range(first_tag, end_tag):
                self._kernel(
                    self._side,
                    self._block,
                    *self._groups,
                    np.int32(tag * self._side),
                    *arrays,
                    np.int64(first_rating),
                    self._p,
                    self._q,
                    *self.steps(),
                )
