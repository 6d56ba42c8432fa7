"""Launches kernels/als/half_rows.cu: rows of factors in half precision or in bytes, for kernels that gather them."""

import numpy as np

from gpumf.backends import sources

SOURCE = "als/half_rows.cu"
MAX_BLOCKS, _BLOCK = 256, 1024  # that go over all factors, and their threads

sources.declare(SOURCE, FACTORS=range(1, 257))


def padded(factors):
    """Numbers of a row in half precision, PADDED of the source."""
    return 256 if factors > 208 else -(-factors // 16) * 16


def bytes_of_row(factors):
    """Of a row in eight bits, BYTES_OF_ROW of the source."""
    return -(-factors // 128) * 128


class HalfRows:
    """Room for the factors of a side in half precision, of one model or of several side by side.

    rows : int, of the longer side
    roots : float (systems,), of what each model's kernels get as the root of alpha
    rows_of_bytes : int, of the longest side in eight bits, of one model

    Attributes:
    halves : uint16 (systems * rows, padded(factors))
    bytes : int8 (rows_of_bytes, bytes_of_row(factors)), in the order of half_rows.cuh
    unit : float32 (systems, 3): what factors are divided by, a power of two for halves, its reciprocal, and the root
    """

    def __init__(self, device, factors, rows, roots=(1.0,), rows_of_bytes=0):
        self._device, self._systems = device, len(roots)
        names = "largest_ratings", "largest_factors", "round_factors", "round_to_bytes"
        self._kernels = {name: device.kernel(SOURCE, name, FACTORS=factors) for name in names}
        self.halves = device.empty((self._systems * rows, padded(factors)), np.uint16)
        self.bytes = device.empty((rows_of_bytes, bytes_of_row(factors)), np.int8)
        self.unit = device.array(np.array([[1, 1, root] for root in roots], np.float32))
        self._largest = device.empty(self._systems * MAX_BLOCKS, np.float32)

    def round(self, factors, least, halves=None, carrier=None):
        """The factors in half precision, and the power of two that they were divided by for its range.

        least : the least that is added to a diagonal of what is solved with them
        carrier : of workers, each with some of the rows, who divide by the same
        """
        n_rows, systems, blocks = self._find_largest(factors)
        largest, n_largest = self._largest, blocks
        if carrier is not None:
            n_largest = carrier.size * MAX_BLOCKS
            largest, first = self._device.zeros(n_largest, np.float32), carrier.rank * MAX_BLOCKS
            largest[first : first + blocks] = self._largest[:blocks]
            carrier.all_gather(largest, np.arange(carrier.size + 1) * MAX_BLOCKS)
        scaled = largest, np.int32(n_largest), least, self.unit
        halves = self.halves if halves is None else halves
        self._kernels["round_factors"]((blocks, systems), _BLOCK, factors, halves, n_rows, *scaled)

    def round_to_bytes(self, factors, least):
        """The factors of one model in eight bits, in units of a 127th of the largest. least : as of `round`."""
        n_rows, _, blocks = self._find_largest(factors)
        scaled = self._largest, np.int32(blocks), least, self.unit
        self._kernels["round_to_bytes"](blocks, _BLOCK, factors, self.bytes.view(np.uint32), n_rows, *scaled)

    def _find_largest(self, factors):
        n_rows, systems = np.int32(factors.shape[-2]), self._systems
        blocks = min(-(-factors.size // systems // _BLOCK), MAX_BLOCKS)
        self._kernels["largest_factors"]((blocks, systems), _BLOCK, factors, n_rows, self._largest)
        return n_rows, systems, blocks

    def largest_ratings(self, rows):
        """The magnitude of each row's largest rating, float32 (rows,)."""
        largest = self._device.zeros(rows.n_rows, np.float32)
        for chosen, segments, _, values in rows:
            self.add_largest(segments["all"], values, largest[chosen])
        return largest

    def add_largest(self, segments, values, largest):
        """largest = its maximum with the magnitudes of the ratings of segments, by their rows."""
        self._kernels["largest_ratings"](-(-segments[1] // 8), 256, *segments, values, largest.view(np.uint32))
