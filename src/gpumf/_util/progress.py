"""A progress bar on a terminal, imported where one is shown; plain lines where nobody watches."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stderr
from typing import Any, TextIO, TypeVar

_Step = TypeVar("_Step")
_LINES = 10
_SECONDS = 10


def progress(steps: Iterable[_Step], shown: bool, **options: Any) -> Iterable[_Step]:
    """The steps; where `shown`, with a bar of tqdm, which takes the options.

    Where stderr is no terminal, some ten lines, as 'epochs: 3 of 30', stand in for it: a bar fills a log.
    """
    if not shown or sys.stderr is None:  # of a daemon, and where it is closed
        return steps
    if not sys.stderr.isatty():
        return _lines(list(steps), options.get("desc", "steps"))
    from tqdm import tqdm

    return tqdm(steps, **options)


def _lines(steps: list[_Step], what: str) -> Iterator[_Step]:
    every = -(-len(steps) // _LINES)
    for done, step in enumerate(steps, 1):
        yield step
        if done % every == 0 or done == len(steps):
            print(f"{what}: {done} of {len(steps)}", file=sys.stderr, flush=True)


@contextmanager
def counted(total: int, shown: bool, **options: Any) -> Iterator[Callable[..., None]]:
    """A function that says how many of `total` steps are done; where `shown`, to a bar that tells the time left."""
    if not shown or sys.stderr is None:
        yield lambda *_: None
        return
    from tqdm import tqdm

    with plain_lines(), tqdm(total=total, smoothing=0, **options) as bar:
        yield lambda steps, *_: bar.update(steps) and None


@contextmanager
def plain_lines() -> Iterator[None]:
    """While it lasts, bars that others draw are lines, one in ten seconds, where stderr is no terminal."""
    if sys.stderr is None or sys.stderr.isatty():
        yield
    else:
        with redirect_stderr(_Plain(sys.stderr)):
            yield


class _Plain:
    """A stream on which each state of a bar, drawn after a carriage return, is a line or nothing."""

    def __init__(self, stream: TextIO):
        self._stream, self._next = stream, 0.0

    def write(self, text: str) -> int:
        if "\r" not in text:
            return self._stream.write(text)
        state, now = text.rpartition("\r")[2].strip(), time.monotonic()
        if state and now >= self._next:
            self._next = now + _SECONDS
            self._stream.write(state + "\n")
            self._stream.flush()
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
