"""Each rating once, on the CPU: src/gpumf/backends/cpu/native/sgd.cpp."""

from typing import ClassVar

import numpy as np

from gpumf._util.counter_rng import random_order, splitmix64
from gpumf.backends import compile
from gpumf.backends.cpu import sgd as cpu_sgd
from gpumf.solvers.base import Version
from gpumf.solvers.options import MAX_BLOCKS_A_SIDE, Option
from gpumf.solvers.sgd_base import Descent, kernel_steps
from gpumf.solvers.sgd_partition import shuffled_blocks


def shuffled_diagonals(side, seed, number):
    """The order in which epoch `number` takes the diagonals of blocks, int64 (side,).

    In the same order each time, the same blocks would have the last word each time.
    """
    with np.errstate(over="ignore"):
        return random_order(side, splitmix64(splitmix64(np.uint64(seed)) + np.uint64(number)))


def row_rates(counts, factors, epochs):
    """The rates of rows with so many ratings after so many epochs, in units of the model's: 1 / sqrt(1 + n t / w).

    AdaGrad's rate, as Chin et al. 2015 (A learning-rate schedule for stochastic gradient methods to matrix
    factorization) have it: one for a whole row, by the sum of its gradients' mean squares so far. Here these are all
    1 / w, w = 4 sqrt(f) of f factors without biases, so that the rate is a function of the number of ratings alone:
    no update writes it, and a training that is interrupted goes on as if it had not been. Where error and vector have
    length 1, w is f; with that, the first epochs of many factors go too far where rows have many ratings. Like theirs
    it is for rates near 0.1 on ratings with a standard deviation near 1.

    counts : int (rows,), ratings of each row
    factors : int f
    epochs : float t, how many have gone by: half of the one that begins is counted
    Returns float32 (rows,)
    """
    return (1 / np.sqrt(1 + counts * (epochs / (4 * np.sqrt(factors))))).astype(np.float32)


_ROW_RATES = {"row_rates": Option(False, choices=(True, False))}  # whether rows have rates of their own, see above


class _Shuffled:
    """Each rating once an epoch, in blocks whose rows stay in the cache.

    The ratings of a block are shuffled once; its diagonal has its turn by chance, anew each epoch.
    """

    parallel: bool
    layout: ClassVar[tuple[str, ...]] = ("shuffled_blocks",)

    @classmethod
    def compile(cls, hyper):
        return cpu_sgd.ordered(hyper.columns, hyper.bias_kind, cls.parallel)

    def __init__(self, problem):
        hyper, train, (user_factors, item_factors) = problem
        self._ordered = self.compile(hyper)
        self._side, self._seed = hyper.options["side"], hyper.seed
        order = "shuffled_blocks", self._side, self._seed
        *self._ratings, self._offsets = train._once(order, lambda: shuffled_blocks(train, *order[1:]))
        self._p, self._q = compile.aligned(user_factors), compile.aligned(item_factors)
        self._by_rows = hyper.options["row_rates"]
        self._counts = train.user_counts, train.item_counts
        self._factors = hyper.factors
        self.set_steps(hyper)

    def epoch(self, number):
        steps = kernel_steps(self.learning_rate, self.regularization)
        diagonals = shuffled_diagonals(self._side, self._seed, number)
        rates = self._by_rows and [row_rates(counts, self._factors, number + 0.5) for counts in self._counts]
        self._ordered(*self._ratings, self._p, self._q, steps, self._offsets, diagonals, rates or None)

    def set_counts(self, users, items):
        self._counts = users, items


class Ordered(_Shuffled, Descent):
    """Each rating once an epoch, on one thread."""

    parallel = False
    versions: ClassVar = {"": Version("1 thread, shuffled", "indigo", "--")}
    # side : blocks of a side; of a diagonal's, all may be worked on at the same time
    options: ClassVar = {"side": Option(8, most=MAX_BLOCKS_A_SIDE), **_ROW_RATES}


class OrderedParallel(_Shuffled, Descent):
    """The same on all threads, diagonal by diagonal of blocks: with the same `side` the same factors, bit for bit."""

    parallel = True
    versions: ClassVar = {"": Version("all threads, shuffled", "rose", "--")}
    options: ClassVar = {"side": Option(32, most=MAX_BLOCKS_A_SIDE), **_ROW_RATES}
