"""Copies between NumPy arrays and a GPU, through pinned memory: the order of things, without CuPy.

`sent` and `receive` copy whole arrays as fast as the bus does. `parts` copies parts of arrays while kernels work on
others.
"""

import os
from collections import deque
from contextlib import contextmanager
from functools import cache
from itertools import chain, pairwise
from mmap import PAGESIZE
from queue import SimpleQueue

import numpy as np

from gpumf._util import interrupts, threads

_MAX_CORES = 12  # with more, copies take no less time
_ALONE = 4 << 20  # bytes that are copied before others start to help
PIECE = 8 << 20
"""Bytes that a thread copies into or out of pinned memory at a time: of smaller pieces Python takes longer to hand
each to the GPU than the bus to copy it."""
_TOUCHED = 16 << 20  # bytes that a thread touches at a time


@cache
def _copiers(process):
    """The threads that copy in this process (after a fork there are none)."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(min(_MAX_CORES, threads.count()), "gpumf-copy")


def n_rooms():
    """How many pieces of pinned memory `sent` and `receive` take: one for each thread."""
    return min(_MAX_CORES, threads.count())


@contextmanager
def _at_work(work, pairs):
    """While the body runs, have threads call work(here, there) with the pieces of pairs of flat arrays, pair by pair.

    Yields wait(n), which returns when the first n pairs are done and raises what went wrong with them. Leaving the
    body waits for all; after an exception or an interrupt, for the pieces under way alone. Interrupts wait meanwhile.
    """
    steps = [max(PIECE // there.itemsize, 1) for _, there in pairs]
    starts = [range(0, len(there), step) for (_, there), step in zip(pairs, steps, strict=True)]
    rests, futures = list(map(iter, starts)), []  # each thread takes the next start

    def take(k):
        (here, there), step = pairs[k], steps[k]
        for begin in rests[k]:
            work(here[begin : begin + step], there[begin : begin + step])

    def wait(n):
        with interrupts.deferred():
            for future in chain(*futures[:n]):
                future.result()

    try:
        with interrupts.deferred():
            copiers = _copiers(os.getpid())
            for k, of_pair in enumerate(starts):
                futures.append([copiers.submit(take, k) for _ in range(min(_MAX_CORES, len(of_pair)))])
        yield wait
        wait(len(pairs))
    finally:
        with interrupts.deferred():
            for rest in rests:
                deque(rest, maxlen=0)  # nobody begins what is left
            for future in chain(*futures):
                future.exception()


class _Rooms:
    """Pieces of pinned memory that threads take in turn, the one that was given back first."""

    def __init__(self, rooms):
        self._free = SimpleQueue()
        for room in rooms:
            self._free.put(room)

    @contextmanager
    def taken(self, n_bytes, dtype):
        """(memory, event) of one."""
        room = self._free.get()
        try:
            yield room.pinned[:n_bytes].view(dtype), room.copied
        finally:
            self._free.put(room)


@contextmanager
def sent(pairs, rooms, copies):
    """While the body runs, copy arrays to a device: threads fill pinned memory, from which the device copies.

    Yields wait(n), which returns when all copies of the first n arrays are in the stream. Leaving the body waits for
    all. However it ends, no copy is under way any more, so that the rooms may go.

    pairs : list of (NumPy array, array on the device), flat, of one length and type; copied one after another
    rooms : `n_rooms()` of them, with `pinned`, `PIECE` bytes, and `copied`, an event
    copies : the stream, which waits for whatever else uses the memory of the arrays
    """
    rooms = _Rooms(rooms)

    def send(here, there):
        with rooms.taken(here.nbytes, here.dtype) as (pinned, copied):
            copied.synchronize()
            np.copyto(pinned, here)
            there.set(pinned, stream=copies)
            copied.record(copies)

    try:
        with _at_work(send, pairs) as wait:
            yield wait
    finally:
        copies.synchronize()


def receive(pairs, rooms, copies):
    """Copy arrays from a device, as `sent` does to it; the NumPy arrays may be of a wider type.

    copies : the stream, which waits for what writes the arrays on the device
    """
    rooms = _Rooms(rooms)

    def fetch(here, there):
        with rooms.taken(there.nbytes, there.dtype) as (pinned, copied):
            there.get(stream=copies, out=pinned, blocking=False)
            copied.record(copies)
            copied.synchronize()
            np.copyto(here, pinned)

    try:
        with _at_work(fetch, pairs):
            pass
    finally:
        copies.synchronize()


def touched(arrays):
    """Have threads write to every page of new NumPy arrays, for which the system finds memory then.

    That takes longer than a copy. Returns a function that waits until it is done; nobody else writes there before.
    """

    def touch(part):
        part[::PAGESIZE] = 0

    with interrupts.deferred():
        copiers = _copiers(os.getpid())
        flat = [array.reshape(-1).view(np.uint8) for array in arrays]
        parts = [one[begin : begin + _TOUCHED] for one in flat for begin in range(0, len(one), _TOUCHED)]
        futures = [copiers.submit(touch, part) for part in parts]

    def wait():
        with interrupts.deferred():
            for future in futures:
                future.result()

    return wait


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
