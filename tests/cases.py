"""A model at work on a training set from a start, and what the float64 reference makes of the same.

Case(ALS(16, solver="cumf_lu", device="cuda"), ratings).assert_close(1e-4)
"""

from dataclasses import replace
from functools import partial
from itertools import groupby

import numpy as np

import references
from gpumf import ALS, RBM, SGD, ImplicitALS
from gpumf._util.counter_rng import splitmix64
from gpumf.backends.cpu import reference
from gpumf.solvers.rbm_divergence import batch_order
from gpumf.solvers.sgd_base import draw_key
from gpumf.solvers.sgd_cu2rec import first_user
from gpumf.solvers.sgd_hogwild import Hogwild
from gpumf.solvers.sgd_ordered import shuffled_diagonals
from gpumf.solvers.sgd_partition import shuffled_blocks
from support import hashed, random_factors, to_numpy

HALF = 0.5
"""Of an epoch of ALS: the users alone."""
RATES = {
    "learning_rate": 0.02,
    "regularization": 0.03,
    "item_regularization": 0.05,
    "bias_regularization": 0.07,
    "item_bias_regularization": 0.09,
}
"""Of SGD, all different, so that none can stand for another."""


class Case:
    """A model, with its kernel, options and device, on a training set from a start.

    Parameters
    ----------
    model : ALS, ImplicitALS, SGD or RBM
    train : Ratings
    start : arrays as of `model.trainer`; by default random ones, and the users of ALS poisoned
    decay : of the learning rate of SGD, an epoch
    **parts : of the trainer
    """

    def __init__(self, model, train, start=None, decay=0.5, **parts):
        self.model, self.given, self.decay, self.parts = model, train, decay, parts
        biases = getattr(model, "biases", False)
        self.train = replace(train, values=train.values - np.float32(train.mean)) if biases else train
        self.start = start or _STARTS[type(model)](model, train)

    def make_solver(self):
        """The model's kernel at the start."""
        return self.model.make_solver(self.train, *self.start, **self.parts)

    def rate(self, epoch):
        return self.model.learning_rate * self.decay**epoch

    def run(self, epochs=2):
        """What is learned in so many epochs, or in HALF of one."""
        trainer = self.make_solver()
        if epochs == HALF:
            trainer.solve_users()
        for number in range(int(epochs)):
            if isinstance(self.model, SGD):
                trainer.learning_rate = self.rate(number)
            trainer.epoch(number)
        return to_numpy(self.model.device, *trainer.arrays())

    def replay(self, epochs=2):
        """The same, float64."""
        return _REPLAYS[type(self.model)](self, epochs)

    def assert_close(self, tolerance, epochs=2, actual=None, floor=0.0):
        """That what is learned is off by at most so many times its length, and each row by twice as many of its own.

        Parameters
        ----------
        tolerance : number, or one for each array
        epochs : as of `run`
        actual : what was learned; by default `run(epochs)`
        floor : the least length of a row, in mean ones, that its error is compared with
        """
        actual, expected = self.run(epochs) if actual is None else actual, self.replay(epochs)
        tolerances = np.broadcast_to(tolerance, len(expected))
        names = self.model._arrays[: len(expected)]  # an RBM has more, which its solver does not learn
        for name, a, e, most in zip(names, actual[: len(expected)], expected, tolerances, strict=True):
            assert a.shape == e.shape and np.isfinite(a).all(), (self, name)
            lengths, off = _lengths(e), _lengths(a - e)
            assert np.linalg.norm(off) <= most * np.linalg.norm(lengths), (self, name, off.max())
            lengths = np.maximum(lengths, floor * lengths.mean())
            worst = np.argmax(off - 2 * most * lengths)
            assert off[worst] <= 2 * most * lengths[worst], (self, name, worst, off[worst], lengths[worst])

    def assert_fits_close(self, tolerance, floor=0.0):
        """`assert_close` of an epoch by `fit`, of one more by a second call, and of one from the start again."""
        model, train = self.model, self.given
        model.fit(train, 1)
        case = Case(model, train, model._initial(train), decay=1)
        case.assert_close(tolerance, 1, model._learned, floor)
        case.assert_close(tolerance, 2, model.fit(train, 1, warm_start=True)._learned, floor)
        case.assert_close(tolerance, 1, model.fit(train, 1)._learned, floor)

    def __repr__(self):
        model = self.model
        return f"{type(model).__name__}({model.solver} on {model.device}, {getattr(model, 'options', '')})"


def _lengths(array):
    rows = array.reshape(len(array) if array.ndim > 1 else 1, -1)
    return np.linalg.norm(rows, axis=1)


# ALS


HALVES = "tensor_core", "warpgroups", "wmma_simple", "preconditioned_cg"
"""Solvers that gather factors in half precision."""
_TOLERANCES = dict.fromkeys((*HALVES, "cumf_cg"), 5e-3) | {"cumf_cg_fp16": 5e-2}


def als_tolerance(kernel):
    """Relative errors that a kernel may have: conjugate gradient ends at a residual, not at the solution.

    A in FP16 is off by up to 2^-12 of the largest entry on its diagonal; lambda n bounds what comes of that, and
    plain lambda does not.
    """
    return _TOLERANCES.get(kernel, 1e-4)


HU = {"unobserved_weight": 1.0, "regularization_exponent": 0.0}
"""The objective of Hu et al. 2008."""


def als_case(device, kernel, ratings, factors, alpha=None, regularization=0.05, start=None, **options):
    """A `Case` of ALS, without biases unless asked for, or with an alpha of ImplicitALS.

    Conjugate gradient goes on to its end.
    """
    make = partial(ALS, biases=False) if alpha is None else partial(ImplicitALS, alpha=alpha, **HU)
    options = {"cg_steps": factors + 50, "cg_tolerance": 1e-7} | options
    return Case(make(factors, regularization, solver=kernel, device=device, **options), ratings, start)


def _als_start(model, train, seed=0):
    poison = np.full((train.n_users, model.columns), 7.0 if model.solver in _TOLERANCES else np.nan, np.float32)
    items = random_factors(train.n_items, model.columns, seed)
    if model.biases:
        items[:, -2] = 1
    return poison, items


def _als_replay(case, epochs):
    model = case.model
    if model.alpha is None:
        how = {"weighted": model.weighted}
        solve = partial(reference.als_update, regularization=model.regularization, **how)
    else:
        given = model.regularization, model.alpha, model.unobserved_weight, model.regularization_exponent
        names = "regularization", "alpha", "unobserved_weight", "exponent"
        solve = partial(reference.implicit_update, **dict(zip(names, given, strict=True)))
    of_users, of_items = ({"pinned": -1}, {"pinned": -2}) if model.biases else ({}, {})
    users, items = case.start
    if epochs == HALF:
        return solve(case.train.by_user, items, **of_users), items
    for _ in range(epochs):
        users = solve(case.train.by_user, items, **of_users)
        items = solve(case.train.by_item, users, **of_items)
    return users, items


# SGD


def _sgd_start(model, train):
    p, q = (random_factors(n, model.columns, n) for n in (train.n_users, train.n_items))
    if model.biases:
        p[:, -1] = q[:, -2] = 1
    return p, q


def sgd_case(device, kernel, ratings, factors, biases=False, **options):
    """A `Case` of SGD at RATES, unless the options say otherwise."""
    return Case(SGD(factors, biases=biases, solver=kernel, device=device, **RATES | options), ratings)


def order_of(model, train, epoch=0):
    """The order in which one worker makes the updates of an epoch: [(position of the rating, what moves)]."""
    if model.solver.startswith("ordered"):
        side = model.options["side"]
        *_, order, offsets = shuffled_blocks(train, side, model.seed, values=np.arange(train.nnz))
        diagonals = shuffled_diagonals(side, model.seed, epoch)
        return [(k, "both") for d in diagonals for k in order[offsets[d * side] : offsets[(d + 1) * side]]]
    scheme = Hogwild if model.solver == "sequential" else model.solver_class
    return [(rating, moves) for *_, rating, moves in scheme.order(model.hyperparameters, train, epoch)]


def sgd_steps(model, rate):
    """Learning rate, and lambda of users, items and their biases, as the reference takes them."""
    biases = model.bias_regularization, model.item_bias_regularization
    return rate, model.regularization, model.item_regularization, *biases


def _sgd_replay(case, epochs):
    model, train, (p, q) = case.model, case.train, case.start
    for epoch in range(epochs):
        steps = sgd_steps(model, case.rate(epoch))
        if model.solver == "cu2rec":
            count = model.solver_class.steps_an_epoch(train)
            for step in range(epoch * count, (epoch + 1) * count):
                first = first_user(step, train.n_users) if model.options["striding"] else 0
                how = draw_key(model.hyperparameters), step, first, model.options["conflict"]
                p, q = reference.cu2rec_step(train, p, q, steps, model.bias_kind, *how)
            continue
        stored, rates = np.float16 if model.solver == "cumf_sgd" else None, rates_of(model, train, epoch)
        for moves, part in groupby(order_of(model, train, epoch), key=lambda update: update[1]):
            order, sides = [rating for rating, _ in part], moves if moves == "both" else f"{moves}s"
            p, q = reference.sgd_replay(train, order, p, q, steps, model.bias_kind, sides, stored, rates)
    return p, q


def rates_of(model, train, epoch):
    """Of users and of items in units of the model's, where it has the option `row_rates`."""
    if not model.options.get("row_rates"):
        return None
    width = 4 * model.factors**0.5
    return [(1 + n * (epoch + 0.5) / width) ** -0.5 for n in (train.user_counts, train.item_counts)]


# RBM

MARGIN = 1e-5
"""From a boundary of a draw, beyond which rounding cannot change what is drawn."""


def _rbm_start(model, train):
    """Weights that are not small."""
    model._set_training(train)
    user_hidden, weights, visible_biases, _, *others = model._initial(train)
    hidden_biases = np.random.default_rng(model.seed).standard_normal(model.hidden).astype(np.float32)
    return user_hidden, (weights * 50).astype(np.float32), visible_biases, hidden_biases, *others


def uniform(key, draws):
    """Draws of a stream, in [0, 1)."""
    with np.errstate(over="ignore"):
        return (splitmix64(key + np.asarray(draws, np.uint64)) >> np.uint64(40)) * 2.0**-24


def unit_draws(model, batch, key):
    """Of the hidden units of a batch's users."""
    units = np.arange(model.hidden, dtype=np.uint64)
    return uniform(key, batch.users[:, None].astype(np.uint64) * np.uint64(model.hidden) + units)


def as_binary(batch, shape):
    """The batch's ratings as zeros and ones, (users, *shape), and which of its users each entry is of."""
    columns = np.repeat(np.arange(len(batch.users)), np.diff(batch.indptr))
    chosen = np.zeros((len(batch.users), *shape))
    chosen[columns, batch.items, batch.levels] = 1
    return chosen, columns


def _rbm_gradients(model, batch, keys, weights, visible_biases, hidden_biases):
    """`references.contrastive_divergence` on a batch and its draws; the reconstruction as levels of its entries."""
    chosen, columns = as_binary(batch, weights.shape[:2])
    draws = []
    for hidden_key, visible_key in keys:
        visible = np.zeros(chosen.shape[:2])
        visible[columns, batch.items] = uniform(visible_key, np.arange(len(batch.items)))
        draws.append((unit_draws(model, batch, hidden_key), visible))
    (*hidden, reconstruction), gradients = references.contrastive_divergence(
        chosen, weights, visible_biases, hidden_biases, draws
    )
    for shift in (-MARGIN, MARGIN):
        shifted = [(units + shift, visible + shift) for units, visible in draws]
        (*_, same), _ = references.contrastive_divergence(chosen, weights, visible_biases, hidden_biases, shifted)
        assert np.array_equal(same, reconstruction), "another seed: a draw is within rounding of a boundary"
    return (*hidden, reconstruction[columns, batch.items].argmax(axis=-1)), gradients


def rbm_case(device, kernel, ratings, hidden, seed=0, **options):
    """A `Case` of an RBM, some users with several segments and some with one."""
    parts = {"longest": 4} if kernel == "fast" else {}
    return Case(
        RBM(hidden, **{"biases": False, "solver": kernel, "device": device, "seed": seed} | options), ratings, **parts
    )


class Machine:
    """What a batch after another makes of an RBM, float64: `learned`, weights and both biases."""

    def __init__(self, model, start):
        self._model, self.learned = model, [a.astype(np.float64) for a in start[1:4]]
        self._changes = [np.zeros_like(a) for a in self.learned]

    def update(self, batch, keys):
        """Take a batch; returns p(h | v), p(h | v') and the reconstruction."""
        model, n_items = self._model, len(self.learned[0])
        statistics, gradients = _rbm_gradients(model, batch, keys, *self.learned)
        counts = np.bincount(batch.items, minlength=n_items)
        over = np.maximum(counts, 1) if model.average == "item" else np.full(n_items, len(batch.users))
        over = over[:, None, None], over[:, None], len(batch.users)
        for k, touched in enumerate((counts > 0, counts > 0, slice(None))):
            decay = model.weight_decay if k == 0 else 0.0
            step = model.learning_rate * (gradients[k] / over[k] - decay * self.learned[k])
            self._changes[k][touched] = model.momentum * self._changes[k][touched] + step[touched]
            self.learned[k][touched] += self._changes[k][touched]
        return statistics

    def hidden(self, train):
        """p(h | v) of all users."""
        lowest, highest = train.scale
        levels = np.rint((train.values - lowest) / (highest - lowest) * (self._model.n_levels - 1)).astype(int)
        chosen = np.zeros((train.n_users, train.n_items, self._model.n_levels))
        chosen[train.users, train.items, levels] = 1
        return references.rbm_hidden(chosen, self.learned[0], self.learned[2])


def rbm_keys(model, batches, epoch, number):
    """The keys of the draws of hidden and visible units in each Gibbs step of a batch, with Python's integers."""
    first = int(batches.batch_users[number])
    for step in range(model.steps_in(epoch)):
        stream = hashed(model.seed) + 2 * (epoch * 2**16 + step)
        visible = hashed(stream + 1) + int(batches.indptr[first])
        yield np.uint64(hashed(stream)), np.uint64(visible % 2**64)


def _rbm_replay(case, epochs):
    machine, batches = Machine(case.model, case.start), case.make_solver().batches
    for epoch in range(epochs):
        for number in batch_order(case.model.seed, epoch, len(batches)):
            machine.update(batches[number], list(rbm_keys(case.model, batches, epoch, number)))
    return machine.hidden(case.train), *machine.learned


_STARTS = {ALS: _als_start, ImplicitALS: _als_start, SGD: _sgd_start, RBM: _rbm_start}
_REPLAYS = {ALS: _als_replay, ImplicitALS: _als_replay, SGD: _sgd_replay, RBM: _rbm_replay}
