"""A stable order of integer keys by one sort of plain integers, whose bits hold both key and position.

Written for NumPy's arrays and CuPy's alike: a GPU's radix sort of such integers takes a fraction of what an argsort
takes, and half of its memory.
"""

import numpy as np


def stable_order(keys, n, xp=np):
    """The positions of integer keys in 0..n-1, n up to 2**63, in ascending order of key, equal ones as given, int64.

    xp : numpy, or cupy where the keys are on a GPU
    """
    bits = max(len(keys) - 1, 0).bit_length()
    if max(n - 1, 0).bit_length() + bits > 63:
        return xp.argsort(keys, kind="stable")
    packed = keys.astype(np.int64)
    packed <<= bits
    packed |= xp.arange(len(keys))
    packed.sort()
    packed &= (1 << bits) - 1
    return packed
