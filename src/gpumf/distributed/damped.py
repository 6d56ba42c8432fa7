"""Damped biases of ratings of which each worker has a part."""

import numpy as np

from gpumf._util.counter_rng import splitmix64
from gpumf.ratings.damped import DAMPING, width_of


class Parts:
    """As `gpumf.ratings.damped.Table`: each worker adds up its part, and all add up their sums.

    Parameters
    ----------
    comm : DaskCommunicator
    ratings : Ratings, any part of them
    facts : Facts
    """

    def __init__(self, comm, ratings, facts):
        ratings = ratings.on_host()
        self._comm, self._sides, self._nnz = comm, (ratings.users, ratings.items), facts.nnz
        self.width = width_of(facts)
        self._left = (ratings.values - np.float64(facts.mean)) / self.width
        self.counts = facts.user_counts, facts.item_counts

    def biases(self, side, fixed):
        """The damped biases of a side, float32, given those of the other."""
        sums = self._sums(side, self._left - (fixed / np.float64(self.width))[self._sides[1 - side]])
        return (self.width * sums / (self.counts[side] + DAMPING[side])).astype(np.float32)

    def subtract(self, *biases):
        """Leave Z in the place of the ratings; its root mean square."""
        for side, of in zip(self._sides, biases, strict=True):
            self._left -= (of / np.float64(self.width))[side]
        square = np.array([self._left @ self._left])
        self._comm.all_reduce(square)
        return self.width * float(np.sqrt(square[0] / self._nnz))

    def products(self, side, vector, signs):
        """The product of Z, or for side 1 of its transpose, with a vector, float64; with random signs, or without."""
        left, (users, items) = self._left, self._sides
        if signs:
            odd = splitmix64((users.astype(np.uint64) << np.uint64(32)) + items.astype(np.uint64)) & np.uint64(1)
            left = np.where(odd, -left, left)
        return self._sums(side, left * vector[self._sides[1 - side]])

    def _sums(self, side, values):
        sums = np.bincount(self._sides[side], values, len(self.counts[side]))
        self._comm.all_reduce(sums)
        return sums
