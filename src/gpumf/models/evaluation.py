"""RMSE and MAE of factors on a set of ratings, where the factors are."""

import numpy as np

from gpumf import backends
from gpumf.backends import sources
from gpumf.backends.cpu.metrics import sum_errors
from gpumf.solvers.base import COLUMNS

SOURCE = "metrics/errors.cu"
sources.declare(SOURCE, FACTORS=COLUMNS)

# Few enough blocks that the second reduction is one block's work.
_MAX_BLOCKS, _THREADS = 1024, 256
_FLOATS = 1 << 26  # of gathered factors at a time

UNBOUNDED = -np.inf, np.inf


class Errors:
    """The errors of p_u . q_i on fixed ratings; call it with the factors to get (rmse, mae).

    Ratings whose user or item is not known from training are predicted the training mean.

    ratings : Ratings
    known : (users, items), bool (n_users,) and (n_items,), who is known
    mean : of the training ratings
    factors : columns of the factors
    device : name, of where the factors are
    bounds : to which p_u . q_i is clipped

    Attributes:
    nnz : of the ratings
    """

    def __init__(self, ratings, known, mean, factors, device, bounds=UNBOUNDED):
        self.nnz, self._bounds, self._unknown = ratings.nnz, bounds, np.zeros(2)
        if device == "cpu":
            ratings = self._of_known(ratings, known, float(mean))
        # Ordered by user, neighbouring groups share a user's factors; the sums then meet the cache, not memory.
        arrays = ratings.in_order(ratings.order(ratings.users, ratings.n_users))
        self._sums = self._summing(arrays if device == "cpu" else (*arrays, *known, float(mean)), factors, device)

    def _of_known(self, ratings, known, mean):
        """The ratings whose user and item are known; the others are summed up."""
        of_users, of_items = known
        chosen = of_users[ratings.users] & of_items[ratings.items]
        unknown = ratings.values[~chosen].astype(np.float64) - mean
        self._unknown = np.array([np.abs(unknown).sum(), (unknown**2).sum()])
        return ratings if chosen.all() else ratings.select(chosen)

    def _summing(self, arrays, factors, device):
        """A function of the model's arrays that gives the sums of absolute and squared errors, float64 (2,).

        arrays : users, items, values; of a kernel's device then user_known, item_known and mean, too
        """
        if device == "cpu":
            low, high = map(np.float32, self._bounds)
            return lambda p, q: np.array(sum_errors(*arrays, p, q, low, high))
        if factors > COLUMNS[-1]:
            return _array_sums(arrays, backends.device(device), self._bounds)
        return kernel_sums(arrays, factors, backends.device(device), self._bounds)

    def totals(self, *learned):
        """The sums of absolute and of squared errors, float64 (2,)."""
        return self._sums(*learned) + self._unknown

    def __call__(self, *learned):
        absolute, squared = self.totals(*learned)
        return float(np.sqrt(squared / self.nnz)), float(absolute / self.nnz)


def _array_sums(arrays, device, bounds):
    """As `kernel_sums`, of more factors than the kernel takes."""
    xp, (*columns, mean) = device.xp, arrays
    users, items, values, of_users, of_items = map(device.array, columns)

    def sums(p, q):
        total, step = np.zeros(2), max(_FLOATS // p.shape[1], 1)
        for first in range(0, len(values), step):
            part = slice(first, first + step)
            u, i = users[part], items[part]
            products = (p[u] * q[i]).sum(axis=1)
            products = xp.where(xp.isfinite(products), products.clip(*bounds), products)
            predicted = xp.where(of_users[u] & of_items[i], products, np.float32(mean))
            errors = (values[part] - predicted).astype(np.float64)
            total += float(abs(errors).sum()), float((errors**2).sum())
        return total

    return sums


def kernel_sums(arrays, factors, device, bounds=UNBOUNDED):
    """A function of factors on a device that gives the sums of absolute and of squared errors, float64 (2,).

    Launches kernels/metrics/errors.cu. arrays : as of `on_device`; bounds : to which p_u . q_i is clipped
    """
    low, high = bounds
    errors = device.kernel(SOURCE, "errors", FACTORS=factors)
    ratings = on_device(arrays, device)
    blocks, threads, partial, total = totals(device, factors)

    def sums(p, q):
        errors(blocks, threads, **ratings, user_factors=p, item_factors=q, low=low, high=high, partial=partial)
        return total()

    return sums


def on_device(arrays, device):
    """What kernels that sum up errors take of ratings, by name: each array on the device, nnz and mean.

    arrays : users, items and values of the ratings, on the host or the device; bool arrays of the users and of the
    items that are known, on the host; the mean that is predicted for the others
    """
    *columns, user_known, item_known, mean = arrays
    ratings = dict(zip(("users", "items", "values"), map(device.array, columns), strict=True))
    known = (device.array(np.ascontiguousarray(of).view(np.uint8)) for of in (user_known, item_known))
    ratings |= dict(zip(("user_known", "item_known"), known, strict=True))
    return ratings | {"nnz": len(columns[0]), "mean": mean}


def totals(device, factors=1):
    """For a kernel that sums up errors: its blocks, its threads, float64 (blocks, 2) for its sums, and their total.

    That is a function without arguments that returns float64 (2,) on the host. Its kernel is the same for any number
    of factors; given those of the kernel that sums up, the source is compiled once.
    """
    total_errors = device.kernel(SOURCE, "total_errors", FACTORS=factors)
    resident = device.facts["multiprocessors"] * device.facts["threads_per_multiprocessor"]
    blocks = min(_MAX_BLOCKS, resident // _THREADS)
    partial, sums = device.empty((blocks, 2), np.float64), device.empty(2, np.float64)

    def total():
        total_errors(1, _THREADS, partial=partial, n_partial=blocks, total=sums)
        return device.to_numpy(sums)

    return blocks, _THREADS, partial, total
