"""Ctrl-C within pools of threads, and within calls of ctypes and Numba."""

import signal
from ctypes import ArgumentError
from threading import Thread

import pytest

from gpumf import ALS, RBM, SGD
from gpumf._util import interrupts
from gpumf.ratings import Ratings, columns


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


def of_an_interrupt(*_, **__):
    """Raise what Numba makes of one while it converts an array: an error of an error of it."""
    try:
        raise SystemError("_numba_unpickle returned a result with an exception set") from KeyboardInterrupt()
    except SystemError as error:
        raise SystemError("CPUDispatcher returned a result with an exception set") from error


RATINGS = Ratings([0, 1, 1], [0, 0, 1], [4, 3, 5], n_users=2, n_items=2)
CALLS = {
    "fit": lambda model: model.fit(RATINGS, 1),
    "partial_fit": lambda model: model.partial_fit(RATINGS),
    "predict": lambda model: model.predict(0, 0),
    "score": lambda model: model.score(RATINGS),
    "recommend": lambda model: model.recommend(0),
    "recommend to a new user": lambda model: model.recommend(ratings={0: 5.0}),
    "fold_in": lambda model: model.fold_in({0: 5.0}),
    "similar_items": lambda model: model.similar_items(0),
    "evaluate_ranking": lambda model: model.evaluate_ranking(RATINGS, seen=()),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("kind", [ALS, SGD, RBM])
def test_an_interrupt_of_native_code_leaves_methods_as_one(kind, call, monkeypatch):
    model = kind(2, device="cpu", seed=0).fit(RATINGS, 1)
    before = model.predict(0, 0)
    with monkeypatch.context() as patched:
        for step in ("_check_fitted", "_initial"):
            patched.setattr(kind, step, of_an_interrupt)
        with pytest.raises(KeyboardInterrupt):
            call(model)
    assert model.predict(0, 0) == before
