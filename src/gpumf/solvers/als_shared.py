"""Items solved by the sums of several workers' parts of their equations, with kernels/als/cumf."""

from dataclasses import replace
from itertools import pairwise

import numpy as np

from gpumf.ratings.csr import row_offsets

_SHARE = 0.75  # of the free memory, for the sums
_PARTS = 4  # of a worker's items, so that one is on its way while the next is summed up
_FEWEST = 512  # items of a part


class SharedSums:
    """Data parallelism of `Cumf` (Tan et al. 2018, section 4; 2016, Algorithm 3).

    A worker makes, of the ratings of its own users, its part of every item's A and b. As many items of each worker at
    a time are added up over all workers, each of whom gets the sums of its own, adds lambda, and solves. While those
    are added up the next ones are made, in memory of their own.
    """

    def share_items(self, carrier, bounds, users, indptr, counts):
        """Prepare `solve_shared`; all workers do so at the same time.

        carrier : Communicator of the workers
        bounds : of the items, which are whose
        users : slice, of the users whose ratings are here
        indptr : int64 (items + 1,), of the items' ratings that are here
        counts : int64 (items,), of their ratings that any worker has
        """
        self._carrier, self._sharing_users = carrier, users
        self._users_gram = self._gram(users.stop - users.start) if self._alpha else None
        most = self._max_shared(bounds, indptr)
        chunks = _chunks(bounds, most)
        matrix, f, device = self._shape.matrix, self._factors, self._device
        self._rooms = [
            [device.empty((carrier.size * most, width), np.float32) for width in (matrix, f)]
            for _ in range(min(len(chunks), 2))
        ]
        self._no_gram = device.zeros(matrix, np.float32)
        memory = device.empty(self._chunk_floats(most, chunks, indptr), np.float32)
        self._chunks_shared = []
        for k, chunk in enumerate(chunks):
            parts, (sums, right_sides) = {}, self._rooms[k % 2]
            for rank, rows in enumerate(chunk):
                if rows.stop > rows.start:
                    batch = self._batch(indptr[rows.start : rows.stop + 1], rows, self._longest, memory, a_half=False)
                    there = slice(rank * most, rank * most + rows.stop - rows.start)
                    parts[rank] = replace(batch, matrices=sums[there], biases=right_sides[there])
            own = parts.get(carrier.rank)
            if own is not None:
                own = replace(own, indptr=device.array(row_offsets(counts[own.rows])))
                own = self._with_ridges(own, counts, len(self._p))
            self._chunks_shared.append((list(parts.values()), own))

    def _max_shared(self, bounds, indptr):
        """How many items of a worker are added up at a time: the most for which all have the memory."""
        longest, budget = int(np.diff(bounds).max()), _SHARE * self._device.free_bytes() / 4
        size, row = self._carrier.size, self._shape.matrix + self._factors
        most = min(max(-(-longest // _PARTS), _FEWEST), longest)
        while most > 1 and 2 * size * most * row + self._chunk_floats(most, _chunks(bounds, most), indptr) > budget:
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
        """Solve this worker's items, together with all other workers: `solve` of `ALSSolver.solve_items`."""
        size, gram = self._carrier.size, self._nothing
        if self._users_gram is not None:
            (of_users,) = self._users_gram.batches
            self._hermitian("get_gram", self._users_gram, of_users, fixed[self._sharing_users], self._nothing)
            self._carrier.all_reduce(of_users.matrices)
            gram = self._no_gram
        bounds = np.arange(size + 1) * (len(self._rooms[0][0]) // size)
        begun = None
        for k, (parts, own) in enumerate(self._chunks_shared):
            room = self._rooms[k % 2]
            for sums in room:
                sums[...] = 0  # of items that have no ratings here
            for batch in parts:
                self._hermitian("get_hermitian", side, batch, fixed, gram)
                if not self.fused_bias:
                    self.get_bias(side, batch, fixed)
            before, begun = begun, ([self._carrier.start_reduce_scatter(sums, bounds) for sums in room], own)
            if before:
                self._solve_sums(*before, solved)
        self._solve_sums(*begun, solved)

    def _solve_sums(self, begun, own, solved):
        """Solve this worker's items of a chunk when their A and b, which have been begun, are added up."""
        sums, _ = (complete() for complete in begun)
        if self._users_gram is not None:
            sums += self._users_gram.batches[0].matrices
        if own is not None:
            self.solve(own, solved)


def _chunks(bounds, most):
    """The next `most` rows of each worker at a time, those of all: a list of lists of slices, some empty."""
    return [
        [slice(min(first + begin, end), min(first + begin + most, end)) for begin, end in pairwise(map(int, bounds))]
        for first in range(0, int(np.diff(bounds).max()), most)
    ]
