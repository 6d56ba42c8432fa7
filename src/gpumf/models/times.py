"""Where the seconds of a training go."""

import time
from dataclasses import dataclass

from gpumf._util.jit import SPENT


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
        self._device, self._phase, self._started, self.times = device, None, time.perf_counter(), Times()

    def spent_on(self, phase=None):
        """Count for a phase what passes from now on, up to the next call or the end of a `with` block.

        What was started on the device belongs to it; what was compiled counts apart.

        phase : a field of `Times`; 'compile' where only what was compiled counts; None where nothing does
        """
        if self._phase and self._device:
            self._device.synchronize()
        now, compiled = time.perf_counter(), SPENT.seconds
        if self._device:
            compiled += self._device.compile_seconds
        if self._phase:
            compiling = compiled - self._before
            self.times.compile += compiling
            if self._phase != "compile":
                vars(self.times)[self._phase] += now - self._since - compiling
        self._phase, self._since, self._before = phase, now, compiled
        return self

    def __enter__(self):
        return self

    def __exit__(self, error, *_):
        if error:
            self._phase = None
        self.spent_on()

    def add(self, phase, seconds):
        """Count seconds."""
        vars(self.times)[phase] += seconds

    def stop(self):
        """The times, with all that has passed."""
        self.times.end_to_end = time.perf_counter() - self._started
        return self.times
