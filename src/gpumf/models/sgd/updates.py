"""What the versions of SGD share: the steps of an update, and the versions that run on the CPU."""

from abc import abstractmethod

import numpy as np
from numba import get_num_threads

from gpumf import gpu
from gpumf.cpu import sgd as cpu_sgd
from gpumf.hashing import splitmix64
from gpumf.models.base import FactorTrainer, KernelTrainer
from gpumf.models.sgd.options import chosen


def draw_key(model):
    """The stream of the draws."""
    return splitmix64(np.uint64(model.seed))


class Descent(FactorTrainer):
    """A version of SGD.

    Attributes
    ----------
    options : parameters of this scheme alone, which `SGD` takes by name: a dict name -> `Option`
    streams : whether it takes ratings a chunk after another
    learning_rate : of the next epoch
    """

    streams = False

    options: dict = {}  # noqa: RUF012 - a default to be replaced, not changed

    @classmethod
    def chosen(cls, model, given):
        """The values of the options for this model, given some of them; errors as of `options.chosen`."""
        return chosen(model.kernel, cls.options, given)

    def set_steps(self, model):
        """Take the sizes of the steps from the model."""
        self.learning_rate = model.learning_rate
        self._regularization = tuple(
            np.float32(x) for x in (model.regularization, model.item_regularization, model.bias_regularization)
        )

    def steps(self):
        """Learning rate and lambda of the users, of the items and of the biases, as the kernels take them."""
        return np.float32(self.learning_rate), *self._regularization


class DescentKernel(KernelTrainer, Descent):
    """A kernel of kernels/sgd."""

    streams = True

    @classmethod
    def compile(cls, model):
        return cls.kernel(model, cls.entry)

    @classmethod
    def kernel(cls, model, entry):
        """A kernel of the source, compiled for the model."""
        return gpu.device(model.device).kernel(cls.source, entry, FACTORS=model.columns, BIASES=model.bias_kind)

    def __init__(self, model, user_factors, item_factors):
        self._device = gpu.device(model.device)
        self._kernel = self.compile(model)
        self._p, self._q = self._device.array(user_factors), self._device.array(item_factors)
        self.set_steps(model)

    def factors(self):
        return self._p, self._q


class Updates(Descent):
    """An epoch is as many updates as there are ratings; update t draws its rating by the hash of t."""

    def epoch(self, number):
        self.updates(number * self._nnz, self._nnz)

    @abstractmethod
    def updates(self, first, count):
        """Start the updates first, first + 1, ..., first + count - 1."""


class Sequential(Updates):
    """Numba on one core, one update after another: the convergence reference."""

    parallel = False

    @classmethod
    def compile(cls, model):
        return cpu_sgd.hogwild(model.columns, model.bias_kind, cls.parallel)

    def __init__(self, model, train, user_factors, item_factors):
        self._hogwild = self.compile(model)
        self._ratings = train.users, train.items, train.values
        self._nnz = train.nnz
        self._p, self._q = user_factors.copy(), item_factors.copy()
        self._key = draw_key(model)
        self._chunks = get_num_threads() if self.parallel else 1
        self.set_steps(model)

    def updates(self, first, count):
        self._hogwild(*self._ratings, self._p, self._q, *self.steps(), self._key, first, count, self._chunks)

    def factors(self):
        return self._p, self._q


class Parallel(Sequential):
    """Numba, Hogwild over all cores."""

    parallel = True


def quads(columns):
    """Vectors of four factors in a row, as kernels/common/quads.cuh has them."""
    return -(-columns // 4)


def quad_lanes(columns):
    """Lanes of a group of kernels/common/quads.cuh."""
    return min(max(4, 1 << (quads(columns) - 1).bit_length()), 32)


def with_quads(factors, dtype):
    """Factors as rows of whole quads, zeros in the padding."""
    return np.pad(factors, ((0, 0), (0, 4 * quads(factors.shape[1]) - factors.shape[1]))).astype(dtype)
