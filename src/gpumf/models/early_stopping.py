"""When training ends early, by which metric, and whom it tells of its epochs."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from gpumf._util.validation import integer
from gpumf.models.ranking import METRICS

if TYPE_CHECKING:
    from gpumf.ratings import Ratings

    Row: TypeAlias = dict[str, float]  # of a history
    Keep: TypeAlias = Literal["last", "best"]

ERRORS = "rmse", "mae"
"""Metrics that are better where they are smaller."""


def of_lists(name: str, metric: Any) -> tuple[str, int] | None:
    """Return ('ndcg', 10) of the metric 'ndcg@10', or None of 'rmse' and 'mae'; ValueError of any other."""
    found = isinstance(metric, str) and re.fullmatch(rf"({'|'.join(METRICS)})@([1-9]\d*)", metric)
    if not found and metric not in ERRORS:
        wanted = ", ".join(f"'{one}@10'" for one in METRICS)
        raise ValueError(f"{name} must be 'rmse', 'mae', or as {wanted}, not {metric!r}")
    return (found[1], int(found[2])) if found else None


class Ending:
    """How a training ends, and which epoch is the best: stop, patience, callbacks, keep, stop_metric of `fit`.

    Raises TypeError: callbacks that cannot be called
    Raises ValueError: another keep or metric; patience that is no number of epochs, or without keep='best'
    """

    def __init__(
        self,
        stop: Callable[[Row], Any] | None = None,
        patience: int | None = None,
        callbacks: Iterable[Callable[[Any, Row], Any]] = (),
        keep: Keep = "last",
        stop_metric: str = "rmse",
    ) -> None:
        if keep not in ("last", "best"):
            raise ValueError(f"keep must be 'last' or 'best', not {keep!r}")
        if not hasattr(callbacks, "__iter__"):
            raise TypeError(f"callbacks must be a list of functions, not {callbacks!r}")
        self.callbacks = tuple(callbacks)
        for one in (*self.callbacks, *(() if stop is None else (stop,))):
            if not callable(one):
                raise TypeError(
                    f"stop and callbacks must be functions (of a row; of the model and a row), not {one!r}"
                )
        if patience is not None and keep != "best":
            raise ValueError("patience goes with keep='best', so that the model is that of the best epoch")
        self._of_lists = None if stop_metric == "rmse" else of_lists("stop_metric", stop_metric)
        self.judges_lists = self._of_lists is not None  # whether `measured` ranks
        self.keep, self._stop, self._metric = keep, stop, stop_metric
        self._patience = None if patience is None else integer("patience", patience, 1)
        self._best, self._waited = -math.inf, 0

    def measured(self, rank: Callable[[Ratings, int], Row], validation: Ratings) -> Row:
        """The metric of lists, as a further column of the history, of a model's method that ranks."""
        if self._of_lists is None:
            return {}
        name, k = self._of_lists
        return {self._metric: rank(validation, k)[name]}

    def quality(self, row: Row) -> float:
        """The metric of a row, larger where it is better."""
        return -row[self._metric] if self._metric in ERRORS else row[self._metric]

    def begins_with(self, row: Row) -> None:
        """Wait for epochs that are better than this row, which is that of the model from which training goes on."""
        self._best = self.quality(row)

    def over(self, row: Row) -> bool:
        """Whether training is to end after this row of the history."""
        over = self._stop is not None and bool(self._stop(dict(row)))
        if self._patience is not None:
            better = self.quality(row) > self._best
            self._best, self._waited = (self.quality(row), 0) if better else (self._best, self._waited + 1)
            over |= self._waited >= self._patience
        return over
