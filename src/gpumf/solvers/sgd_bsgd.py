"""Launches kernels/sgd/bsgd.cu."""

from typing import ClassVar

import numpy as np

from gpumf.solvers.base import Publication, Version
from gpumf.solvers.options import Option
from gpumf.solvers.sgd_base import Descent, DescentKernel, PieceKernel, in_turn


class Bsgd(PieceKernel, DescentKernel, Descent):
    """kernels/sgd/bsgd.cu: a shuffled stream of batches, a thread block a rating, one thread a factor."""

    source, entry = "sgd/bsgd.cu", "bsgd"
    publication = Publication("esgd", "section 2.4")
    versions: ClassVar = {"": Version("BSGD", "grey", "-", {"batch": 1024})}
    cases: ClassVar = ({"batch": 16},)
    races: ClassVar = {"bsgd": {"user_factors", "item_factors"}}
    # batch : s, ratings of a launch, whose gradients are all taken at about the same factors
    options: ClassVar = {"batch": Option(256)}

    def __init__(self, problem):
        hyper, train, (user_factors, item_factors) = problem
        super().__init__(hyper, user_factors, item_factors)
        self._batch, self._block, self._nnz = hyper.options["batch"], hyper.columns, train.nnz
        order = train.random_order(train.nnz, hyper.seed)
        arrays = train.users[order], train.items[order], train.values[order]
        self.set_pieces(arrays, np.append(np.arange(0, train.nnz, self._batch), train.nnz), hyper.chunk)

    @staticmethod
    def order(hyper, train, epoch=0, blocks=1, members=1):
        return in_turn(train.random_order(train.nnz, hyper.seed), blocks, members)

    def launch(self, pieces, first_rating, arrays):
        for batch in pieces:
            begin = batch * self._batch
            blocks = min(self._batch, self._nnz - begin)
            self._kernel(blocks, self._block, **arrays, begin=begin - first_rating)
