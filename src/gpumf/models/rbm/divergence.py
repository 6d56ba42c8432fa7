"""What every version of contrastive divergence does in an epoch, and the versions that run on the CPU."""

from abc import abstractmethod

import numpy as np

from gpumf.cpu import rbm as cpu_rbm
from gpumf.hashing import random_order, splitmix64
from gpumf.models.base import Trainer
from gpumf.models.rbm.batches import Batches
from gpumf.models.rbm.levels import to_levels

_MOST_STEPS = 1 << 16  # of Gibbs sampling: how the streams of the draws are numbered


def batch_order(seed, epoch, n_batches):
    """The order of the batches in an epoch."""
    return random_order(n_batches, splitmix64(np.uint64((seed << 32) + epoch)))


def draw_keys(seed, epoch, step):
    """The streams of the draws of hidden and of visible units in a step of Gibbs sampling, both counted from 0.

    Of user u the hidden unit j takes draw number u * hidden + j, the visible units of entry t of `Batches` draw t.
    """
    with np.errstate(over="ignore"):
        stream = splitmix64(np.uint64(seed)) + np.uint64(2 * (epoch * _MOST_STEPS + step))
        return splitmix64(stream), splitmix64(stream + np.uint64(1))


class Divergence(Trainer):
    """A version of contrastive divergence, whose epoch takes every batch once, in an order drawn for the epoch.

    Attributes
    ----------
    batches : Batches
    learning_rate : of the next epoch
    transfers : whether it takes weights="transfer"
    """

    transfers = False

    def __init__(self, model, train):
        levels = to_levels(train.by_user.values, model.scale, model.n_levels)
        self.batches = Batches.of(train.by_user, levels, train.n_items, model.batch, model.seed)
        self._model, self.learning_rate = model, model.learning_rate

    def epoch(self, number):
        steps = self._model.steps_in(number)
        keys = [draw_keys(self._model.seed, number, step) for step in range(steps)]
        for batch in batch_order(self._model.seed, number, self.batches.n_batches):
            self.train_batch(int(batch), keys)

    @abstractmethod
    def train_batch(self, batch, keys):
        """Start the update with batch number `batch`, with a step of Gibbs sampling for each pair of `draw_keys`."""

    def _rates(self):
        """Learning rate, momentum and weight decay, as the kernels take them."""
        return tuple(np.float32(x) for x in (self.learning_rate, self._model.momentum, self._model.weight_decay))


class Sequential(Divergence):
    """Numba on one core."""

    parallel = False

    @classmethod
    def compile(cls, model):
        return cpu_rbm.updates(model.hidden, model.n_levels, cls.parallel)

    def __init__(self, model, train, user_hidden, weights, visible_biases, hidden_biases):
        super().__init__(model, train)
        self._updates = self.compile(model)
        self._positive, self._negative = user_hidden.copy(), np.empty_like(user_hidden)
        self._weights, self._visible_biases = weights.copy(), visible_biases.copy()
        self._hidden_biases = hidden_biases.copy()
        self._sampled = np.empty_like(self.batches.levels)
        kept = slice(None) if model.momentum else slice(0)
        self._changes = [np.zeros_like(a[kept]) for a in (weights, visible_biases)]
        self._hidden_change = np.zeros_like(hidden_biases)

    def train_batch(self, batch, keys):
        b, of = self.batches, slice(*self.batches.batch_users[batch : batch + 2])
        rows = slice(*b.batch_rows[batch : batch + 2])
        users, indptr = b.users[of], b.indptr[of.start : of.stop + 1]
        w, a = self._weights, self._visible_biases
        self._hidden_update(users, indptr, b.levels, self._positive)
        known = self._positive
        for hidden_key, visible_key in keys:
            self._updates.visible_update(users, indptr, b.items, w, a, known, hidden_key, visible_key, self._sampled)
            known = self._negative
            self._hidden_update(users, indptr, self._sampled, known)
        rate, momentum, decay = self._rates()
        self._updates.weight_update(
            b.row_items[rows],
            b.rows[rows.start : rows.stop + 1],
            b.mapping,
            b.entry_users,
            b.levels,
            self._sampled,
            self._positive,
            self._negative,
            w,
            a,
            *self._changes,
            rate,
            len(users),
            self._model.average == "item",
            momentum,
            decay,
        )
        self._updates.hidden_bias_update(
            users, self._positive, self._negative, self._hidden_biases, self._hidden_change, rate, momentum
        )

    def _hidden_update(self, users, indptr, levels, probabilities):
        b = self.batches
        self._updates.hidden_update(users, indptr, b.items, levels, self._weights, self._hidden_biases, probabilities)

    def arrays(self):
        self._hidden_update(self.batches.users, self.batches.indptr, self.batches.levels, self._positive)
        return self._positive, self._weights, self._visible_biases, self._hidden_biases


class Parallel(Sequential):
    """Numba, users and items over all cores."""

    parallel = True
