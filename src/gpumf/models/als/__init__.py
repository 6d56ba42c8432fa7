"""Alternating least squares."""

from typing import ClassVar

from gpumf.models.als.half_sweeps import Parallel, Sequential
from gpumf.models.als.tensor_core import TensorCore
from gpumf.models.als.thesis import ThesisShared
from gpumf.models.base import Factorization


class ALS(Factorization):
    """Alternating least squares with weighted-lambda regularization (ALS-WR).

    One epoch solves every user's, then every item's, regularized least-squares problem with the other side fixed:

        (Q_I^T Q_I + lambda n E) p_u = Q_I^T r_I,    I the n items that user u has rated

    (Zhou et al. 2008; thesis, section 2.3.2 and chapter 5). The same factors, bit for bit, in every run on the
    same device.

    Parameters
    ----------
    factors : int, 1 to 300; kernel `thesis_shared` takes up to 32, `tensor_core` up to 128
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
        "sequential": Sequential,
        "parallel": Parallel,
        "thesis_shared": ThesisShared,
        "tensor_core": TensorCore,
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
