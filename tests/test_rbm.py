"""The restricted Boltzmann machine: every kernel against the float64 reference on the same draws, and the model."""

import numpy as np
import pytest

from conftest import kernels_on, ragged_ratings, to_numpy
from gpumf import RBM, datasets
from gpumf.cpu import reference
from gpumf.datasets import Ratings
from gpumf.datasets.twins import Twin, generate
from gpumf.hashing import splitmix64
from gpumf.models.rbm import levels as rating_levels
from gpumf.models.rbm import level_logarithms
from gpumf.models.rbm.batches import Batches
from gpumf.models.rbm.divergence import batch_order
from gpumf.models.rbm.fast import HiddenUpdate

KERNELS = [
    pytest.param("cpu", "sequential"),
    pytest.param("cpu", "parallel"),
    *(
        pytest.param(device, kernel, marks=getattr(pytest.mark, {"cuda": "gpu"}.get(device, device)))
        for device in ("host", "cuda")
        for kernel in ("thesis", "fast")
    ),
]
