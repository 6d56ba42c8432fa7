"""Random numbers as a function of position: the same on every machine and in every library version.

NumPy's generators may change their streams between releases and are sequential; splits and synthetic
data sets must not depend on either. `splitmix64` (Steele, Lea, Flood 2014) maps 64 bits to 64 bits one
to one, so distinct positions have distinct hashes and an order by hash is a permutation.
"""

import numpy as np

from gpumf._util.jit import cached_vectorize


@cached_vectorize("uint64(uint64)")
def splitmix64(x):
    """Hash uint64 integers, one to one, every output bit depending on every input bit.

    A NumPy ufunc that compiled (Numba) code may call too.
    """
    z = x + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@cached_vectorize("uint64(uint64)")
def splitmix64_inverse(z):
    """What `splitmix64` makes these integers from, uint64 of the same shape."""
    z = (z ^ (z >> np.uint64(31)) ^ (z >> np.uint64(62))) * np.uint64(0x319642B2D24D8EC3)
    z = (z ^ (z >> np.uint64(27)) ^ (z >> np.uint64(54))) * np.uint64(0x96DE1B173F119089)
    return (z ^ (z >> np.uint64(30)) ^ (z >> np.uint64(60))) - np.uint64(0x9E3779B97F4A7C15)


@cached_vectorize("uint64(uint64, uint64)")
def high_product(a, b):
    """The upper 64 bits of the 128 of a b; an array or a scalar each, from NumPy or from compiled (Numba) code."""
    low_32, _32 = np.uint64(0xFFFFFFFF), np.uint64(32)
    a_high, a_low, b_high, b_low = a >> _32, a & low_32, b >> _32, b & low_32
    middle = a_high * b_low + (a_low * b_low >> _32)
    return a_high * b_high + (middle >> _32) + ((middle & low_32) + a_low * b_high >> _32)


def positional_hash(n, seed):
    """n distinct uint64 hashes, one a position, of a stream chosen by seed."""
    with np.errstate(over="ignore"):
        return splitmix64(np.arange(n, dtype=np.uint64) + splitmix64(np.uint64(seed)))


def random_order(n, seed):
    """A pseudorandom permutation of range(n), int64 (n,), that depends on (n, seed) alone: its order by hash.

    The sorted hashes say themselves which positions they are of.
    """
    hashes = positional_hash(n, seed)
    hashes.sort()
    with np.errstate(over="ignore"):
        return (splitmix64_inverse(hashes) - splitmix64(np.uint64(seed))).view(np.int64)


def random_subset(n, size, seed):
    """A boolean mask (n,) of exactly `size` (1..n) pseudorandom positions, that depends on the arguments alone."""
    key = positional_hash(n, seed)
    return key <= np.partition(key, size - 1)[size - 1]


def random_positions(key, draws, n):
    """Uniform positions below n, int64, for these draws of the stream `key`: one a draw, maybe repeated.

    As `random_position` of kernels/common/random.cuh.
    """
    with np.errstate(over="ignore"):
        hashes = splitmix64(np.uint64(key) + np.asarray(draws, np.uint64))
    return high_product(hashes, np.asarray(n, np.uint64)).astype(np.int64)
