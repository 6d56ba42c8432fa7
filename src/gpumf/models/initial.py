"""Launches kernels/models/initial.cu."""

import numpy as np

_BLOCK = 256  # CUDA threads


def uniform_factors(device, rows, factors, mean, key):
    """Random factors, uniform on [0, 2 sqrt(mean / f)), made on a device: for models that the host is too slow for.

    As `Factorization.initial_factors`, with other draws: hashes of (key, position), the same on every machine.

    Parameters
    ----------
    device : of `gpumf.gpu`
    mean : of the ratings, positive
    key : int, another one gives other factors

    Returns
    -------
    float32 (rows, factors) on the device
    """
    made = device.empty((rows, factors), np.float32)
    draw = device.kernel("models/initial.cu", "draw_uniform")
    width = 2 * np.sqrt(mean / factors)
    draw(-(-made.size // _BLOCK), _BLOCK, factors=made, n=made.size, key=key, width=width)
    return made
