"""How many threads work on the CPU runs on: one setting for C++, Numba, the emulator and the readers of files.

`limited_to` sets it for a block of code, the environment variable GPUMF_NUM_THREADS for a process. By default it is
the number of cores that this process may use. OMP_NUM_THREADS and NUMBA_NUM_THREADS are upper bounds. A model's
parameter `threads` sets it for the model's methods (`obeys_threads`).

Products of NumPy and SciPy run on the threads of their BLAS, which belong to all of the process. Where threadpoolctl
is installed (https://pypi.org/project/threadpoolctl), those of every BLAS that is loaded by then are as few while a
method of a model with `threads` lasts; otherwise BLAS obeys its own settings alone, such as OMP_NUM_THREADS.
"""

from __future__ import annotations

import math
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import cache, wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from gpumf._util import interrupts
from gpumf._util.busy import check_usable
from gpumf._util.forks import in_children
from gpumf._util.validation import integer

P = ParamSpec("P")
R = TypeVar("R")
Model = TypeVar("Model")

_PROC, _CGROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
_LIMIT: ContextVar[int | None] = ContextVar("limit", default=None)


def count() -> int:
    """Return the number of threads that work runs on; ValueError where GPUMF_NUM_THREADS is no integer from 1."""
    usual, most = _settings(len(_affinity(0)), *map(os.environ.get, _VARIABLES))
    return min(_LIMIT.get() or usual, most)


@contextmanager
def limited_to(threads: int | None) -> Iterator[None]:
    """Within it, run work on so many threads, from 1; None changes nothing."""
    before = _LIMIT.set(_LIMIT.get() if threads is None else integer("threads", threads, 1))
    try:
        yield
    finally:
        _LIMIT.reset(before)


def obeys_threads(method: Callable[Concatenate[Model, P], R]) -> Callable[Concatenate[Model, P], R]:
    """Decorate a method of a model: on the CPU it runs on the model's `threads` at most, bounds and limits kept.

    RuntimeError where another thread has begun to fit the model meanwhile: what was read may be of two models.
    KeyboardInterrupt leaves it as such, whatever native code made of it. TypeError names the parameters where another
    one is given.
    """
    function: Any = method
    code = function.__code__
    names = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]

    def run(self: Model, /, *arguments: P.args, **named: P.kwargs) -> R:
        given: Any = self
        if given.threads is None or given.device != "cpu":
            return method(self, *arguments, **named)
        most = min(integer("threads", given.threads, 1), count())
        with limited_to(most), _BLAS.limited_to(most):
            return method(self, *arguments, **named)

    @wraps(method)
    def limited(self: Model, /, *arguments: P.args, **named: P.kwargs) -> R:
        if unknown := named.keys() - names:
            told = f"{type(self).__name__}.{function.__name__}() has no parameter {min(unknown)!r}"
            raise TypeError(f"{told}; it has {', '.join(names)}")
        check_usable(self)
        with interrupts.translated():
            result = run(self, *arguments, **named)
        if result is not self:  # which fits return
            check_usable(self)
        return result

    return limited


class _Blas:
    """Threads of BLAS: as few as any method under way is to have, and after the last one those from before."""

    def __init__(self):
        self._lock, self._first = threading.Lock(), None
        self._limits = []  # (thread, its limit) of each method
        self._found = self._among = None

    def _limit(self, controller):
        """Have every BLAS on as few threads as asked for, also one that was loaded, with a module, since the last."""
        among = controller, len(sys.modules)
        if self._among != among:
            self._found, self._among = controller(), among
        return self._found.limit(limits=min(limit for _, limit in self._limits), user_api="blas")

    @contextmanager
    def limited_to(self, threads):
        try:
            from threadpoolctl import ThreadpoolController
        except ImportError:
            yield
            return
        limit = threading.get_ident(), threads
        with self._lock:
            self._limits.append(limit)
            limited = self._limit(ThreadpoolController)
            self._first = self._first or limited
        try:
            yield
        finally:
            with self._lock:
                self._limits.remove(limit)
                if self._limits:
                    self._limit(ThreadpoolController)
                else:
                    self._first.restore_original_limits()
                    self._first = None

    def forget_other_threads(self):
        """In a process that was forked: the next method leaves BLAS as it was before theirs."""
        self._lock = threading.Lock()
        self._limits = [one for one in self._limits if one[0] == threading.get_ident()]


_BLAS = _Blas()
in_children(_BLAS.forget_other_threads)


def one_blas_thread() -> AbstractContextManager[None]:
    """Within it, run each product of NumPy on one thread, for work that is on several itself."""
    return _BLAS.limited_to(1)


def cores() -> int:
    """Return the number of cores that this process may use, by its affinity and the quota of its cgroups."""
    usual, _ = _settings(len(_affinity(0)), None)
    return usual


_affinity = getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))
_VARIABLES = "GPUMF_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"


@cache
def _settings(usable, given, *bounds):
    """(threads without a limit, the most that there may be), by cores of the affinity and values of `_VARIABLES`."""
    given = (given or "").strip()
    if given and not (given.isdecimal() and int(given)):
        raise ValueError(f"GPUMF_NUM_THREADS must be an integer from 1, not {given!r}")
    # OMP_NUM_THREADS may be a list, one for each level of nested loops.
    texts = ((text or "").split(",")[0].strip() for text in bounds)
    most = min((int(text) for text in texts if text.isdecimal() and int(text)), default=math.inf)
    return int(given) if given else max(1, math.ceil(min(usable, _quota()))), most


@cache
def _quota():
    """Return how many cores' time the cgroups of this process, version 1 or 2, leave to it; infinity if unlimited."""
    try:
        lines = [line.split(":", 2) for line in _PROC.read_text().splitlines()]
    except OSError:  # not Linux
        return math.inf
    quotas = [math.inf]
    for _, controllers, name in lines:
        if controllers and "cpu" not in controllers.split(","):
            continue
        inner = Path(name.lstrip("/"))
        # In a container the path may be the host's; its own group is mounted at the root.
        for folder in [_CGROUPS / controllers, _CGROUPS / "cpu"] if controllers else [_CGROUPS]:
            quotas += [_quota_of(folder / place) for place in (inner, *inner.parents)]
    return min(quotas)


def _quota_of(folder):
    for names in (["cpu.max"], ["cpu.cfs_quota_us", "cpu.cfs_period_us"]):
        try:
            quota, period = " ".join((folder / name).read_text() for name in names).split()
            if quota != "max" and int(quota) > 0:
                return int(quota) / int(period)
        except (OSError, ValueError):
            continue
    return math.inf
