"""Ctrl-C where Python's own way to raise KeyboardInterrupt does harm: see `deferred` and `translated`."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def translated() -> Iterator[None]:
    """Within it, raise KeyboardInterrupt for what ctypes and Numba make of one while they convert arguments."""
    try:
        yield
    except (ArgumentError, SystemError) as error:
        if isinstance(error.__cause__, KeyboardInterrupt) or "KeyboardInterrupt" in str(error):
            raise KeyboardInterrupt from error
        raise
