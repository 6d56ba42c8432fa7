"""RMSE and MAE of factors on a set of ratings, where the factors are."""

import numpy as np

from gpumf import backends
from gpumf.backends import sources
from gpumf.backends.cpu.metrics import sum_errors
from gpumf.solvers.base import COLUMNS

sources.declare("metrics/errors.cu", FACTORS=COLUMNS)

# Few enough blocks that the second reduction is one block's work.
_MOST_BLOCKS, _THREADS = 1024, 256

UNBOUNDED = -np.inf, np.inf


class Errors:
    """The errors of p_u . q_i on fixed ratings; call it with the factors to get (rmse, mae).

    Ratings whose user or item is not known from training are predicted the training mean: their part of the sums
    does not depend on the factors and is computed once. bounds : to which p_u . q_i is clipped

    Attributes
    ----------
    nnz : of the ratings
    """

    def __init__(self, ratings, known, mean, factors, device, bounds=UNBOUNDED):
        self.nnz, self._bounds = ratings.nnz, bounds
        unknown = ratings.values[~known].astype(np.float64) - float(mean)
        self._unknown = np.array([float(abs(unknown).sum()), float((unknown**2).sum())])
        chosen = ratings if known.all() else ratings.select(known)
        # Ordered by user, neighbouring groups share a user's factors; the sums then meet the cache, not memory.
        order = chosen.order(chosen.users, chosen.n_users)
        arrays = chosen.users[order], chosen.items[order], chosen.values[order]
        self._sums = self._summing(arrays, factors, device)

    def _summing(self, arrays, factors, device):
        """A function of the model's arrays that gives the sums of absolute and squared errors, float64 (2,)."""
        if device == "cpu":
            return _cpu_sums(arrays, self._bounds)
        return kernel_sums(arrays, factors, backends.device(device), self._bounds)

    def totals(self, *learned):
        """The sums of absolute and of squared errors, float64 (2,)."""
        return self._sums(*learned) + self._unknown

    def __call__(self, *learned):
        absolute, squared = self.totals(*learned)
        return float(np.sqrt(squared / self.nnz)), float(absolute / self.nnz)


def _cpu_sums(arrays, bounds):
    low, high = map(np.float32, bounds)
    return lambda p, q: np.array(sum_errors(*arrays, p, q, low, high))


def kernel_sums(arrays, factors, device, bounds=UNBOUNDED):
    """A function of factors on a device that gives the sums of absolute and of squared errors, float64 (2,).

    Launches kernels/metrics/errors.cu. arrays : users, items and values of the ratings, on the host or the device;
    bounds : to which p_u . q_i is clipped
    """
    low, high = bounds
    errors = device.kernel("metrics/errors.cu", "errors", FACTORS=factors)
    ratings = on_device(arrays, device)
    blocks, threads, partial, total = totals(device)

    def sums(p, q):
        errors(blocks, threads, **ratings, user_factors=p, item_factors=q, low=low, high=high, partial=partial)
        return total()

    return sums


def on_device(arrays, device):
    """What kernels that sum up errors take of ratings, by name: users, items, values, which go there, and nnz."""
    return dict(zip(("users", "items", "values"), map(device.array, arrays), strict=True)) | {"nnz": len(arrays[0])}


def totals(device):
    """For a kernel that sums up errors: its blocks, its threads, float64 (blocks, 2) for its sums, and their total.

    That is a function without arguments that returns float64 (2,) on the host.
    """
    # The number of factors is nothing to this kernel.
    total_errors = device.kernel("metrics/errors.cu", "total_errors", FACTORS=1)
    resident = device.facts["multiprocessors"] * device.facts["threads_per_multiprocessor"]
    blocks = min(_MOST_BLOCKS, resident // _THREADS)
    partial, sums = device.empty((blocks, 2), np.float64), device.empty(2, np.float64)

    def total():
        total_errors(1, _THREADS, partial=partial, n_partial=blocks, total=sums)
        return device.to_numpy(sums)

    return blocks, _THREADS, partial, total
