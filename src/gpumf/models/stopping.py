"""When training ends early, and whom it tells of its epochs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gpumf.arguments import integer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, Literal, TypeAlias

    Row: TypeAlias = dict[str, float]  # of a history
    Keep: TypeAlias = Literal["last", "best"]


def ending(
    stop: Callable[[Row], Any] | None, patience: int | None, callbacks: Iterable[Callable[[Row], Any]], keep: Keep
) -> Callable[[Row], bool] | None:
    """One function of history rows that tells callbacks and is true where training is to end; None without any.

    stop, patience, callbacks, keep : of `Model.fit`

    Raises
    ------
    TypeError : callbacks that cannot be called
    ValueError : patience that is no number of epochs, or without keep='best'
    """
    if not hasattr(callbacks, "__iter__"):
        raise TypeError(f"callbacks must be a list of functions, not {callbacks!r}")
    callbacks = tuple(callbacks)
    for one in (*callbacks, *(() if stop is None else (stop,))):
        if not callable(one):
            raise TypeError(f"stop and callbacks must be functions of a history row, not {one!r}")
    ways = [] if stop is None else [stop]
    if patience is not None:
        if keep != "best":
            raise ValueError("patience goes with keep='best', so that the model is that of the best epoch")
        ways.append(Patience(integer("patience", patience, 1)))
    if not ways and not callbacks:
        return None

    def told(row):
        for callback in callbacks:
            callback(dict(row))
        return any([way(row) for way in ways])

    return told


class Patience:
    """True after `epochs` rows in a row without a lower RMSE than all before."""

    def __init__(self, epochs):
        self._epochs, self._least, self._waited = epochs, math.inf, 0

    def __call__(self, row):
        better = row["rmse"] < self._least
        self._least, self._waited = (row["rmse"], 0) if better else (self._least, self._waited + 1)
        return self._waited >= self._epochs
