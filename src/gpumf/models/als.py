"""Alternating least squares."""

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from gpumf import gpu
from gpumf.cpu import als as cpu_als
from gpumf.models.base import Factorization, KernelTrainer, Trainer, lanes, launch_shape


class _HalfSweeps(Trainer):
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


class _Sequential(_HalfSweeps):
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


class _Parallel(_Sequential):
    """Numba, rows over all cores."""

    parallel = True


class _ThesisShared(KernelTrainer, _HalfSweeps):
    """kernels/als/thesis.cu: a half-warp a row, both symmetric matrices in shared memory."""

    source, entry = "als/thesis.cu", "thesis_shared"

    def __init__(self, model, train, user_factors, item_factors):
        device = self._device = gpu.device(model.device)
        self._kernel = self.compile(model)
        self._users, self._items = (
            [device.array(a) for a in (rows.indptr, rows.indices, rows.values)]
            for rows in (train.by_user, train.by_item)
        )
        self._p, self._q = device.array(user_factors), device.array(item_factors)
        self._ridge = np.float32(model.regularization), np.int32(model.weighted)
        self._threads = model.threads

    @staticmethod
    def shared_bytes(factors, block=128):
        """Dynamic shared memory of a block: two packed matrices and a column for each of its groups."""
        return block // lanes(factors) * (factors * (factors + 1) + lanes(factors)) * 4

    def _solve(self, rows, fixed, solved):
        n_rows, factors = solved.shape
        blocks, block = launch_shape(self._threads, n_rows, factors, self._device)
        shared = self.shared_bytes(factors, block)
        self._kernel(blocks, block, *rows, fixed, solved, np.int32(n_rows), *self._ridge, shared=shared)


class ALS(Factorization):
    """Alternating least squares with weighted-lambda regularization (ALS-WR).

    One epoch solves every user's, then every item's, regularized least-squares problem with the other side fixed:

        (Q_I^T Q_I + lambda n E) p_u = Q_I^T r_I,    I the n items that user u has rated

    (Zhou et al. 2008; thesis, section 2.3.2 and chapter 5). The same factors, bit for bit, in every run on the
    same device.

    Parameters
    ----------
    factors : int, 1 to 256; kernel `thesis_shared` takes up to 32
    regularization : lambda > 0, in squared factor units
    weighted : bool, lambda times the row's number of ratings (ALS-WR) instead of lambda
    kernel : a name of `ALS.kernels()`; the fastest for the device by default
    device : 'auto' (CUDA where there is one), 'cuda', 'cpu', or 'host' (the CUDA kernel on the processor, checked)
    threads : number of CUDA threads of the grid, which strides over the rows (thesis, section 6.4); as many as the
        device holds at once by default. Ignored on the CPU.
    seed : int, of the initial factors

    Raises
    ------
    ValueError : a parameter out of range, a kernel that does not fit the device or the factors
    gpumf.gpu.DeviceError : device='cuda' or 'host' where there is none
    """

    _trainers: ClassVar = {"sequential": _Sequential, "parallel": _Parallel, "thesis_shared": _ThesisShared}

    def __init__(
        self,
        factors=16,
        regularization=0.05,
        *,
        weighted=True,
        kernel=None,
        device="auto",
        threads=None,
        seed=0,
    ):
        super().__init__(factors, regularization, kernel=kernel, device=device, threads=threads, seed=seed)
        if self.regularization == 0:
            raise ValueError("regularization must be positive: a row with fewer ratings than factors has no solution")
        self.weighted = bool(weighted)

    @property
    def _parameters(self):
        return super()._parameters | {"weighted": self.weighted}
