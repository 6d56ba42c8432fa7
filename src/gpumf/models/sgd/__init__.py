"""Stochastic gradient descent."""

from typing import ClassVar

import numpy as np

from gpumf.models.base import Factorization
from gpumf.models.sgd.hogwild import Hogwild
from gpumf.models.sgd.updates import Parallel, Sequential


class SGD(Factorization):
    """Stochastic gradient descent on sum (r_ui - p_u . q_i)^2 / 2 + lambda/2 (|p_u|^2 + |q_i|^2) per rating.

    An epoch is nnz updates on ratings drawn with replacement (thesis, sections 2.3.2 and 4.1, Algorithm 4.1). With
    a kernel that updates in parallel without locks (Recht et al. 2011) two runs differ slightly.

    Parameters
    ----------
    factors : int, 1 to 256
    regularization : lambda >= 0 of the users, and of the items too unless `item_regularization` is given
    learning_rate : mu > 0
    kernel : a name of `SGD.kernels()`; the fastest for the device by default
    device : 'auto' (CUDA where there is one), 'cuda', 'cpu', or 'host' (the CUDA kernel on the processor, checked)
    threads : number of CUDA threads of the grid. By default as many as `safe_updates` lets be in flight: with more,
        updates of popular vectors overwrite each other and an epoch learns less. Ignored on the CPU.
    seed : int, of the initial factors and of the draws

    Raises
    ------
    ValueError : a parameter out of range, a kernel that does not fit the device
    gpumf.gpu.DeviceError : device='cuda' or 'host' where there is none
    """

    _trainers: ClassVar = {"sequential": Sequential, "parallel": Parallel, "hogwild": Hogwild}

    def __init__(
        self,
        factors=16,
        regularization=0.02,
        *,
        learning_rate=0.02,
        item_regularization=None,
        kernel=None,
        device="auto",
        threads=None,
        seed=0,
    ):
        super().__init__(factors, regularization, kernel=kernel, device=device, threads=threads, seed=seed)
        if not (np.isfinite(learning_rate) and learning_rate > 0):
            raise ValueError(f"learning_rate must be finite and positive, not {learning_rate!r}")
        self.learning_rate = float(learning_rate)
        self.item_regularization = self.regularization if item_regularization is None else float(item_regularization)

    @property
    def _parameters(self):
        return super()._parameters | {
            "learning_rate": self.learning_rate,
            "item_regularization": self.item_regularization,
        }
