"""Initial factors: a function of seed and position, the same on every device."""

import numpy as np

from gpumf._util.counter_rng import splitmix64
from gpumf._util.jit import cached_njit, prange
from gpumf.ratings.synthetic.numbers import normal

SOURCE = "models/initial.cu"
_BLOCK = 256  # CUDA threads


def uniform_factors(rows, factors, mean, key, device=None):
    """Random factors, uniform on [0, 2 sqrt(mean / f)): hashes of (key, position).

    mean : of the ratings. The factors are centred on zero where it is not positive, and within 1/2 where it is zero
    key : int from 0 or uint64, another one gives other factors
    device : of `gpumf.backends`, which launches kernels/models/initial.cu; the CPU if None
    Returns float32 (rows, factors), on the device
    """
    width = np.float32(2 * np.sqrt(abs(mean) / factors)) if mean else np.float32(1)
    centre, key = np.float32(0 if mean > 0 else 0.5), np.uint64(key)
    return _made(rows, factors, device, _draw_uniform, key=key, centre=centre, width=width)


def normal_factors(rows, factors, deviation, key, device=None):
    """Random factors, normal with mean 0, see `gpumf.ratings.synthetic.numbers.normal`; otherwise as
    `uniform_factors`.

    deviation : the standard deviation
    """
    key, deviation = np.uint64(key), np.float32(deviation)
    return _made(rows, factors, device, _draw_normal, key=key, deviation=deviation)


def with_bias_columns(train, users, items, device=None, scale=1.0):
    """Rows of factors times a number with the two columns of biases: (.., b_u, 1) and (.., 1, b_i).

    train : Ratings; for users and items without one, factors and bias are zero
    users, items : (factors, biases), (rows, f) and on the host (rows,), or a number in the place of all biases
    device : of `gpumf.backends`, where the factors are; the CPU if None
    Returns (user_factors, item_factors): float32 (rows, f + 2), where the factors are
    """
    made = []
    for (factors, bias), counts, column in ((users, train.user_counts, -2), (items, train.item_counts, -1)):
        known, (n, width) = counts > 0, (len(factors), factors.shape[1] + 2)
        if device is None:
            rows = np.ones((n, width), np.float32)
            rows[:, :-2], rows[:, column] = factors * known[:, None] * np.float32(scale), bias * known
        else:
            rows = device.empty((n, width), np.float32)
            biases, known = device.arrays([np.broadcast_to(np.float32(bias), n) * known, known.view(np.uint8)])
            given = {"factors": factors, "scale": scale, "biases": biases, "known": known}
            given |= {"n": rows.size, "width": width, "column": width + column}
            kernel = device.kernel(SOURCE, "add_bias_columns")
            kernel(-(-rows.size // _BLOCK), _BLOCK, **given, rows=rows)
        made.append(rows)
    return tuple(made)


def _made(rows, factors, device, draw, **parameters):
    """What a function draws on the CPU, and on a device the kernel of the same name."""
    if device is None:
        made = np.empty((rows, factors), np.float32)
        draw(made.reshape(-1), *parameters.values())
    else:
        made = device.empty((rows, factors), np.float32)
        kernel = device.kernel(SOURCE, draw.__name__.strip("_"))
        kernel(-(-made.size // _BLOCK), _BLOCK, factors=made, n=made.size, **parameters)
    return made


@cached_njit(parallel=True)
def _draw_uniform(factors, key, centre, width):
    """As kernels/models/initial.cu."""
    for k in prange(len(factors)):
        unit = np.float32(splitmix64(key + np.uint64(k)) >> np.uint64(40)) * np.float32(2.0**-24)
        factors[k] = (unit - centre) * width


@cached_njit(parallel=True)
def _draw_normal(factors, key, deviation):
    """As kernels/models/initial.cu."""
    for k in prange(len(factors)):
        factors[k] = np.float32(normal(key, k)) * deviation
