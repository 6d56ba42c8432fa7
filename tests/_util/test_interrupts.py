"""Ctrl-C within pools of threads, and within calls of ctypes and Numba."""

import signal
from ctypes import ArgumentError
from threading import Thread

import pytest

from gpumf._util import interrupts
from gpumf.ratings import columns


@pytest.fixture
def handled():
    """Python's own handler, which a process that a shell began in the background does not have."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_waits_for_the_end_of_a_pool(handled):
    ended = []
    with pytest.raises(KeyboardInterrupt), columns.pool() as threads:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        ended += threads.map(abs, [-1, 2])
    assert ended == [1, 2] and signal.getsignal(signal.SIGINT) is handled
    with pytest.raises(KeyboardInterrupt), interrupts.deferred(), columns.pool():
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is handled


def test_who_has_no_handler_or_is_another_thread_changes_none(handled):
    def other():
        with interrupts.deferred():
            found.append(signal.getsignal(signal.SIGINT))

    found = []
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with interrupts.deferred():
        found.append(signal.getsignal(signal.SIGINT))
    signal.signal(signal.SIGINT, handled)
    thread = Thread(target=other)
    thread.start()
    thread.join()
    assert found == [signal.SIG_IGN, handled]


def test_errors_made_of_interrupts_are_interrupts():
    for made in (ArgumentError("argument 1: KeyboardInterrupt: "), SystemError("returned a result")):
        with pytest.raises(KeyboardInterrupt), interrupts.translated():
            raise made from KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt), interrupts.translated():
        raise ArgumentError("argument 1: KeyboardInterrupt: ")
    for other in (ArgumentError("argument 1: TypeError: wrong type"), SystemError("bad call")):
        with pytest.raises(type(other), match=str(other)), interrupts.translated():
            raise other
