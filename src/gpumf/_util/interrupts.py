"""Ctrl-C where Python's own way to raise KeyboardInterrupt does harm: see `deferred` and `translated`."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from ctypes import ArgumentError
from threading import current_thread, main_thread
from typing import Any


@contextmanager
def deferred() -> Iterator[None]:
    """Within it, SIGINT waits for its end.

    Raised within the locks of a pool of threads, KeyboardInterrupt leaves one of them held, and the pool waits for
    it forever.
    """
    before = signal.getsignal(signal.SIGINT)
    if current_thread() is not main_thread() or not callable(before):
        yield
        return
    came: list[tuple[Any, ...]] = []
    signal.signal(signal.SIGINT, lambda *what: came.append(what))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            before(*came[0])


class translated(AbstractContextManager[None]):
    """Within it, raise KeyboardInterrupt for what ctypes and Numba make of one while they convert arguments."""

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, ArgumentError | SystemError) and _from_interrupt(error):
            raise KeyboardInterrupt from error


def _from_interrupt(error):
    """Whether it, or what it was raised from, is or names KeyboardInterrupt: Numba makes several errors of one."""
    while error and not isinstance(error, KeyboardInterrupt) and "KeyboardInterrupt" not in str(error):
        error = error.__cause__
    return error is not None
