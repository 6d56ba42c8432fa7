"""Launches kernels/sgd/gpusgd.cu."""

from itertools import pairwise
from typing import ClassVar

from gpumf.solvers.base import Publication, Version
from gpumf.solvers.options import MAX_BLOCKS_A_SIDE, MAX_THREADS, Option
from gpumf.solvers.sgd_base import Descent, DescentKernel, PieceKernel
from gpumf.solvers.sgd_partition import conflict_free_groups, diagonal_blocks


class GpuSgd(PieceKernel, DescentKernel, Descent):
    """kernels/sgd/gpusgd.cu: square blocks, one thread an update, ratings of a tag at a time."""

    source, entry = "sgd/gpusgd.cu", "gpusgd"
    publication = Publication("newgpusgd", "sections 3, 4.1 and 5.2")
    variants: ClassVar = DescentKernel.variants | {"REAL": ["float", "double"]}
    versions: ClassVar = {"": Version("GPUSGD", "sky", "-", {"side": 1024})}
    layout: ClassVar = ("diagonal_blocks", "conflict_free_groups")
    cases: ClassVar = ({"side": 3}, {"side": 3, "precision": 64})
    # side : l, blocks of a side, thus thread blocks of a launch
    # block : threads of a block; by default as many as columns (newgpusgd, section 5.2)
    # precision : bits of a factor and of the arithmetic, 32 or 64
    options: ClassVar = {
        "side": Option(64, most=MAX_BLOCKS_A_SIDE),
        "block": Option(None, most=MAX_THREADS),
        "precision": Option(32, choices=(32, 64)),
    }

    def __init__(self, problem):
        hyper, train, (user_factors, item_factors) = problem
        super().__init__(hyper, user_factors, item_factors)
        self._side = hyper.options["side"]
        self._block = hyper.options["block"] or hyper.columns
        order, groups, of_blocks, tags = self.grouped(train, self._side)
        self._groups = {"block_groups": self._device.array(of_blocks), "groups": self._device.array(groups)}
        self.set_pieces((train.users[order], train.items[order], train.values[order]), tags, hyper.chunk)

    @staticmethod
    def grouped(train, side):
        """(order, groups, groups of the blocks, tags), see `partition`."""
        edge = max(train.n_users, train.n_items)
        blocks = diagonal_blocks(train, side, edge, edge)
        return *conflict_free_groups(train, blocks, -(-edge // side)), blocks.tags

    @classmethod
    def order(cls, hyper, train, epoch=0, blocks=1, members=1):
        side = hyper.options["side"]
        order, groups, of_blocks, _ = cls.grouped(train, side)
        turns = [0] * blocks
        for number, (first, end) in enumerate(pairwise(of_blocks)):
            block = number % side % blocks
            if number % side == 0:
                turns = [max(turns)] * blocks  # a launch for each tag
            for group in range(first, end):
                ratings = order[groups[group] : groups[group + 1]]
                for t, rating in enumerate(ratings):
                    yield block, t % members, turns[block] + t // members, int(rating), "both"
                turns[block] += -(-len(ratings) // members)

    def launch(self, pieces, first_rating, arrays):
        arrays = arrays | self._groups
        for tag in pieces:
            first_block = tag * self._side
            self._kernel(self._side, self._block, **arrays, first_block=first_block, first_rating=first_rating)
