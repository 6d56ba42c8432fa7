"""Launches kernels/sgd/newgpusgd.cu."""

from typing import ClassVar

import numpy as np

from gpumf.models.sgd.chunks import Chunks
from gpumf.models.sgd.options import MOST_BLOCKS_A_SIDE, Option
from gpumf.models.sgd.partition import diagonal_blocks
from gpumf.models.sgd.updates import DescentKernel


def rectangular_blocks(train, side):
    """side x side blocks of m / side users by n / side items (newgpusgd, section 4.1)."""
    return diagonal_blocks(train, side, -(-train.n_users // side), -(-train.n_items // side))


class NewGpuSgd(DescentKernel):
    """kernels/sgd/newgpusgd.cu: rectangular blocks, a thread block a data block, one thread a factor."""

    source, entry = "sgd/newgpusgd.cu", "newgpusgd"
    # side : l, blocks of a side, thus thread blocks of a launch
    # precision : bits of a factor and of the arithmetic, 32 or 64
    options: ClassVar = {"side": Option(1024, most=MOST_BLOCKS_A_SIDE), "precision": Option(32, choices=(32, 64))}

    @classmethod
    def compile(cls, model):
        return cls.kernel(model, {32: "newgpusgd", 64: "newgpusgd_double"}[model.options["precision"]])

    def __init__(self, model, train, user_factors, item_factors):
        dtype = {32: np.float32, 64: np.float64}[model.options["precision"]]
        super().__init__(model, user_factors.astype(dtype), item_factors.astype(dtype))
        self._side, self._block = model.options["side"], model.columns
        blocks = rectangular_blocks(train, self._side)
        arrays = train.users[blocks.order], train.items[blocks.order], train.values[blocks.order]
        self._chunks = Chunks(self._device, arrays, blocks.tags, model.chunk)
        self._offsets = self._device.array(blocks.offsets)

    def epoch(self, number):
        for first_tag, end_tag, first_rating, arrays in self._chunks:
            for tag in range(first_tag, end_tag):
                first = np.int32(tag * self._side)
                self._kernel(
                    self._side,
                    self._block,
                    self._offsets,
                    first,
                    *arrays,
                    np.int64(first_rating),
                    self._p,
                    self._q,
                    *self.steps(),
                )

    def factors(self):
        return tuple(factors.astype(np.float32, copy=False) for factors in (self._p, self._q))
