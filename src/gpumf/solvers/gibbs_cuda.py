"""Gibbs sampling on a GPU: the systems of cuMF's ALS, and rows drawn with their Cholesky factors."""

from dataclasses import fields
from typing import ClassVar

import numpy as np

from gpumf import backends
from gpumf.backends import sources
from gpumf.ratings.damped import mean_of
from gpumf.solvers.als_base import ALSHyperparameters, ALSSolver
from gpumf.solvers.als_cumf import Cumf, CumfCholesky, Direct
from gpumf.solvers.base import Problem, Version
from gpumf.solvers.gibbs import Gibbs

sources.declare("als/cumf/draw.cu", FACTORS=range(1, CumfCholesky.max_factors + 1), IN_GLOBAL=range(2))


class _Rows(Direct, Cumf, ALSSolver):
    """Draws rows where `CumfCholesky` solves them; options as there."""

    solver_source, entry = "als/cumf/draw.cu", "draw_rows"
    copies = 1

    @classmethod
    def solver_defines(cls, hyper):
        return {"IN_GLOBAL": super().solver_defines(hyper)["IN_GLOBAL"]}

    @classmethod
    def compile(cls, hyper, load="coalesced"):
        cls.check(hyper)
        kernels = super().compile(hyper, load)
        defines = {"FACTORS": hyper.columns} | cls.solver_defines(hyper)
        return kernels | {"errors": backends.device(hyper.device).kernel(cls.solver_source, "row_errors", **defines)}

    def __init__(self, problem, **options):
        super().__init__(problem, **options)
        self._every = {n: self._gram(n) for n in {len(self._p), len(self._q)}}
        for side in self._every.values():
            side.batches[0].matrices[...] = 0  # kernels leave out what is beyond the factors; all of it is copied
        self._of_items = self._device.empty(len(self._q), np.float64)

    def moments(self, factors):
        """As `gpumf.backends.cpu.gibbs.moments`: A and b of a row with all columns, each of a rating of 1."""
        side = self._every[len(factors)]
        (batch,) = side.batches
        self.get_hermitian(side, batch, factors)
        tiles, f = map(self._device.to_numpy, (batch.matrices, batch.biases)), self._factors
        matrix, total = (one.astype(np.float64) for one in tiles)
        products = np.zeros((-(-f // 16) * 16,) * 2)
        for tile, i, j in zip(matrix.reshape(-1, 16, 16), *np.tril_indices(len(products) // 16), strict=True):
            products[16 * i : 16 * i + 16, 16 * j : 16 * j + 16] = tile
        below = np.tril(products[:f, :f])
        return total, below + np.tril(below, -1).T

    def draw(self, side, fixed, drawn, **given):
        """given : of the kernel, by name"""
        self._given = given
        self._solve(side, fixed, drawn)

    def solve(self, batch, solved):
        rows, systems = batch.rows, {name: getattr(batch, name) for name in ("matrices", "biases", "indptr")}
        n_rows = rows.stop - rows.start
        blocks, threads, shared, further = self._solver(batch, n_rows)
        further |= self._given | {"n_rows": n_rows, "first": rows.start}
        self._kernels["solve"](blocks, threads, shared=shared, **systems, solved=solved[rows], **further)
        if solved is self._q:
            self._kernels["errors"](n_rows, threads, **systems, solved=solved[rows], errors=self._of_items[rows])

    def errors(self):
        """Of the items that were drawn last, sum (r - p . q)^2 less sum r^2."""
        return float(self._device.to_numpy(self._of_items).sum())


class OnDevice:
    """A `Gibbs` whose rows are drawn on a GPU and priors on the host; noise is that of the CPU bit for bit.

    rows : of the problem of `least_squares`, a solver with `draw`, `moments` and `errors` as of `_Rows`
    """

    device, from_device = "cuda", True
    rows: ClassVar[type]

    @classmethod
    def compile(cls, hyper):
        cls.rows.compile(least_squares(hyper))

    def __init__(self, problem):
        hyper, train, (users, items, *others) = problem
        self._device = device = backends.device(hyper.device)
        host = tuple(np.array(device.to_numpy(one)) for one in others)
        super().__init__(problem._replace(start=(users, items, *host)))
        self._rows = self.rows(Problem(least_squares(hyper), train, (users, items)))
        self._users, self._items = self._rows._users, self._rows._items
        self._p, self._q = self._rows.factors()
        self._square = train.nnz * mean_of(train.values, train.device, squared=True)

    def _moments(self, drawn):
        return self._rows.moments(drawn)

    def _draw_rows(self, side, fixed, drawn, prior, stream):
        deviation = float(self._deviation[0])
        prior = self._device.array(prior * np.float32(deviation**2))
        self._rows.draw(side, fixed, drawn, prior=prior, deviation=deviation, key=stream)

    def _squares(self):
        return self._square + self._rows.errors()

    def synchronize(self):
        self._device.synchronize()


def least_squares(hyper):
    """The hyperparameters of the least squares that `_Rows` begins with, of those of `Gibbs`."""
    names = {"solver": hyper.solver, "device": hyper.device, "seed": hyper.seed, "factors": hyper.factors}
    given = {"columns": hyper.factors, "biases": False, "regularization": 0.0, "weighted": False}
    others = {one.name for one in fields(ALSHyperparameters)} - names.keys() - given.keys()
    return ALSHyperparameters(**names, **given, **dict.fromkeys(others))


class GibbsCuda(OnDevice, Gibbs):
    """The systems of cuMF's ALS in FP32.

    Rows are drawn as many at a time as their systems, 2 f^2 bytes each, fit three quarters of the free memory.
    """

    versions: ClassVar = {"": Version("Gibbs sampling, GPU", "black", "-D")}
    rows, max_factors = _Rows, CumfCholesky.max_factors
