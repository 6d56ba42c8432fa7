"""Errors of a model on the CPU."""

import numpy as np
from numba import njit, prange

# Ratings summed up one after another; the chunks' sums are added in order, so that the number of threads
# does not change the result.
_CHUNK = 1 << 14


@njit(nogil=True, parallel=True, cache=True)
def sum_errors(users, items, values, user_factors, item_factors):
    """(sum |e|, sum e^2) as float64 over e = p_u . q_i - r_ui, products in FP32."""
    n_chunks = (len(values) + _CHUNK - 1) // _CHUNK
    sums = np.zeros((n_chunks, 2))
    for chunk in prange(n_chunks):
        for t in range(chunk * _CHUNK, min((chunk + 1) * _CHUNK, len(values))):
            p, q = user_factors[users[t]], item_factors[items[t]]
            dot = np.float32(0)
            for k in range(len(p)):
                dot += p[k] * q[k]
            error = np.float64(dot) - np.float64(values[t])
            sums[chunk, 0] += abs(error)
            sums[chunk, 1] += error * error
    return sums[:, 0].sum(), sums[:, 1].sum()
