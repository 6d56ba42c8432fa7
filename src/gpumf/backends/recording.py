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

from gpumf.backends import DeviceError


@dataclass(frozen=True)
class Recording:
    """Launches that a call runs again, in their order. Its length is their number."""

    launches: tuple  # on a GPU their arguments, which must live as long as the graph
    replay: Callable

    def __call__(self):
        self.replay()

    def __len__(self):
        return len(self.launches)


class Recorder:
    """The part of a device that records launches."""

    _launches = None  # recorded so far; None while nothing is recorded

    def recorded(self, work):
        """The launches of work(), which do not run now: see `gpumf.backends.recording`.

        Parameters
        ----------
        work : function without arguments, which launches kernels and asks for nothing else of the device

        Returns
        -------
        Recording: calling it runs the launches

        Raises
        ------
        DeviceError : work allocates, copies, waits, takes times or records
        """
        self._not_while_recording("record others")
        self._launches = []
        try:
            replay = self._captured(work)
            return Recording(tuple(self._launches), replay)
        finally:
            self._launches = None

    def _not_while_recording(self, what):
        if self._launches is not None:
            raise DeviceError(f"a device cannot {what} while it records launches: do it before")
