"""What every version of ALS does in an epoch, and the versions that run on the CPU."""

from abc import abstractmethod

import numpy as np

from gpumf.cpu import als as cpu_als
from gpumf.models.base import Trainer


class HalfSweeps(Trainer):
    """An epoch is two half-sweeps: the users' factors from the items', then the items' from the users'."""

    def epoch(self, number):
        self.solve_users()
        self.solve_items()

    def solve_users(self):
        self._solve(self._users, self._q, self._p)

    def solve_items(self):
        self._solve(self._items, self._p, self._q)

    @abstractmethod
    def _solve(self, rows, fixed, solved):
        """Overwrite `solved` with the solutions of the rows' normal equations."""

    def factors(self):
        return self._p, self._q


class Sequential(HalfSweeps):
    """Numba on one core."""

    parallel = False

    @classmethod
    def compile(cls, model):
        return cpu_als.half_sweep(model.factors, cls.parallel)

    def __init__(self, model, train, user_factors, item_factors):
        self._half_sweep = self.compile(model)
        self._users, self._items = train.by_user, train.by_item
        self._p, self._q = user_factors.copy(), item_factors.copy()
        self._ridge = np.float32(model.regularization), model.weighted

    def _solve(self, rows, fixed, solved):
        self._half_sweep(rows.indptr, rows.indices, rows.values, fixed, solved, *self._ridge)


class Parallel(Sequential):
    """Numba, rows over all cores."""

    parallel = True
