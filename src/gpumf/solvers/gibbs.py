"""Gibbs sampling of a factorization with normal factors (Salakhutdinov and Mnih 2008)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gpumf._util import threads
from gpumf._util.counter_rng import splitmix64
from gpumf.backends.cpu import gibbs
from gpumf.backends.cpu.metrics import sum_errors
from gpumf.ratings.synthetic.numbers import normals
from gpumf.solvers.base import MAX_FACTORS, Hyperparameters, Solver, Version

_STREAMS = 8  # of random numbers an epoch: two for each prior, one for each side's factors, one for the precision
_BETA = 2.0  # rows of mean zero that the prior of a mean counts as


@dataclass(frozen=True)
class GibbsHyperparameters(Hyperparameters):
    """Those of `gpumf.BayesianMF`; see its parameters."""

    factors: int


class Gibbs(Solver):
    """An epoch draws, each given all else, the users' prior and factors, the items' and the precision of ratings.

    The problem starts from user and item factors, float32 (rows, f), the users' prior and the deviation of ratings,
    float32 (1,), of which the factors and the deviation count. The ratings are standardized.
    """

    layout: ClassVar = ("by_user", "by_item")
    orders = layout
    versions: ClassVar = {"": Version("Gibbs sampling", "indigo", "-")}
    max_factors = MAX_FACTORS

    @classmethod
    def compile(cls, hyper):
        drawn_prior(np.zeros(1), np.zeros((1, 1)), 1, np.uint64(0), np.uint64(1))
        return gibbs.row_drawer(hyper.factors)

    def __init__(self, problem):
        hyper, self._train, start = problem
        self._p, self._q, self._prior, self._deviation = (array.copy() for array in start)
        self._users, self._items = self._train.by_user, self._train.by_item
        self._draw, self._key = self.compile(hyper), splitmix64(np.uint64(hyper.seed))

    def epoch(self, number):
        with np.errstate(over="ignore"):
            streams = splitmix64(self._key + np.uint64(_STREAMS) * np.uint64(number) + np.arange(7, dtype=np.uint64))
        with threads.one_blas_thread():  # whose results may depend on its threads
            # A GPU draws the users while the host draws the items' prior, which does not depend on them.
            of_users, of_items = self._moments(self._p), self._moments(self._q)
            self._prior = drawn_prior(*of_users, len(self._p), *streams[:2])
            self._draw_rows(self._users, self._q, self._p, self._prior, streams[2])
            prior = drawn_prior(*of_items, len(self._q), *streams[3:5])
            self._draw_rows(self._items, self._p, self._q, prior, streams[5])
        # Of Gamma(1 + n / 2, 1 + sum e^2 / 2), by its rate: the prior is one rating's weight.
        (precision,) = gammas(np.array([1 + self._train.nnz / 2]), streams[6]) / (1 + self._squares() / 2)
        self._deviation = np.array([precision**-0.5], np.float32)

    def arrays(self):
        return self._p, self._q, self._prior, self._deviation

    _moments = staticmethod(gibbs.moments)

    def _draw_rows(self, rows, fixed, drawn, prior, stream):
        noise = normals(stream, *drawn.shape).astype(np.float32)
        precision = 1 / float(self._deviation[0]) ** 2
        self._draw(rows.indptr, rows.indices, rows.values, fixed, prior, noise, drawn, precision)

    def _squares(self):
        """What the factors leave of the ratings: the sum of squares."""
        train, unbounded = self._train, np.float32(np.inf)
        return sum_errors(train.users, train.items, train.values, self._p, self._q, -unbounded, unbounded)[1]


def drawn_prior(total, products, n, normal_stream, gamma_stream):
    """Draw the mean mu and the precision matrix Lambda of the normal distribution of n rows of f factors.

    Given the rows they are, with the hyper-prior mu_0 = 0, beta_0 = 2, nu_0 = f, W_0 = I, from

        Lambda ~ Wishart(W, n + f),    mu ~ N(sum v / (2 + n), ((2 + n) Lambda)^-1)
        W^-1 = I + sum v v^T - (sum v) (sum v)^T / (2 + n)

    (Salakhutdinov and Mnih 2008, equation 14). Lambda is drawn by Bartlett's decomposition.

    total, products : float64 (f,) and (f, f), the sums of v and of v v^T over the rows
    n : int
    normal_stream, gamma_stream : uint64, of random numbers
    Returns float32 (f, f + 1) : Lambda and, the last column, Lambda mu
    """
    f = len(total)
    z = normals(normal_stream, f + 1, f)
    scale = np.linalg.inv(np.eye(f) + products - np.outer(total, total) / (_BETA + n))
    bartlett = np.tril(z[:f], -1) + np.diag(np.sqrt(2 * gammas((n + f - np.arange(f)) / 2, gamma_stream)))
    root = np.linalg.cholesky((scale + scale.T) / 2) @ bartlett
    precision = root @ root.T
    mean = total / (_BETA + n) + np.linalg.solve(root.T, z[f]) / np.sqrt(_BETA + n)
    return np.column_stack([precision, precision @ mean]).astype(np.float32)


def gammas(shapes, stream):
    """Draw from gamma distributions of rate 1, float64 of the shape of `shapes`, by their inverse functions."""
    from scipy.special import gammaincinv

    with np.errstate(over="ignore"):
        hashes = splitmix64(np.uint64(stream) + np.arange(len(shapes), dtype=np.uint64))
    return gammaincinv(shapes, ((hashes >> np.uint64(11)) + 0.5) * 2.0**-53)
