"""Items solved by the sums of several workers' parts of their equations, with kernels/als/cumf."""

from dataclasses import replace
from itertools import pairwise

import numpy as np

from gpumf.datasets.rows import row_offsets

_SHARE = 0.75  # of the free memory, for the sums


class SharedSums:
    """Data parallelism of `Cumf` (Tan et al. 2018, section 4; 2016, Algorithm 3).

    A worker makes, of the ratings of its own users, its part of every item's A and b. As many items of each worker at
    a time are added up over all workers, each of whom gets the sums of its own, adds lambda, and solves.
    """

    def share_items(self, carrier, bounds, users, indptr, counts):
        """Prepare `solve_shared`; all workers do so at the same time.

        Parameters
        ----------
        carrier : Communicator of the workers
        bounds : of the items, which are whose
        users : slice, of the users whose ratings are here
        indptr : int64 (items + 1,), of the items' ratings that are here
        counts : int64 (items,), of their ratings that any worker has
        """
        self._carrier, self._sharing_users = carrier, users
        self._users_gram = self._gram(users.stop - users.start) if self._alpha else None
        most = self._most_shared(bounds, indptr)
        chunks = _chunks(bounds, most)
        matrix, f, device = self._shape.matrix, self._factors, self._device
        self._sums = device.empty((carrier.size * most, matrix), np.float32)
        self._right_sides = device.empty((carrier.size * most, f), np.float32)
        self._no_gram = device.zeros(matrix, np.float32)
        memory = device.empty(self._chunk_floats(most, chunks, indptr), np.float32)
        self._chunks_shared = []
        for chunk in chunks:
            parts = {}
            for rank, rows in enumerate(chunk):
                if rows.stop > rows.start:
                    batch = self._batch(indptr[rows.start : rows.stop + 1], rows, self._longest, memory, a_half=False)
                    there = slice(rank * most, rank * most + rows.stop - rows.start)
                    parts[rank] = replace(batch, matrices=self._sums[there], biases=self._right_sides[there])
            own = parts.get(carrier.rank)
            if own is not None:
                own = replace(own, indptr=device.array(row_offsets(counts[own.rows])))
            self._chunks_shared.append((list(parts.values()), own))

    def _most_shared(self, bounds, indptr):
        """How many items of a worker are added up at a time: the most for which all have the memory."""
        most, budget = int(np.diff(bounds).max()), _SHARE * self._device.free_bytes() / 4
        size, row = self._carrier.size, self._shape.matrix + self._factors
        while most > 1 and size * most * row + self._chunk_floats(most, _chunks(bounds, most), indptr) > budget:
            most = -(-most // 2)
        found = np.zeros(size)
        found[self._carrier.rank] = most
        self._carrier.all_reduce(found)
        return int(found.min())

    def _chunk_floats(self, most, chunks, indptr):
        """Of the memory of a batch of a worker's items, in which those of many ratings have their parts."""
        parts = -(-np.diff(indptr) // self._longest)
        slots = row_offsets(np.where(parts > 1, parts, 0))
        longest = max(int(slots[rows.stop] - slots[rows.start]) for chunk in chunks for rows in chunk)
        return most * (self._shape.matrix + self._factors + 1) + max(longest, 1) * self._shape.sums

    def solve_shared(self, side, fixed, solved):
        """Solve this worker's items, together with all other workers: `solve` of `ALSTrainer.solve_items`."""
        size, gram = self._carrier.size, self._nothing
        if self._users_gram is not None:
            (of_users,) = self._users_gram.batches
            self._hermitian("get_gram", self._users_gram, of_users, fixed[self._sharing_users], self._nothing)
            self._carrier.all_reduce(of_users.matrices)
            gram = self._no_gram
        bounds = np.arange(size + 1) * (len(self._sums) // size)
        for parts, own in self._chunks_shared:
            self._sums[...] = self._right_sides[...] = 0  # of items that have no ratings here
            for batch in parts:
                self._hermitian("get_hermitian", side, batch, fixed, gram)
                if not self.fused_bias:
                    self.get_bias(side, batch, fixed)
            sums = self._carrier.reduce_scatter(self._sums, bounds)
            self._carrier.reduce_scatter(self._right_sides, bounds)
            if self._users_gram is not None:
                sums += of_users.matrices
            if own is not None:
                self.solve(own, solved)


def _chunks(bounds, most):
    """The next `most` rows of each worker at a time, those of all: a list of lists of slices, some empty."""
    return [
        [slice(min(first + begin, end), min(first + begin + most, end)) for begin, end in pairwise(map(int, bounds))]
        for first in range(0, int(np.diff(bounds).max()), most)
    ]
