"""Launches kernels/sgd/cu2rec.cu."""

from typing import ClassVar

import numpy as np

from gpumf.models.base import launch_shape
from gpumf.models.sgd.options import Option
from gpumf.models.sgd.updates import DescentKernel, draw_key

_LOSS_BLOCKS, _LOSS_THREADS = 128, 256
_ENTRIES = {"early_bird_gets": "cu2rec", "early_bird_loses": "cu2rec_loses", "atomic": "cu2rec_atomic"}
_GOLDEN = 0.6180339887498949


def first_user(step, n_users):
    """Who begins a step: far from where the steps before began."""
    return int(step * _GOLDEN % 1 * n_users)


class Cu2rec(DescentKernel):
    """kernels/sgd/cu2rec.cu: every user once a step, of an item's updates in a step one counts.

    An epoch is as many steps as make about nnz updates. As published with `biases=True` and `schedules.Patience`.
    """

    source, entry = "sgd/cu2rec.cu", "cu2rec"
    streams = False
    # conflict : which of an item's updates in a step count: 'early_bird_gets', 'early_bird_loses', or all ('atomic')
    # striding : whether each step begins with another user
    options: ClassVar = {
        "conflict": Option("early_bird_gets", choices=tuple(_ENTRIES)),
        "striding": Option(True, choices=(True, False)),
    }

    @classmethod
    def compile(cls, model):
        return cls.kernel(model, _ENTRIES[model.options["conflict"]])

    def __init__(self, model, train, user_factors, item_factors):
        super().__init__(model, user_factors, np.repeat(item_factors[:, None], 2, axis=1))
        device, rows = self._device, train.by_user
        self._ratings = [device.array(a) for a in (rows.indptr, rows.indices, rows.values)]
        self._n_users, self._nnz = train.n_users, train.nnz
        self._newest = device.array(np.full(train.n_items, -2, np.int32))  # made in step -1
        self._all_items = device.array(np.arange(train.n_items))
        self._steps_an_epoch = max(round(train.nnz / max((rows.counts > 0).sum(), 1)), 1)
        self._striding, self._key = model.options["striding"], draw_key(model)
        self._shape = launch_shape(model.threads, train.n_users, model.columns, device)
        self._loss, self._total_loss = self.kernel(model, "loss"), self.kernel(model, "total_loss")

    def epoch(self, number):
        self.take_steps(number * self._steps_an_epoch, self._steps_an_epoch)

    def first_user(self, step):
        """Who begins a step of this trainer: always the same where there is no striding."""
        return first_user(step, self._n_users) if self._striding else 0

    def take_steps(self, first, count):
        """Start the steps first, first + 1, ..., first + count - 1: an update of each user with ratings."""
        rates = self.steps()
        for step in range(first, first + count):
            self._kernel(
                *self._shape,
                *self._ratings,
                np.int32(self._n_users),
                self._p,
                self._q,
                self._newest,
                *rates,
                self._key,
                np.int32(step),
                np.int32(self.first_user(step)),
            )

    def training_errors(self):
        """(rmse, mae) on the training set, by the publication's loss and total-loss kernels."""
        errors = self._device.empty(self._nnz, np.float32)
        sums = self._device.empty((_LOSS_BLOCKS, 2), np.float64)
        self._loss(*self._shape, *self._ratings, np.int32(self._n_users), self._p, self._q, self._newest, errors)
        self._total_loss(_LOSS_BLOCKS, _LOSS_THREADS, errors, np.int64(self._nnz), sums)
        absolute, squared = self._device.to_numpy(sums).sum(axis=0)
        return float(np.sqrt(squared / self._nnz)), float(absolute / self._nnz)

    def factors(self):
        return self._p, self._q[self._all_items, self._newest & 1]
