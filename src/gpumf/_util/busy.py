"""Which models are being fitted, and by which thread: no other thread may use a model meanwhile.

This is not kept in the model, so that files, pickles, copies and comparisons of models know nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident

from gpumf._util.forks import in_children

_FITTING: dict[int, int] = {}
"""id of a model -> the thread that fits it. The fit refers to the model, so that no other object gets its id."""
_OF_PARENT = 0
"""In the place of a thread that this process, which was forked meanwhile, does not have."""


@contextmanager
def fitting(model: object) -> Iterator[None]:
    """Within it, this thread alone may use the model; RuntimeError where another one fits it. It may be nested."""
    key, thread = id(model), get_ident()
    outermost = key not in _FITTING
    try:
        if _FITTING.setdefault(key, thread) != thread:
            raise _refusal(model)
        yield
    finally:
        if outermost and _FITTING.get(key) == thread:
            del _FITTING[key]


def check_usable(model: object) -> None:
    """Raise RuntimeError where another thread fits the model."""
    if _FITTING and _FITTING.get(id(model)) not in (None, get_ident()):
        raise _refusal(model)


def check_idle(model: object) -> None:
    """Raise RuntimeError where any thread fits the model, this one too, as in a callback."""
    check_usable(model)
    if id(model) in _FITTING:
        raise RuntimeError(f"this {type(model).__name__} is being fitted, so that its parameters cannot change")


def _refusal(model):
    name = type(model).__name__
    if _FITTING.get(id(model)) == _OF_PARENT:
        return RuntimeError(
            f"this process was forked while another thread of its parent fitted this {name}; fork when it is fitted, "
            "or load or fit a new model here"
        )
    return RuntimeError(
        f"fit is running on this {name} in another thread; fit a new model there, and replace this one by it when it "
        "is fitted"
    )


@in_children
def _after_fork():
    _FITTING.update({key: _OF_PARENT for key, thread in _FITTING.items() if thread != get_ident()})
