"""Initial factors: a function of seed and position, the same on every device."""

import numpy as np

from gpumf.compiled import cached_njit, prange
from gpumf.hashing import splitmix64

_BLOCK = 256  # CUDA threads


def uniform_factors(rows, factors, mean, key, device=None):
    """Random factors, uniform on [0, 2 sqrt(mean / f)): hashes of (key, position).

    Parameters
    ----------
    mean : of the ratings. The factors are centred on zero where it is not positive, and within 1/2 where it is zero
    key : int from 0 or uint64, another one gives other factors
    device : of `gpumf.gpu`, which launches kernels/models/initial.cu; the CPU if None

    Returns
    -------
    float32 (rows, factors), on the device
    """
    width = np.float32(2 * np.sqrt(abs(mean) / factors)) if mean else np.float32(1)
    centre, key = np.float32(0 if mean > 0 else 0.5), np.uint64(key)
    if device is None:
        made = np.empty((rows, factors), np.float32)
        _draw_uniform(made.reshape(-1), key, centre, width)
    else:
        made = device.empty((rows, factors), np.float32)
        draw = device.kernel("models/initial.cu", "draw_uniform")
        draw(-(-made.size // _BLOCK), _BLOCK, factors=made, n=made.size, key=key, centre=centre, width=width)
    return made


@cached_njit(parallel=True)
def _draw_uniform(factors, key, centre, width):
    """As kernels/models/initial.cu."""
    for k in prange(len(factors)):
        unit = np.float32(splitmix64(key + np.uint64(k)) >> np.uint64(40)) * np.float32(2.0**-24)
        factors[k] = (unit - centre) * width
