"""The newest finite state of a training, which outlives whatever comes next."""

import numpy as np

from gpumf import backends
from gpumf.backends.cpu.metrics import copy_finite
from gpumf.backends.cpu.order import LEAST

SOURCE = "metrics/finite.cu"
_BLOCKS_A_MULTIPROCESSOR, _THREADS = 8, 256


class FiniteCheck:
    """Copies arrays if they are finite; where they are, in one pass at the speed of its memory.

    A training is asked after every epoch, outside the time of training. Memory is allocated for the first two copies
    alone, which take turns from then on, and for none of arrays that are made anew every epoch. A device takes a
    launch for each array and a wait for one number; the CPU has all threads at work where there are many numbers.
    """

    def __init__(self, device):
        self._device, self._copies = None if device == "cpu" else backends.device(device), [None, None]
        if self._device:
            self._copy = self._device.kernel(SOURCE, "copy_finite")
            self._blocks = self._device.facts["multiprocessors"] * _BLOCKS_A_MULTIPROCESSOR
            self._found = self._device.zeros(1, np.int32)

    def copies(self, arrays, fresh=False):
        """Copies of these float32 arrays, complete on return, or None where one of their numbers is not finite.

        They stay as they are until the next call but one. Where the device lacks the memory they are on the host.

        fresh : bool, the arrays were made for this call, and nobody changes them later: they need no copies
        """
        if self._device is None:
            copies = arrays if fresh else self._turn(lambda: [*map(np.empty_like, arrays)])
            for array, copy in zip(arrays, copies, strict=True):
                if array.size < LEAST:
                    copy[...] = array
                    finite = np.isfinite(copy).all()
                else:
                    finite = copy_finite(np.ascontiguousarray(array).reshape(-1), copy.reshape(-1))
                if not finite:
                    return None
            return copies
        arrays = list(map(self._device.array, arrays))
        copies = self._if_they_fit(arrays, lambda: arrays) if fresh else self._turn(lambda: self._allocated(arrays))
        for array, copy in zip(arrays, copies or arrays, strict=True):
            blocks = min(self._blocks, -(-array.size // _THREADS))
            self._copy(blocks, _THREADS, numbers=array, n=array.size, copy=copy, found=self._found)
        if self._device.to_numpy(self._found)[0]:
            return None
        return copies or list(map(self._device.to_numpy, arrays))

    def _turn(self, allocate):
        """The older one of two copies, allocated where it is none yet."""
        self._copies.reverse()
        self._copies[0] = self._copies[0] or allocate()
        return self._copies[0]

    def _allocated(self, arrays):
        return self._if_they_fit(arrays, lambda: [self._device.empty(array.shape, np.float32) for array in arrays])

    def _if_they_fit(self, arrays, copies):
        """`copies()`, or None where the device has not the memory for as many numbers again."""
        return copies() if sum(array.nbytes for array in arrays) <= self._device.free_bytes() else None
