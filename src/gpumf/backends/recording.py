"""A fixed sequence of launches, recorded once and replayed: what an epoch of thousands of small kernels needs.

    epoch = device.recorded(lambda: [step(grid, block, p, q, batch) for batch in batches])
    for _ in range(epochs):
        epoch()

A recorded launch keeps its arguments: its arrays, whose contents may change between replays, and the values of its
scalars. What each replay shall see anew, as a learning rate that decays, it reads from an array on the device; or the
work is recorded again, which costs about what launching it once from Python does.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import accumulate

import numpy as np

from gpumf.backends import DeviceError

_ALIGNED = 256  # bytes


@dataclass(frozen=True)
class Recording:
    """Launches that a call runs again, in their order. Its length is their number."""

    launches: tuple  # on a GPU their arguments, which must live as long as the graph
    replay: Callable

    def __call__(self):
        self.replay()

    def __len__(self):
        return len(self.launches)


_REFUSED = {
    **dict.fromkeys(("array", "arrays", "sending", "empty", "zeros"), "allocate"),
    **dict.fromkeys(("to_numpy", "download"), "copy to the host"),
    "upload": "copy to the device",
    "stream": "copy",
    "synchronize": "wait",
    "time": "take times",
    "recorded": "record others",
}
"""What a device does not do while it records, by the names of its methods."""


def _refuse(what, *_, **__):
    raise DeviceError(f"a device cannot {what} while it records launches: do it before")


class Recorder:
    """The part of a device that records launches, and copies small arrays together."""

    _launches = None  # recorded so far; None while nothing is recorded

    def packed(self, values):
        """`array` of each of a list of short NumPy arrays, by one copy, which costs as much as of one of them."""
        starts = [0, *accumulate(-(-one.nbytes // _ALIGNED) * _ALIGNED for one in values)]
        here = np.empty(starts[-1], np.uint8)
        for start, one in zip(starts, values, strict=False):
            here[start : start + one.nbytes] = one.reshape(-1).view(np.uint8)
        there = self.array(here)
        return [
            there[start : start + one.nbytes].view(one.dtype).reshape(one.shape)
            for start, one in zip(starts, values, strict=False)
        ]

    def recorded(self, work):
        """The launches of work(), which do not run now: see `gpumf.backends.recording`.

        work : function without arguments, which launches kernels and asks for nothing else of the device
        Returns Recording: calling it runs the launches
        Raises DeviceError: work allocates, copies, waits, takes times or records
        """
        self._launches = []
        before = {name: vars(self)[name] for name in _REFUSED if name in vars(self)}
        vars(self).update({name: partial(_refuse, what) for name, what in _REFUSED.items()})
        try:
            replay = self._captured(work)
            return Recording(tuple(self._launches), replay)
        finally:
            self._launches = None
            for name in _REFUSED:
                del vars(self)[name]
            vars(self).update(before)
