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


def tensor_core_segments(indptr, longest=8192):
    """The work list of kernels/als/tensor_core.cu: every row as segments of at most `longest` ratings, longest first.

    Parameters
    ----------
    indptr : int64 (rows + 1,), of the CSR rows
    longest : int, ratings of a segment; long enough that few rows pay for adding up parts, short enough that the last
        segment does not keep one multiprocessor busy alone

    Returns
    -------
    (segments, slots) : the kernel's `Segment` records, and the number of parts of all rows that have several
    """
    counts = np.diff(indptr)
    parts = np.maximum(-(-counts // longest), 1)
    row = np.repeat(np.arange(len(counts)), parts)
    part = np.arange(len(row)) - np.repeat(np.cumsum(parts) - parts, parts)
    length = -(-counts // parts)[row]
    begin = indptr[row] + part * length
    slots = np.where(parts > 1, parts, 0)
    segments = np.empty(
        len(row), [("begin", "i8")] + [(n, "i4") for n in ("length", "row", "part", "parts", "slot", "count")]
    )
    segments["begin"], segments["row"], segments["part"], segments["parts"] = begin, row, part, parts[row]
    segments["length"] = np.clip(indptr[row + 1] - begin, 0, length)
    segments["slot"], segments["count"] = (np.cumsum(slots) - slots)[row], counts[row]
    return segments[np.argsort(-segments["length"], kind="stable")], int(slots.sum())


class _TensorCore(KernelTrainer, _HalfSweeps):
    """kernels/als/tensor_core.cu: FP16 factors, products on the tensor cores, the solve fused behind them."""

    source, entry = "als/tensor_core.cu", "tensor_core"

    def __init__(self, model, train, user_factors, item_factors, longest=8192):
        self._device = gpu.device(model.device)
        self._kernel = self.compile(model)
        # The shapes that the kernel derives from its factors.
        f = model.factors
        tiles = -(-((f + 1) // 2 * 2 + 2) // 16)
        padded, self._block = 16 * tiles, 32 * ((tiles + 1) // 2)
        width = 4 * (-(-f // 4) // 2 * 2 + 1)
        self._shared = max(3 * 64 * (padded + 8) * 2, padded * width * 4)
        sums = 8 * (tiles + tiles // 2) * self._block

        self._p, self._q = (self._with_halves(factors, padded) for factors in (user_factors, item_factors))
        self._users, self._items = (self._side(rows, longest, sums) for rows in (train.by_user, train.by_item))
        ridge = np.float32(model.regularization), np.int32(model.weighted)
        self._parameters = *ridge, np.int32(model.cg_steps), np.float32(model.cg_tolerance)

    def _with_halves(self, factors, padded):
        """Factors on the device, and their padded copy in half precision."""
        whole = self._device.array(factors)
        halves = self._device.empty((len(factors), padded), np.uint16)
        to_half = self._device.kernel(self.source, "round_factors", FACTORS=factors.shape[1])
        to_half(-(-halves.size // 256), 256, whole, halves, np.int32(len(factors)))
        return whole, halves

    def _side(self, rows, longest, sums):
        """(number of segments, what the kernel wants to know of the rows, where the parts of long rows meet)."""
        segments, slots = tensor_core_segments(rows.indptr, longest)
        given = [self._device.array(a) for a in (segments.view(np.uint8), rows.indices, rows.values)]
        partial = self._device.empty(max(slots, 1) * sums, np.float32)
        arrived = self._device.array(np.zeros(max(slots, 1), np.int32))
        return len(segments), given, (partial, arrived)

    def _solve(self, rows, fixed, solved):
        n_segments, given, meeting = rows
        arguments = *given, fixed[1], *solved, *meeting, *self._parameters
        self._kernel(n_segments, self._block, *arguments, shared=self._shared)

    def factors(self):
        return self._p[0], self._q[0]


class ALS(Factorization):
    """Alternating least squares with weighted-lambda regularization (ALS-WR).

    One epoch solves every user's, then every item's, regularized least-squares problem with the other side fixed:

        (Q_I^T Q_I + lambda n E) p_u = Q_I^T r_I,    I the n items that user u has rated

    (Zhou et al. 2008; thesis, section 2.3.2 and chapter 5). The same factors, bit for bit, in every run on the
    same device.

    Parameters
    ----------
    factors : int, 1 to 256; kernel `thesis_shared` takes up to 32, `tensor_core` up to 128
    regularization : lambda > 0, in squared factor units
    weighted : bool, lambda times the row's number of ratings (ALS-WR) instead of lambda
    kernel : a name of `ALS.kernels()`; the fastest for the device by default
    device : 'auto' (CUDA where there is one), 'cuda', 'cpu', or 'host' (the CUDA kernel on the processor, checked)
    threads : number of CUDA threads of the grid, which strides over the rows (thesis, section 6.4); as many as the
        device holds at once by default. For `thesis_shared` alone.
    cg_steps, cg_tolerance : the most steps of conjugate gradient a half-sweep, from the solution before, and the
        residual, relative to the right side, at which they end (cumf, section 4). For `tensor_core` alone.
    seed : int, of the initial factors

    Raises
    ------
    ValueError : a parameter out of range, a kernel that does not fit the device or the factors
    gpumf.gpu.DeviceError : device='cuda' or 'host' where there is none
    """

    _trainers: ClassVar = {
        "sequential": _Sequential,
        "parallel": _Parallel,
        "thesis_shared": _ThesisShared,
        "tensor_core": _TensorCore,
    }

    def __init__(
        self,
        factors=16,
        regularization=0.05,
        *,
        weighted=True,
        kernel=None,
        device="auto",
        threads=None,
        cg_steps=6,
        cg_tolerance=1e-4,
        seed=0,
    ):
        super().__init__(factors, regularization, kernel=kernel, device=device, threads=threads, seed=seed)
        if self.regularization == 0:
            raise ValueError("regularization must be positive: a row with fewer ratings than factors has no solution")
        if cg_steps < 1 or not 0 <= cg_tolerance < 1:
            raise ValueError(f"cg_steps must be positive, cg_tolerance in [0, 1), not {cg_steps!r}, {cg_tolerance!r}")
        self.weighted = bool(weighted)
        self.cg_steps, self.cg_tolerance = int(cg_steps), float(cg_tolerance)

    @property
    def _parameters(self):
        return super()._parameters | {
            "weighted": self.weighted,
            "cg_steps": self.cg_steps,
            "cg_tolerance": self.cg_tolerance,
        }
