"""Errors and rankings of a model on the CPU, and what of it is finite."""

import numpy as np

from gpumf._util.jit import SUMS_IN_ANY_ORDER, cached_njit, prange
from gpumf.backends.cpu.shapes import takes

# Ratings summed up one after another; the chunks' sums are added in order, so that the number of threads
# does not change the result.
_CHUNK = 1 << 14


@takes("int32 nnz", "int32 nnz", "float32 nnz", "float32 users f", "float32 items f")
@cached_njit(nogil=True, parallel=True, fastmath=SUMS_IN_ANY_ORDER)
def sum_errors(users, items, values, user_factors, item_factors, low, high):
    """(sum |e|, sum e^2) as float64 over e = p_u . q_i, clipped to float32 low..high, - r_ui; products in FP32.

    What is not finite stays so: a model that diverged has no error.
    """
    n_chunks = (len(values) + _CHUNK - 1) // _CHUNK
    sums = np.zeros((n_chunks, 2))
    for chunk in prange(n_chunks):
        for t in range(chunk * _CHUNK, min((chunk + 1) * _CHUNK, len(values))):
            p, q = user_factors[users[t]], item_factors[items[t]]
            dot = np.float32(0)
            for k in range(len(p)):
                dot += p[k] * q[k]
            clipped = low if -np.inf < dot < low else high if high < dot < np.inf else dot
            error = np.float64(clipped) - np.float64(values[t])
            sums[chunk, 0] += abs(error)
            sums[chunk, 1] += error * error
    return sums[:, 0].sum(), sums[:, 1].sum()


@takes("float32 n items", "int32 n", "int64 users+1", "int32 seen", "bool items", "int32 n k", "float32 n k")
@cached_njit(nogil=True, parallel=True)
def top_items(scores, users, seen_indptr, seen_items, candidates, items, best):
    """Writes the positions and scores of each row's best candidates that the row's user has not seen.

    scores : float32 (n, n_items), overwritten; NaN and minus infinity never get in
    users : int32 (n,), positions, of the rows of `seen_indptr` and `seen_items`
    candidates : bool (n_items,)
    items, best : int32 and float32 (n, k), the results, best first, -1 and NaN where there are fewer; of equal scores
        the lower position first
    """
    k = items.shape[1]
    for row in prange(len(users)):
        for t in range(seen_indptr[users[row]], seen_indptr[users[row] + 1]):
            scores[row, seen_items[t]] = np.nan
        found = 0
        for item in range(len(candidates)):
            score = scores[row, item]
            if not candidates[item] or not score > -np.inf or (found == k and score <= best[row, k - 1]):
                continue
            place = min(found, k - 1)
            while place > 0 and best[row, place - 1] < score:
                items[row, place], best[row, place] = items[row, place - 1], best[row, place - 1]
                place -= 1
            items[row, place], best[row, place] = item, score
            found = min(found + 1, k)
        items[row, found:], best[row, found:] = -1, np.nan


@takes("int32 n", "int64 users+1", "int32 test", "int32 n k", "float64 n four", four=4)
@cached_njit(nogil=True, parallel=True)
def ranking_metrics(users, test_indptr, test_items, items, metrics):
    """Writes precision, recall, average precision and NDCG, float64 (n, 4), of each row of `items`, int32 (n, k).

    The rows of `test_indptr` and `test_items` (ascending) are those of `users`, int32 (n,).
    """
    k = items.shape[1]
    discounts = 1 / np.log2(np.arange(2, k + 2))
    ideals = np.cumsum(discounts)
    for row in prange(len(users)):
        test = test_items[test_indptr[users[row]] : test_indptr[users[row] + 1]]
        most = min(len(test), k)
        hits, precisions, gain = 0, 0.0, 0.0
        for rank in range(k):
            place = np.searchsorted(test, items[row, rank])
            if place < len(test) and test[place] == items[row, rank]:
                hits += 1
                precisions += hits / (rank + 1)
                gain += discounts[rank]
        metrics[row, 0] = hits / k
        metrics[row, 1] = hits / len(test) if most else 0.0
        metrics[row, 2] = precisions / most if most else 0.0
        metrics[row, 3] = gain / ideals[most - 1] if most else 0.0


@takes("float32 n", "float32 n")
@cached_njit(nogil=True, parallel=True)
def copy_finite(numbers, copy):
    """Copy float32 (n,) to float32 (n,), as kernels/metrics/finite.cu does; whether all numbers are finite."""
    wrong = np.zeros((len(numbers) + _CHUNK - 1) // _CHUNK, np.int32)
    for chunk in prange(len(wrong)):
        for k in range(chunk * _CHUNK, min((chunk + 1) * _CHUNK, len(numbers))):
            copy[k] = numbers[k]
            wrong[chunk] += not np.isfinite(numbers[k])
    return not wrong.any()
