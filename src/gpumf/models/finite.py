"""The newest finite state of a training, which outlives whatever comes next."""

import numpy as np

from gpumf import gpu

_BLOCKS_A_MULTIPROCESSOR, _THREADS = 8, 256


class FiniteCheck:
    """Says whether arrays are finite, and copies them; where they are, at the speed of its memory.

    A training is asked after every epoch, outside the time of training: the check reads the arrays, the copy reads
    and writes them, beside the passes over all ratings of the epoch itself.
    """

    def __init__(self, device):
        self._device = None if device == "cpu" else gpu.device(device)
        if self._device:
            self._count = self._device.kernel("metrics/finite.cu", "count_not_finite")
            self._blocks = self._device.facts["multiprocessors"] * _BLOCKS_A_MULTIPROCESSOR

    def __call__(self, arrays):
        """Whether all numbers of these float32 arrays are finite."""
        if self._device is None:
            return all(np.isfinite(array).all() for array in arrays)
        count = self._device.zeros(1, np.int32)
        for array in arrays:
            numbers, blocks = self._device.array(array), min(self._blocks, -(-array.size // _THREADS))
            self._count(blocks, _THREADS, numbers=numbers, n=array.size, count=count)
        return not self._device.to_numpy(count)[0]

    def copies(self, arrays):
        """Copies of the arrays, complete on return: where they are, or on the host if the device lacks the memory."""
        if self._device is None:
            return [array.copy() for array in arrays]
        if self._device.free_bytes() < sum(array.nbytes for array in arrays):
            return [self._device.to_numpy(array) for array in arrays]
        copies = [array.copy() for array in arrays]
        self._device.synchronize()
        return copies
