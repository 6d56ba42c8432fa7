"""Launches kernels/sgd/hogwild.cu."""

import numpy as np

from gpumf import gpu
from gpumf.models.base import KernelTrainer, launch_shape
from gpumf.models.sgd.updates import Updates, draw_key, step_parameters


def safe_updates(train):
    """How many updates may be in flight so that one meets, on average, one other with its user or its item.

    Two draws share the user with probability sum_u (n_u / nnz)^2, and likewise the item: n updates at once make an
    expected n (sum_u + sum_i) meetings each. Few popular rows, not the number of rows, set the limit.
    """
    shares = (np.bincount(rows) / train.nnz for rows in (train.users, train.items))
    return int(np.ceil(1 / sum((share**2).sum() for share in shares)))


class Hogwild(KernelTrainer, Updates):
    """kernels/sgd/hogwild.cu: a group of lanes an update, no locks."""

    source, entry = "sgd/hogwild.cu", "hogwild"

    def __init__(self, model, train, user_factors, item_factors):
        device = self._device = gpu.device(model.device)
        self._kernel = self.compile(model)
        self._ratings = [device.array(a) for a in (train.users, train.items, train.values)]
        self._nnz = train.nnz
        self._p, self._q = device.array(user_factors), device.array(item_factors)
        self._steps = *step_parameters(model), draw_key(model)
        self._shape = launch_shape(model.threads, safe_updates(train), model.factors, device)

    def updates(self, first, count):
        self._kernel(
            *self._shape,
            *self._ratings,
            np.int64(self._nnz),
            self._p,
            self._q,
            *self._steps,
            np.uint64(first),
            np.int64(count),
        )
