"""Ratings in a fixed order on a device: whole where they fit, else one chunk after another."""

import numpy as np

from gpumf.backends import out_of_memory

# Of the free memory, what ratings may take; the factors and the validation set are there already.
_SHARE = 0.8
_STREAMED = 512 << 20  # bytes of a chunk, at most: long transfers are fast ones, pinned memory is scarce


class Chunks:
    """Ratings whose order is cut into pieces that are launched as a whole or together, whichever chunk they are in.

    device : of `gpumf.backends.device`
    arrays : of one length, what the kernel wants of each rating in its order; on the host, or on the device already
        where no `most` is given
    pieces : int64 (n + 1,), ascending from 0 to that length: where the order may be cut
    most : ratings in a chunk (a piece that has more is a chunk by itself); all that fit by default
    beside : bytes that are to be left for each rating of a chunk
    Raises gpumf.backends.DeviceError: the longest chunk and the next one do not fit, with the memory that they take

    Attributes:
    places : list of (first piece, end piece, where the first one begins) of each chunk
    most : ratings of the longest chunk
    resident : all ratings on the device, always in the same place; None where there is only a chunk of them at a time
    """

    def __init__(self, device, arrays, pieces, most=None, beside=0):
        self._device, self._arrays = device, arrays
        nnz = int(pieces[-1])
        if most is None:
            # What is there already takes no more room.
            bytes_each = sum(a.itemsize for a in arrays if isinstance(a, np.ndarray))
            fit = int(device.free_bytes() * _SHARE) // (bytes_each + beside) if bytes_each else nnz
            # Two chunks are there at a time.
            most = nnz if nnz <= fit else max(min(fit // 2, _STREAMED // bytes_each), 1)
        cuts = [0]
        while cuts[-1] < len(pieces) - 1:
            end = int(np.searchsorted(pieces, pieces[cuts[-1]] + most, "right")) - 1
            cuts.append(max(end, cuts[-1] + 1))
        self._bounds = [int(pieces[cut]) for cut in cuts]
        self.places = list(zip(cuts[:-1], cuts[1:], self._bounds[:-1], strict=True))
        self.most = longest = int(np.diff(self._bounds).max())
        if len(cuts) > 2:
            free = device.free_bytes()
            taken = longest * (2 * sum(a.itemsize for a in arrays) + beside)
            if taken > free:
                raise out_of_memory(f"a chunk of {longest:,} ratings, with room for the next one,", taken, free)
        self.resident = [device.array(a) for a in arrays] if len(cuts) == 2 else None

    def __iter__(self):
        """Yield (first piece, end piece, where the first one begins, its arrays on the device) of each chunk.

        What is launched on a chunk has to be launched before the next one is asked for.
        """
        chunks = [self.resident] if self.resident else self._device.stream(self._arrays, self._bounds)
        for place, chunk in zip(self.places, chunks, strict=True):
            yield *place, chunk
