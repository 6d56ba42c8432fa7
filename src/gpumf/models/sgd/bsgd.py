"""Launches kernels/sgd/bsgd.cu."""

from typing import ClassVar

import numpy as np

from gpumf.hashing import random_order
from gpumf.models.sgd.chunks import Chunks
from gpumf.models.sgd.options import Option
from gpumf.models.sgd.updates import DescentKernel


class Bsgd(DescentKernel):
    """kernels/sgd/bsgd.cu: a shuffled stream of batches, a thread block a rating, one thread a factor."""

    source, entry = "sgd/bsgd.cu", "bsgd"
    # batch : s, ratings of a launch, whose gradients are all taken at about the same factors
    options: ClassVar = {"batch": Option(256)}

    def __init__(self, model, train, user_factors, item_factors):
        super().__init__(model, user_factors, item_factors)
        self._batch, self._block, self._nnz = model.options["batch"], model.columns, train.nnz
        order = random_order(train.nnz, model.seed)
        arrays = train.users[order], train.items[order], train.values[order]
        pieces = np.append(np.arange(0, train.nnz, self._batch), train.nnz)
        self._chunks = Chunks(self._device, arrays, pieces, model.chunk)

    def epoch(self, number):
        steps = self.steps()
        for first_batch, end_batch, first_rating, arrays in self._chunks:
            for batch in range(first_batch, end_batch):
                begin = batch * self._batch
                blocks = min(self._batch, self._nnz - begin)
                self._kernel(blocks, self._block, *arrays, np.int64(begin - first_rating), self._p, self._q, *steps)
