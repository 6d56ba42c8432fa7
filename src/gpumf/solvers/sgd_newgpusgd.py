"""Launches kernels/sgd/newgpusgd.cu."""

from itertools import pairwise
from typing import ClassVar

from gpumf.solvers.base import Publication, Version
from gpumf.solvers.options import MAX_BLOCKS_A_SIDE, Option
from gpumf.solvers.sgd_base import Descent, DescentKernel, PieceKernel
from gpumf.solvers.sgd_partition import diagonal_blocks


def rectangular_blocks(train, side):
    """side x side blocks of m / side users by n / side items (newgpusgd, section 4.1)."""
    return diagonal_blocks(train, side, train.n_users, train.n_items)


class NewGpuSgd(PieceKernel, DescentKernel, Descent):
    """kernels/sgd/newgpusgd.cu: rectangular blocks, a thread block a data block, one thread a factor."""

    source, entry = "sgd/newgpusgd.cu", "newgpusgd"
    publication = Publication("newgpusgd", "section 4, Algorithm 1")
    variants: ClassVar = DescentKernel.variants | {"REAL": ["float", "double"]}
    versions: ClassVar = {
        "": Version("NewGPUSGD", "green", "-", {"side": 1024}),
        "FP64": Version("NewGPUSGD, FP64", "green", "--", {"side": 1024, "precision": 64}),
    }
    layout: ClassVar = ("diagonal_blocks",)
    cases: ClassVar = ({"side": 4}, {"side": 4, "precision": 64})
    # side : l, blocks of a side, thus thread blocks of a launch
    # precision : bits of a factor and of the arithmetic, 32 or 64
    options: ClassVar = {"side": Option(1024, most=MAX_BLOCKS_A_SIDE), "precision": Option(32, choices=(32, 64))}

    def __init__(self, problem):
        hyper, train, (user_factors, item_factors) = problem
        super().__init__(hyper, user_factors, item_factors)
        self._side, self._block = hyper.options["side"], hyper.columns
        blocks = rectangular_blocks(train, self._side)
        self._offsets = self._device.array(blocks.offsets)
        order = blocks.order
        self.set_pieces((train.users[order], train.items[order], train.values[order]), blocks.tags, hyper.chunk)

    @staticmethod
    def order(hyper, train, epoch=0, blocks=1, members=1):
        side = hyper.options["side"]
        partition, turns = rectangular_blocks(train, side), [0] * blocks
        for number, (first, end) in enumerate(pairwise(partition.offsets)):
            block = number % side % blocks
            if number % side == 0:
                turns = [max(turns)] * blocks  # a launch for each tag
            for rating in partition.order[first:end]:
                yield block, 0, turns[block], int(rating), "both"
                turns[block] += 1

    def launch(self, pieces, first_rating, arrays):
        arrays = arrays | {"offsets": self._offsets}
        for tag in pieces:
            first_block = tag * self._side
            self._kernel(self._side, self._block, **arrays, first_block=first_block, first_rating=first_rating)
