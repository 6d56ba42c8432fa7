"""Launches kernels/sgd/cumf_sgd.cu."""

from typing import ClassVar

import numpy as np

from gpumf.hashing import random_order
from gpumf.models.base import launch_shape
from gpumf.models.sgd.chunks import Chunks
from gpumf.models.sgd.hogwild import safe_updates
from gpumf.models.sgd.newgpusgd import rectangular_blocks
from gpumf.models.sgd.options import MOST_BLOCKS_A_SIDE, Option
from gpumf.models.sgd.updates import DescentKernel, quad_lanes, with_quads


class CumfSgd(DescentKernel):
    """kernels/sgd/cumf_sgd.cu: half precision, a warp an update; batch-Hogwild, or blocks that share nothing.

    Its schedule is `schedules.Power`.
    """

    source, entry = "sgd/cumf_sgd.cu", "cumf_sgd"
    # run : consecutive shuffled ratings that a group takes at a time
    # side : l, for l x l blocks that share nothing instead of batch-Hogwild
    options: ClassVar = {"run": Option(256), "side": Option(None, most=MOST_BLOCKS_A_SIDE)}
    rounds = 4000  # more than hogwild's: a group holds its rows for nearly all of the time

    @classmethod
    def compile(cls, model):
        return cls.kernel(model, "cumf_sgd_blocked" if model.options["side"] else "cumf_sgd")

    def __init__(self, model, train, user_factors, item_factors):
        super().__init__(model, with_quads(user_factors, np.float16), with_quads(item_factors, np.float16))
        self._run, self._side, self._columns = model.options["run"], model.options["side"], model.columns
        if self._side:
            blocks = rectangular_blocks(train, self._side)
            order, pieces, groups = blocks.order, blocks.tags, self._side
            self._offsets = self._device.array(blocks.offsets)
        else:
            order = random_order(train.nnz, model.seed)
            pieces = np.append(np.arange(0, train.nnz, self._run), train.nnz)
            groups = min(safe_updates(train, self.rounds), len(pieces) - 1)
        arrays = train.users[order], train.items[order], train.values[order]
        self._chunks = Chunks(self._device, arrays, pieces, model.chunk)
        self._shape = launch_shape(model.threads, groups, model.columns, self._device, quad_lanes(model.columns))

    def epoch(self, number):
        factors = self._p, self._q, *self.steps()
        for first, end, first_rating, arrays in self._chunks:
            if self._side:
                for tag in range(first, end):
                    blocks = self._offsets, np.int32(tag * self._side), np.int32(self._side)
                    self._kernel(*self._shape, *blocks, *arrays, np.int64(first_rating), *factors)
            else:
                self._kernel(*self._shape, *arrays, np.int64(len(arrays[0])), np.int32(self._run), *factors)

    def factors(self):
        return tuple(rows[:, : self._columns].astype(np.float32) for rows in (self._p, self._q))
