"""Stochastic gradient descent."""

from abc import abstractmethod
from typing import ClassVar

import numpy as np
from numba import get_num_threads

from gpumf import gpu
from gpumf.cpu import sgd as cpu_sgd
from gpumf.hashing import splitmix64
from gpumf.models.base import Factorization, KernelTrainer, Trainer, launch_shape


def _steps(model):
    """Learning rate, lambda of the users and lambda of the items, as the kernels take them."""
    return tuple(np.float32(x) for x in (model.learning_rate, model.regularization, model.item_regularization))


def _key(model):
    """The stream of the draws."""
    return splitmix64(np.uint64(model.seed))


def safe_updates(train):
    """How many updates may be in flight so that one meets, on average, one other with its user or its item.

    Two draws share the user with probability sum_u (n_u / nnz)^2, and likewise the item: n updates at once make an
    expected n (sum_u + sum_i) meetings each. Few popular rows, not the number of rows, set the limit.
    """
    shares = (np.bincount(rows) / train.nnz for rows in (train.users, train.items))
    return int(np.ceil(1 / sum((share**2).sum() for share in shares)))


class _Updates(Trainer):
    """An epoch is as many updates as there are ratings; update t draws its rating by the hash of t."""

    def epoch(self, number):
        self.updates(number * self._nnz, self._nnz)

    @abstractmethod
    def updates(self, first, count):
        """Start the updates first, first + 1, ..., first + count - 1."""

    def factors(self):
        return self._p, self._q


class _Sequential(_Updates):
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
        self._steps = *_steps(model), _key(model)
        self._chunks = get_num_threads() if self.parallel else 1

    def updates(self, first, count):
        self._hogwild(*self._ratings, self._p, self._q, *self._steps, first, count, self._chunks)


class _Parallel(_Sequential):
    """Numba, Hogwild over all cores."""

    parallel = True


class _Hogwild(KernelTrainer, _Updates):
    """kernels/sgd/hogwild.cu: a group of lanes an update, no locks."""

    source, entry = "sgd/hogwild.cu", "hogwild"

    def __init__(self, model, train, user_factors, item_factors):
        device = self._device = gpu.device(model.device)
        self._kernel = self.compile(model)
        self._ratings = [device.array(a) for a in (train.users, train.items, train.values)]
        self._nnz = train.nnz
        self._p, self._q = device.array(user_factors), device.array(item_factors)
        self._steps = *_steps(model), _key(model)
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


class SGD(Factorization):
    """Stochastic gradient descent on sum (r_ui - p_u . q_i)^2 / 2 + lambda/2 (|p_u|^2 + |q_i|^2) per rating.

    An epoch is nnz updates on ratings drawn with replacement (thesis, sections 2.3.2 and 4.1, Algorithm 4.1). With
    a kernel that updates in parallel without locks (Recht et al. 2011) two runs differ slightly.

    Parameters
    ----------
    factors : int, 1 to 256
    regularization : lambda >= 0 of the users, and of the items too unless `item_regularization` is given
    learning_rate : mu > 0
    kernel : a name of `SGD.kernels()`; the fastest for the device by default
    device : 'auto' (CUDA where there is one), 'cuda', 'cpu', or 'host' (the CUDA kernel on the processor, checked)
    threads : number of CUDA threads of the grid. By default as many as `safe_updates` lets be in flight: with more,
        updates of popular vectors overwrite each other and an epoch learns less. Ignored on the CPU.
    seed : int, of the initial factors and of the draws

    Raises
    ------
    ValueError : a parameter out of range, a kernel that does not fit the device
    gpumf.gpu.DeviceError : device='cuda' or 'host' where there is none
    """

    _trainers: ClassVar = {"sequential": _Sequential, "parallel": _Parallel, "hogwild": _Hogwild}

    def __init__(
        self,
        factors=16,
        regularization=0.02,
        *,
        learning_rate=0.02,
        item_regularization=None,
        kernel=None,
        device="auto",
        threads=None,
        seed=0,
    ):
        super().__init__(factors, regularization, kernel=kernel, device=device, threads=threads, seed=seed)
        if not (np.isfinite(learning_rate) and learning_rate > 0):
            raise ValueError(f"learning_rate must be finite and positive, not {learning_rate!r}")
        self.learning_rate = float(learning_rate)
        self.item_regularization = self.regularization if item_regularization is None else float(item_regularization)

    @property
    def _parameters(self):
        return super()._parameters | {
            "learning_rate": self.learning_rate,
            "item_regularization": self.item_regularization,
        }
