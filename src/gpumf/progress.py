"""A progress bar on a terminal, imported where one is shown; plain lines where nobody watches."""

import sys
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

_Step = TypeVar("_Step")
_LINES = 10


def progress(steps: Iterable[_Step], shown: bool, **options: Any) -> Iterable[_Step]:
    """The steps; where `shown`, with a bar of tqdm, which takes the options.

    Where stderr is no terminal, some ten lines, as 'epochs: 3 of 30', stand in for it: a bar fills a log.
    """
    if not shown:
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
