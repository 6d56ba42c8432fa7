"""Launches kernels/sgd/gpusgd.cu and newgpusgd.cu, of which blocks that share no user and no item are at work."""

from itertools import pairwise
from typing import ClassVar

from gpumf.solvers.base import Publication, Version
from gpumf.solvers.options import MAX_BLOCKS_A_SIDE, MAX_THREADS, Option
from gpumf.solvers.sgd_base import Descent, DescentKernel, PieceKernel
from gpumf.solvers.sgd_partition import conflict_free_groups, diagonal_blocks


def rectangular_blocks(train, side):
    """side x side blocks of m / side users by n / side items (newgpusgd, section 4.1)."""
    return diagonal_blocks(train, side, train.n_users, train.n_items)


def in_groups(order, groups, of_blocks, side, blocks, members):
    """`DescentKernel.order` of blocks by tag, each group after group, of whose ratings the members take one each.

    order, groups, of_blocks : see `conflict_free_groups`
    """
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
        side = hyper.options["side"]
        self._shape = side, hyper.options["block"] or hyper.columns
        order, groups, of_blocks, tags = self.grouped(train, side)
        self._groups = {"block_groups": self._device.array(of_blocks), "groups": self._device.array(groups)}
        self.set_pieces((train.users[order], train.items[order], train.values[order]), tags, hyper.chunk)

    @staticmethod
    def grouped(train, side):
        """(order, groups, groups of the blocks, tags), see `sgd_partition`."""
        edge = max(train.n_users, train.n_items)
        blocks = diagonal_blocks(train, side, edge, edge)
        return *conflict_free_groups(train, blocks, -(-edge // side)), blocks.tags

    @classmethod
    def order(cls, hyper, train, epoch=0, blocks=1, members=1):
        side = hyper.options["side"]
        return in_groups(*cls.grouped(train, side)[:3], side, blocks, members)

    def launch(self, pieces, first_rating, arrays):
        given = arrays | self._groups | {"first_rating": first_rating}
        for tag in pieces:
            self._kernel(*self._shape, **given, first_block=tag * self._shape[0])


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
    options: ClassVar = {"side": Option(1024, most=MAX_BLOCKS_A_SIDE), "precision": GpuSgd.options["precision"]}

    def __init__(self, problem):
        hyper, train, (user_factors, item_factors) = problem
        super().__init__(hyper, user_factors, item_factors)
        self._shape = hyper.options["side"], hyper.columns
        blocks = rectangular_blocks(train, hyper.options["side"])
        self._offsets, order = self._device.array(blocks.offsets), blocks.order
        self.set_pieces((train.users[order], train.items[order], train.values[order]), blocks.tags, hyper.chunk)

    @staticmethod
    def order(hyper, train, epoch=0, blocks=1, members=1):
        side = hyper.options["side"]
        partition = rectangular_blocks(train, side)
        return in_groups(partition.order, range(train.nnz + 1), partition.offsets, side, blocks, members)

    def launch(self, pieces, first_rating, arrays):
        given = arrays | {"offsets": self._offsets, "first_rating": first_rating}
        for tag in pieces:
            self._kernel(*self._shape, **given, first_block=tag * self._shape[0])
