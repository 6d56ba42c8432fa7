"""What a process needs that is forked from a busy one: it has no other thread, and none gives back what they held."""

import functools
import os
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, TypeVar

T = TypeVar("T")


def in_children(renew: Callable[[], None]) -> Callable[[], None]:
    """Decorate a function that every process calls that is forked from this one."""
    if hasattr(os, "register_at_fork"):  # not on Windows
        os.register_at_fork(after_in_child=renew)
    return renew


class cached_property(functools.cached_property[T]):
    """`functools.cached_property` without the lock of Python 3.11: threads that ask at once may make it twice."""

    def __init__(self, function: Callable[[Any], T]) -> None:
        super().__init__(function)
        self.lock = nullcontext()
