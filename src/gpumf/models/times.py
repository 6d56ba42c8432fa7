"""Where the seconds of a training go."""

import time
from contextlib import contextmanager
from dataclasses import dataclass

from gpumf._util import jit
from gpumf.backends import compile as native


@dataclass
class Times:
    """Seconds of one `fit`, up to the model's arrays on the host.

    preprocess : statistics, checks and orders of the ratings, initial factors and work lists, wherever they are made
    transfer : ratings to the device, and what was learned back; nothing on the CPU
    train : the epochs, as the history has them
    compile : waiting for kernels, and functions of the CPU's, that were not compiled before. Kernels of a GPU
        are compiled side by side, while the ratings are copied and ordered
    end_to_end : all of it as a user waits for it, with errors on a validation set and what is kept of each epoch,
        which belong to none of the others
    """

    preprocess: float = 0.0
    transfer: float = 0.0
    train: float = 0.0
    compile: float = 0.0
    end_to_end: float = 0.0


class Clock:
    """Adds up the `times` of a training that begins now, on a device of `gpumf.backends` or on the CPU (None)."""

    def __init__(self, device):
        self._device, self._started, self.times = device, time.perf_counter(), Times()

    @contextmanager
    def spent_on(self, phase=None):
        """Count the seconds of the body, and of what it started on the device; what was compiled counts apart.

        phase : a field of `Times`; None where only what was compiled counts
        """
        started, before = time.perf_counter(), self._compiled
        yield
        if self._device:
            self._device.synchronize()
        compiling = self._compiled - before
        self.times.compile += compiling
        if phase:
            self.add(phase, time.perf_counter() - started - compiling)

    def add(self, phase, seconds):
        """Count seconds."""
        setattr(self.times, phase, getattr(self.times, phase) + seconds)

    @property
    def _compiled(self):
        on_device = self._device.compile_seconds if self._device else 0.0
        return on_device + jit.seconds() + native.seconds()

    def stop(self):
        """The times, with all that has passed."""
        self.times.end_to_end = time.perf_counter() - self._started
        return self.times
