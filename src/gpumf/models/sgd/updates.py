"""What every version of SGD does in an epoch, and the versions that run on the CPU."""

from abc import abstractmethod

import numpy as np
from numba import get_num_threads

from gpumf.cpu import sgd as cpu_sgd
from gpumf.hashing import splitmix64
from gpumf.models.base import Trainer


def step_parameters(model):
    """Learning rate, lambda of the users and lambda of the items, as the kernels take them."""
    return tuple(np.float32(x) for x in (model.learning_rate, model.regularization, model.item_regularization))


def draw_key(model):
    """The stream of the draws."""
    return splitmix64(np.uint64(model.seed))


class Updates(Trainer):
    """An epoch is as many updates as there are ratings; update t draws its rating by the hash of t."""

    def epoch(self, number):
        self.updates(number * self._nnz, self._nnz)

    @abstractmethod
    def updates(self, first, count):
        """Start the updates first, first + 1, ..., first + count - 1."""

    def factors(self):
        return self._p, self._q


class Sequential(Updates):
    """Numba on one core, one update after another: the convergence reference."""

    parallel = False

    @classmethod
    def compile(cls, model):
        return cpu_sgd.hogwild(model.factors, cls.parallel)

    def __init__(self, model, train, user_factors, item_factors):
        self._hogwild = self.compile(model)
        self._ratings = train.users, train.items, train.values
        self._nnz = train.nnz
        self._p, self._q = user_factors.copy(), item_factors.copy()
        self._steps = *step_parameters(model), draw_key(model)
        self._chunks = get_num_threads() if self.parallel else 1

    def updates(self, first, count):
        self._hogwild(*self._ratings, self._p, self._q, *self._steps, first, count, self._chunks)


class Parallel(Sequential):
    """Numba, Hogwild over all cores."""

    parallel = True
