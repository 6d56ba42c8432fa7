"""What every version of contrastive divergence does in an epoch, and the versions that run on the CPU."""

from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from gpumf import backends
from gpumf._util.counter_rng import random_order, splitmix64
from gpumf.backends.cpu import rbm as cpu_rbm
from gpumf.solvers.base import Hyperparameters, KernelSolver, Solver, Version
from gpumf.solvers.rbm_batches import Batches
from gpumf.solvers.rbm_levels import VARIANTS, to_levels

_MAX_STEPS = 1 << 16  # of Gibbs sampling: how the streams of the draws are numbered


def batch_order(seed, epoch, n_batches):
    """The order of the batches in an epoch; seed: below 2^64."""
    low, high = np.uint64((seed << 32) % 2**64 + epoch), np.uint64(seed >> 32)
    return random_order(n_batches, splitmix64(low ^ splitmix64(high) ^ splitmix64(np.uint64(0))))


@lru_cache  # asked for by every batch of an epoch
def draw_streams(seed, epoch, step):
    """The streams of the draws of hidden and of visible units in a step of Gibbs sampling, uint64.

    Of the first one user u takes for unit j draw number u * hidden + j, of the second one entry t of `Batches` takes
    draw number t. Epochs and steps are counted from 0.
    """
    with np.errstate(over="ignore"):
        stream = splitmix64(np.uint64(seed)) + np.uint64(2 * (epoch * _MAX_STEPS + step))
        return splitmix64(stream), splitmix64(stream + np.uint64(1))


@dataclass(frozen=True)
class RBMHyperparameters(Hyperparameters):
    """Those of the RBM; see its parameters.

    n_levels, scale : of the training ratings
    """

    hidden: int
    learning_rate: float
    gibbs_steps: int | tuple[tuple[int, int], ...]
    batch: int
    momentum: float
    weight_decay: float
    average: str
    weights: str
    batches: str
    n_levels: int
    scale: tuple[float, float] | None


def gibbs_steps_in(gibbs_steps, epoch):
    """T, the steps of Gibbs sampling in an epoch, counted from 0.

    gibbs_steps : int, or (first epoch, steps) in the order of the epochs, the first of epoch 0
    """
    if isinstance(gibbs_steps, int):
        return gibbs_steps
    return [steps for first, steps in gibbs_steps if first <= epoch][-1]


class Divergence(Solver):
    """A version of contrastive divergence, whose epoch takes every batch once, in an order drawn for the epoch.

    batches : Batches
    learning_rate : of the next epoch
    transfers : whether it takes weights="transfer" and batches="transfer"
    """

    transfers = False
    layout: ClassVar = ("by_user",)

    def __init__(self, hyper, train):
        def batches():
            levels = to_levels(train.by_user.values, hyper.scale, hyper.n_levels)
            return Batches.of(train.by_user, levels, train.n_items, hyper.batch, hyper.seed)

        self.batches = train._once(("batches", hyper.scale, hyper.n_levels, hyper.batch, hyper.seed), batches)
        self._hyper, self.learning_rate = hyper, hyper.learning_rate

    def epoch(self, number):
        for batch in batch_order(self._hyper.seed, number, len(self.batches)).tolist():
            self.train_batch(batch, self.keys(number, batch))

    def keys(self, epoch, batch):
        """`draw_streams` of each step of Gibbs sampling, the second ones from the batch's first entry on."""
        first, _ = self.batches.entries(batch)
        streams = (
            draw_streams(self._hyper.seed, epoch, step)
            for step in range(gibbs_steps_in(self._hyper.gibbs_steps, epoch))
        )
        return [(hidden, np.uint64((int(visible) + first) % 2**64)) for hidden, visible in streams]

    @abstractmethod
    def statistics(self):
        """What the last update took, where the kernel has it.

        Returns (positive, negative, reconstruction): p(h | v) and p(h | v') of the batch's users, float32 (users,
            hidden), and v', the drawn levels of its entries, uint8 (entries,)
        """

    @abstractmethod
    def train_batch(self, number, keys):
        """Start the update with batch `number`, with a step of Gibbs sampling for each pair of `keys`."""

    def _rates(self):
        """Learning rate, momentum and weight decay, as the kernels take them."""
        return tuple(np.float32(x) for x in (self.learning_rate, self._hyper.momentum, self._hyper.weight_decay))


class DivergenceKernel(KernelSolver):
    """For a `Divergence` by the kernels `names` of a source in kernels/rbm."""

    from_device = False  # their batches are made on the host
    names: tuple[str, ...]
    variants: ClassVar = VARIANTS

    @staticmethod
    def defines(hyper):
        return {"HIDDEN": hyper.hidden, "LEVELS": hyper.n_levels}

    @classmethod
    def compile(cls, hyper):
        device = backends.device(hyper.device)
        return [device.kernel(cls.source, name, **cls.defines(hyper)) for name in cls.names]

    def __init__(self, hyper, train):
        super().__init__(hyper, train)
        self._device = backends.device(hyper.device)


class _Numba:
    """Contrastive divergence by Numba."""

    parallel: bool

    @classmethod
    def compile(cls, hyper):
        return cpu_rbm.updates(hyper.hidden, hyper.n_levels, cls.parallel)

    def __init__(self, problem):
        hyper, train, (user_hidden, weights, visible_biases, hidden_biases) = problem
        super().__init__(hyper, train)
        self._updates = self.compile(hyper)
        self._positive, self._negative = user_hidden.copy(), np.empty_like(user_hidden)
        self._weights, self._visible_biases = weights.copy(), visible_biases.copy()
        self._hidden_biases = hidden_biases.copy()
        self._reconstruction = np.empty(self.batches.max_entries, np.uint8)
        kept = slice(None) if hyper.momentum else slice(0)
        self._changes = [np.zeros_like(a[kept]) for a in (weights, visible_biases)]
        self._hidden_change = np.zeros_like(hidden_biases)

    def train_batch(self, number, keys):
        batch = self.batches[number]
        self._last = batch.users, len(batch.items)
        w, a, reconstruction = self._weights, self._visible_biases, self._reconstruction
        known = self._positive
        self._hidden_update(batch, batch.levels, known)
        for draws in keys:
            columns = batch.users, batch.indptr, batch.items
            self._updates.visible_update(*columns, w, a, known, *draws, reconstruction)
            known = self._negative
            self._hidden_update(batch, reconstruction, known)
        rate, momentum, decay = self._rates()
        rows = batch.row_items, batch.rows, batch.mapping, batch.entry_users, batch.levels, reconstruction
        hidden = self._positive, self._negative
        how = rate, len(batch.users), self._hyper.average == "item", momentum, decay
        self._updates.weight_update(*rows, *hidden, w, a, *self._changes, *how)
        biases = self._hidden_biases, self._hidden_change
        self._updates.hidden_bias_update(batch.users, *hidden, *biases, rate, momentum)

    def statistics(self):
        users, entries = self._last
        return self._positive[users], self._negative[users], self._reconstruction[:entries]

    def _hidden_update(self, batch, levels, probabilities):
        learned = self._weights, self._hidden_biases
        self._updates.hidden_update(batch.users, batch.indptr, batch.items, levels, *learned, probabilities)

    def arrays(self):
        self._hidden_update(self.batches, self.batches.levels, self._positive)
        return self._positive, self._weights, self._visible_biases, self._hidden_biases


class Sequential(_Numba, Divergence):
    """Numba on one thread."""

    versions: ClassVar = {"": Version("1 thread", "sky", "--")}
    parallel = False


class Parallel(_Numba, Divergence):
    """Numba, users and items over all threads."""

    versions: ClassVar = {"": Version("all threads", "blue", "--")}
    parallel = True
