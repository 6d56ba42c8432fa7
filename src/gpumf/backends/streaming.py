"""Parts of arrays that are copied to a GPU while others are worked on: the order of things, without CuPy."""

import os
from functools import cache
from itertools import pairwise

import numpy as np

from gpumf._util import threads

_MAX_CORES = 12  # with more, copies into pinned memory take no less time
_ALONE = 4 << 20  # bytes that are copied before others start to help


@cache
def _copiers(process):
    """The threads that copy in this process (after a fork there are none)."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(min(_MAX_CORES, threads.count()), "gpumf-copy")


def copy(target, source):
    """target[:] = source, on several cores where it is long: one cannot fill pinned memory as fast as the bus does.

    Both are NumPy arrays of one shape; the target may be of a wider dtype.
    """
    if source.nbytes < _ALONE:
        target[:] = source
        return
    bounds = np.linspace(0, len(source), _MAX_CORES + 1).astype(int)
    parts = [slice(*pair) for pair in pairwise(bounds)]
    list(_copiers(os.getpid()).map(lambda part: np.copyto(target[part], source[part]), parts))


def parts(pieces, slots, kernels, copies):
    """Yield pieces of arrays in the slots' room on the device, in turn.

    A slot has `pinned` and `arrays`, room for a part of each array in pinned memory and on the device, and the events
    `copied` and `used`. The host waits before it overwrites pinned memory that is still read, the copies wait before
    they overwrite what kernels read, the kernels wait for the copy of their part. However it ends, by an exception or
    an interrupt too, no copy is under way any more, so that the slots may go.

    pieces : list of lists of NumPy arrays, as many as a slot has room for, of one length
    slots : two of them; their memory may be in use by what `kernels` was given before
    kernels, copies : the streams
    Yields list of device arrays, for the kernels that are launched until the next part is asked for
    """

    def fetch(k):
        slot = slots[k % 2]
        slot.copied.synchronize()
        copies.wait_event(slot.used)
        for array, pinned, there in zip(pieces[k], slot.pinned, slot.arrays, strict=True):
            copy(pinned[: len(array)], array)
            there[: len(array)].set(pinned[: len(array)], stream=copies)
        slot.copied.record(copies)

    try:
        for slot in slots:
            slot.used.record(kernels)
        for k, piece in enumerate(pieces):
            if k == 0:
                fetch(0)
            if k + 1 < len(pieces):
                fetch(k + 1)
            slot = slots[k % 2]
            kernels.wait_event(slot.copied)
            yield [there[: len(array)] for array, there in zip(piece, slot.arrays, strict=True)]
            slot.used.record(kernels)
    finally:
        copies.synchronize()
