"""A restricted Boltzmann machine."""

from typing import ClassVar

import numpy as np

from gpumf.cpu.rbm import expectations
from gpumf.models.estimator import Model
from gpumf.models.rbm.divergence import Parallel, Sequential
from gpumf.models.rbm.evaluation import ExpectationErrors, ExpectationRanking
from gpumf.models.rbm.fast import Fast
from gpumf.models.rbm.levels import MOST_LEVELS, level_values, n_levels_of, to_levels
from gpumf.models.rbm.thesis import Thesis
from gpumf.models.sgd import schedules

MAX_HIDDEN = 512
_CONSTANT = schedules.Constant()
_SMALL = np.float32(0.01)  # standard deviation of initial weights (thesis, section 6.2.3)


class RBM(Model):
    """A restricted Boltzmann machine for ratings, trained by contrastive divergence.

    A user's rating of item i is one of K visible units, of which one is on; they share binary hidden units h_j:

        p(h_j = 1 | v) = sigmoid(b_j + sum_i W_i,v_i,j),    p(v_i = k | h) = softmax_k(a_ik + sum_j W_ikj h_j)

    (thesis, section 2.4.1, equations 2.31 and 2.32; Salakhutdinov, Mnih and Hinton 2007). An update takes a batch of
    users (section 4.2, Algorithm 4.2): h is drawn given their ratings, then T times the ratings given h and h given
    those, and

        W_ikj += mu avg([v_i = k] p(h_j | v) - [v'_i = k] p(h_j | v'))

    for the data v and the reconstruction v', and likewise the biases a and b. A rating is predicted by its
    expectation over the levels k, given the user's p(h | v) of the training ratings (equation 2.34).

    Where the publications leave a choice: ratings and hidden units are drawn wherever the chain goes on, and the
    update takes the v' that was drawn and the probabilities of hidden units: their product has the mean <v h>_T,
    which that of p(v' | h) and p(h | v') has not; the average is over those users of the batch who rated the item, so
    that the rate means the same for popular and for rare items, or with average="batch" over all of them; momentum
    and weight decay of an item's weights act in the batches in which somebody rated it; batches are made once, and
    come in another order in each epoch; the biases a start as the logarithms of how often the item got each level,
    weights normal with standard deviation 0.01 (section 6.2.3), the biases b as zeros.

    An item without a training rating is predicted the mean of the training ratings; a user without one by what the
    biases say, and recommended the items with the most training ratings first. Going on with `warm_start` needs
    ratings of the same scale and starts without momentum. `recommend` and `rank` work on the CPU.

    Parameters
    ----------
    hidden : int, 1 to 512, number of hidden units
    learning_rate : mu > 0
    gibbs_steps : T, int; or a schedule, pairs (first epoch, T) as in ((0, 1), (10, 3)), from epoch 0 on
    batch : int, users of a batch
    momentum : in [0, 1), share of the last change that is added to the next one
    weight_decay : >= 0, mu times this share of the weights is taken from them
    average : 'item' or 'batch', what changes of an item's weights are averages over: its ratings in the batch, or all
        users of the batch
    schedule : how the learning rate changes from epoch to epoch, of `gpumf.models.sgd.schedules`
    levels : K, int, 2 to 32, to which ratings are rounded, equally spaced on the scale of the training set (without
        one, between its lowest and highest rating); by default the whole or half steps of the scale
    kernel : a name of `RBM.kernels()`; the fastest for the device by default
    weights : 'device', they stay where the kernel runs; 'transfer', kernel `thesis` alone: they are moved there and
        back at every update (thesis, Figure 4.5), with the same result
    device : 'auto' (CUDA where there is one), 'cuda', 'cpu', or 'host' (the CUDA kernel on the processor, checked)
    seed : int, of the initial weights, the batches, and all draws; the same seed gives the same model

    Attributes
    ----------
    user_hidden : float32 (n_users, hidden), p(h | v) of each user's training ratings, after `fit`
    item_weights : float32 (n_items, K, hidden)
    visible_biases, hidden_biases : float32 (n_items, K) and (hidden,)

    Raises
    ------
    ValueError : a parameter out of range, a kernel that does not fit the device
    gpumf.gpu.DeviceError : device='cuda' or 'host' where there is none
    """

    _trainers: ClassVar = {"sequential": Sequential, "parallel": Parallel, "thesis": Thesis, "fast": Fast}
    _arrays = "user_hidden", "item_weights", "visible_biases", "hidden_biases"
    _remedy = "lower learning_rate"

    def __init__(
        self,
        hidden=128,
        *,
        learning_rate=0.02,
        gibbs_steps=1,
        batch=100,
        momentum=0.0,
        weight_decay=0.0,
        average="item",
        schedule=_CONSTANT,
        levels=None,
        kernel=None,
        weights="device",
        device="auto",
        seed=0,
    ):
        if not (isinstance(hidden, int | np.integer) and 1 <= hidden <= MAX_HIDDEN):
            raise ValueError(f"hidden must be an integer from 1 to {MAX_HIDDEN}, not {hidden!r}")
        if not (np.isfinite(learning_rate) and learning_rate > 0):
            raise ValueError(f"learning_rate must be finite and positive, not {learning_rate!r}")
        if not (isinstance(batch, int | np.integer) and batch >= 1):
            raise ValueError(f"batch must be a positive integer, not {batch!r}")
        if not 0 <= momentum < 1:
            raise ValueError(f"momentum must lie in [0, 1), not {momentum!r}")
        if not (np.isfinite(weight_decay) and weight_decay >= 0):
            raise ValueError(f"weight_decay must be finite and not negative, not {weight_decay!r}")
        if average not in ("batch", "item"):
            raise ValueError(f"average must be 'batch' or 'item', not {average!r}")
        if levels is not None and not (isinstance(levels, int | np.integer) and 2 <= levels <= MOST_LEVELS):
            raise ValueError(f"levels must be an integer from 2 to {MOST_LEVELS}, not {levels!r}")
        if weights not in ("device", "transfer"):
            raise ValueError(f"weights must be 'device' or 'transfer', not {weights!r}")
        self.hidden, self.batch = int(hidden), int(batch)
        self.learning_rate, self.momentum, self.weight_decay = map(float, (learning_rate, momentum, weight_decay))
        self.gibbs_steps = _checked_steps(gibbs_steps)
        self.average, self.weights = average, weights
        self.schedule = schedules.made(schedule)
        self.levels = None if levels is None else int(levels)
        super().__init__(kernel=kernel, device=device, seed=seed)
        if weights == "transfer" and not self._trainers[self.kernel].transfers:
            raise ValueError(f"the kernel {self.kernel!r} keeps the weights where it runs; it takes no 'transfer'")

    @property
    def _parameters(self):
        names = "hidden", "learning_rate", "gibbs_steps", "batch", "momentum", "weight_decay", "average", "levels"
        own = {name: getattr(self, name) for name in names}
        return super()._parameters | own | {"schedule": schedules.described(self.schedule)}

    def steps_in(self, epoch):
        """T, the steps of Gibbs sampling in an epoch, counted from 0."""
        if isinstance(self.gibbs_steps, int):
            return self.gibbs_steps
        return [steps for first, steps in self.gibbs_steps if first <= epoch][-1]

    @property
    def level_values(self):
        """The rating that each level stands for, float32 (K,), after `fit`."""
        return level_values(self.scale, self.n_levels)

    # Training

    def _check_warm(self, train):
        super()._check_warm(train)
        if (scale := _scale_of(train)) != self.scale:
            raise ValueError(f"warm_start needs ratings on the scale {self.scale} as before, not on {scale}")

    def _set_training(self, train):
        super()._set_training(train)
        self.scale = _scale_of(train)
        if not self.scale[0] < self.scale[1]:
            raise ValueError(f"a model of ratings needs two different ones; all are {self.scale[0]}")
        self.n_levels = self.levels or n_levels_of(train, self.scale)

    def _shapes(self, users, items, found):
        levels = found[1][1:2]  # as many as the file's weights have, and the same in both arrays
        if levels and not 2 <= levels[0] <= MOST_LEVELS:
            raise ValueError(f"it has {levels[0]} levels, not 2 to {MOST_LEVELS}")
        return (users, self.hidden), (items, *levels, self.hidden), (items, *levels), (self.hidden,)

    def _keep(self, arrays):
        super()._keep(arrays)
        self.n_levels = self.item_weights.shape[1]

    def _initial(self, train):
        rng = np.random.default_rng(self.seed)
        weights = rng.standard_normal((train.n_items, self.n_levels, self.hidden), np.float32) * _SMALL
        user_hidden = np.zeros((train.n_users, self.hidden), np.float32)
        biases = level_logarithms(train.items, to_levels(train.values, self.scale, self.n_levels), weights.shape[:2])
        return user_hidden, weights, biases, np.zeros(self.hidden, np.float32)

    def _train(self, train, arrays, *rest):
        if arrays[1].shape[1] != self.n_levels:
            raise ValueError(f"warm_start needs {arrays[1].shape[1]} levels as before, not {self.n_levels}")
        return super()._train(train, arrays, *rest)

    def _epoch(self, trainer, number, rows):
        trainer.learning_rate = self.schedule.rate(self.learning_rate, [row["rmse"] for row in rows])
        trainer.epoch(number)

    # Use

    def _known(self, users, items):
        return self._item_known[items]

    def _errors(self, ratings):
        known = self._known(ratings.users, ratings.items)
        return ExpectationErrors(ratings, known, self.mean, self.level_values, self.hidden, self.device)

    def _predicted(self, users, items):
        learned = self.user_hidden, self.item_weights, self.visible_biases, self.level_values
        return expectations(np.ravel(users), np.ravel(items), *learned).reshape(users.shape)

    def _ranking_without(self, seen, k):
        learned = self.user_hidden, self.item_weights, self.visible_biases, self.level_values
        return ExpectationRanking(*learned, self._item_known, seen)


def _scale_of(train):
    """(lowest, highest) rating that is possible, or where that is not known, that there is."""
    return train.scale or (float(train.values.min()), float(train.values.max()))


def level_logarithms(items, levels, shape):
    """ln of the share of each level among an item's ratings, float32 of this shape (n_items, K).

    Each item counts one more rating, spread over the levels as all ratings are, and those one more of each level: no
    share is zero, and few ratings say little.
    """
    n_items, n_levels = shape
    counts = np.bincount(items * np.int64(n_levels) + levels, minlength=n_items * n_levels).reshape(shape)
    overall = counts.sum(axis=0) + 1.0
    shares = counts + overall / overall.sum()
    return np.log(shares / shares.sum(axis=1, keepdims=True)).astype(np.float32)


def _checked_steps(gibbs_steps):
    """T as an int, or a schedule as a tuple of pairs."""

    def positive(steps):
        return isinstance(steps, int | np.integer) and steps >= 1

    if positive(gibbs_steps):
        return int(gibbs_steps)
    try:
        pairs = tuple((int(first), int(steps)) for first, steps in gibbs_steps)
    except TypeError:
        pairs = ()
    firsts = [first for first, _ in pairs]
    if not (
        pairs and firsts[0] == 0 and firsts == sorted(set(firsts)) and all(positive(steps) for _, steps in pairs)
    ):
        raise ValueError(
            f"gibbs_steps must be a positive integer or ascending pairs (first epoch, steps) from epoch 0 on, "
            f"not {gibbs_steps!r}"
        )
    return pairs
