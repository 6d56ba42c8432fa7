"""Numba's decorators, applied when a function is first used, with a cache on disk that sees every change.

Importing Numba takes longer than all else that `import gpumf` does, so nothing here imports it before the first call.

Numba's cache looks only at the file of the function that it compiled. What that function inlined from another module,
another function or a constant, stays as it was compiled for good. Here each function has a cache folder of its own.
Its name contains a digest of the files of the function and of all compiled functions that it calls, so that an edit
has what it concerns compiled again, and nothing else.
"""

import hashlib
import json
import os
import re
import shutil
import sys
import threading
import time
from contextlib import contextmanager, nullcontext, suppress
from functools import cache, partial, update_wrapper, wraps
from inspect import signature
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType, SimpleNamespace

import numpy as np

from gpumf._util import interrupts, paths, threads
from gpumf._util.forks import in_children

_KEPT = 8
"""Cache folders of a function that stay: several versions of the package may be in use side by side."""
_FOLDER_NAME = re.compile(r"(.+)-[0-9a-f]{24}")
_CHECKSUMS = "checksums.json"

prange = range
"""A loop whose passes a compiled function with parallel=True shares out among threads (`numba.prange`)."""

SUMS_IN_ANY_ORDER = {"reassoc", "contract", "arcp", "nsz"}
"""`fastmath` with which sums fill vector registers; what is not a number stays so."""


_STATE = SimpleNamespace(lock=threading.RLock(), turn=threading.RLock(), cached=True, parallel=True)
"""Of this process: the lock of first uses (reentrant: to compile a function is to compile those that it calls), that
of threads to compute on all others, and whether functions are cached on disk and may run in parallel."""


class _Spent(threading.local):
    """Of each thread: `seconds` on what was not compiled before, and whether it is `compiling` already."""

    seconds, compiling = 0.0, False


SPENT = _Spent()


class _Late:
    """A function that is compiled when it is first called, from Python or from another compiled function."""

    def __init__(self, decorator, options, function):
        update_wrapper(self, function)
        self._decorator, self._options, self._function = decorator, options, function
        # Read at import, as the function was: a file that is edited later has another digest.
        self._source = _digest(function.__code__.co_filename)
        self._made, self._known = {}, {}

    def __call__(self, *arguments):
        kind = [_STATE.cached, _STATE.parallel]
        for one in arguments:  # told apart in a fraction of the time that `numba.typeof` takes
            kind.append((one.dtype, one.ndim, one.flags.num) if isinstance(one, np.ndarray) else type(one))
        kind = tuple(kind)
        if kind not in self._known:
            _again_without_cache(lambda: self._compile(arguments))
            self._known[kind] = self.compiled
        if self._options[1].get("parallel"):
            return _on_threads(self._known[kind], arguments)
        return self._known[kind](*arguments)

    @property
    def compiled(self):
        """What Numba makes of the function: what other functions that Numba compiles may call."""
        variant = _STATE.cached, _STATE.parallel
        if variant not in self._made:
            with _first_use():
                if variant not in self._made:
                    self._made[variant] = _again_without_cache(self._decorated)
        return self._made[variant]

    def _compile(self, arguments):
        """Have Numba compile the function for arguments of these types, or load it from its cache."""
        function = self.compiled
        if self._decorator == "njit":
            with _first_use() as numba, _counted() as count:
                before = function.stats.cache_misses.total()
                try:
                    function.compile(tuple(map(numba.typeof, arguments)))
                finally:
                    count(function.stats.cache_misses.total() > before)

    def _decorated(self):
        import numba

        function, names = self._function, dict(self._function.__globals__)
        for name, value in self._globals():
            if isinstance(value, _Late):
                names[name] = value.compiled
            elif value is prange:
                names[name] = numba.prange
        same = function.__name__, function.__defaults__, function.__closure__
        function = update_wrapper(FunctionType(function.__code__, names, *same), function)
        types, options = self._options
        if "parallel" in options:
            options = options | {"parallel": options["parallel"] and _STATE.parallel}
            _start_threads(options["parallel"])
        folder = self._folder(options, numba)
        # Numba picks a function's folder when it decorates it; functions of other packages keep theirs.
        before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(folder or "")
        files = _files(folder)
        try:
            with _counted() as count:
                made = getattr(numba, self._decorator)(*types, cache=folder is not None, **options)(function)
                # With types given, as of `vectorize`, Numba compiles here.
                count(bool(types) and (folder is None or _files(folder) != files))
        finally:
            numba.config.CACHE_DIR = before
        return made

    def _globals(self):
        """(name, value) of the globals that the function uses."""
        space = self._function.__globals__
        return [(name, space[name]) for name in sorted(_names(self._function.__code__)) if name in space]

    def _facts(self):
        """What the machine code depends on: sources, options and constants, of the functions that are called too."""
        facts = {self._source, *(f"{key}={_ordered(value)}" for key, value in self._options[1].items())}
        for name, value in self._globals():
            if isinstance(value, _Late):
                facts |= value._facts()
            elif not isinstance(value, ModuleType | FunctionType | BuiltinFunctionType | type):
                facts.add(f"{name}={_ordered(value)}")
        return facts

    def _folder(self, options, numba):
        """The cache folder of the function, or None where there is none."""
        facts = self._facts() | {f"numba {numba.__version__}", f"parallel {options.get('parallel')}"}
        if not _STATE.cached or "" in facts:
            return None
        digest = hashlib.sha256("\0".join(sorted(facts)).encode()).hexdigest()[:24]
        return _opened(f"{self.__module__.removeprefix('gpumf.')}.{self.__name__}", digest, numba.config.CACHE_DIR)


def _again_without_cache(work):
    """work(), and where it fails as the cache does, on a full disk, say: again, compiling for this process alone."""
    try:
        return work()
    except OSError:
        if not _STATE.cached:
            raise
        _STATE.cached = False
        return work()


def _ordered(value):
    """A repr that is the same in every process."""
    return repr(sorted(value) if isinstance(value, set | frozenset) else value)


def _names(code):
    """The names that a function's code, and functions within it, look up."""
    return set(code.co_names).union(*(_names(inner) for inner in code.co_consts if isinstance(inner, CodeType)))


@cache
def _digest(file):
    """Of its contents; empty where there is no such file, as for a function that was typed in."""
    try:
        return hashlib.sha256(Path(file).read_bytes()).hexdigest()
    except OSError:
        return ""


def cached_njit(**options):
    """As `numba.njit`."""
    return partial(_Late, "njit", ((), options))


def cached_vectorize(*types):
    """As `numba.vectorize`."""
    return partial(_Late, "vectorize", (types, {}))


def cached_by_size(make):
    """`functools.cache` for a function of sizes and `parallel` that has Numba compile another one for them."""
    kept, parameters = cache(lambda *sizes: _running_on_threads(make(*sizes))), signature(make)

    @wraps(make)
    def made(*sizes, **named):
        bound = parameters.bind(*sizes, **named)
        bound.arguments["parallel"] = bound.arguments["parallel"] and _STATE.parallel
        with _first_use(), _counted() as count:
            _start_threads(bound.arguments["parallel"])
            before = kept.cache_info().misses
            found = kept(*bound.args)
            count(kept.cache_info().misses > before)
        return found

    return made


@contextmanager
def _first_use():
    """Let one thread at a time import Numba and compile.

    Ctrl-C waits meanwhile: callbacks of LLVM lose it, or leave a function without machine code.
    """
    with _STATE.lock, interrupts.deferred():
        import numba

        yield numba


def _running_on_threads(made):
    """A function, or an object of functions, that runs on as many threads as it is to."""
    if isinstance(made, SimpleNamespace):
        return SimpleNamespace(**{name: _running_on_threads(function) for name, function in vars(made).items()})

    @wraps(made)
    def run(*arguments):
        return _on_threads(made, arguments)

    return run


def _on_threads(function, arguments):
    """Have Numba run a function on `threads.count()` threads, or fewer where the user told it so."""
    if not _STATE.parallel:
        return function(*arguments)
    numba = sys.modules["numba"]
    before = numba.get_num_threads()
    # Numba's own threads, which it has where there is no OpenMP, end a process that uses them from two at a time.
    turn = _STATE.turn if numba.threading_layer() == "workqueue" else nullcontext()
    wanted = min(threads.count(), before)
    if wanted < before:
        numba.set_num_threads(wanted)
    try:
        with turn:
            return function(*arguments)
    finally:
        if wanted < before:
            numba.set_num_threads(before)


@cache
def _start_threads(parallel):
    """Start Numba's threads so that they sleep where they have nothing to do, unless the user says otherwise.

    GNU's OpenMP reads OMP_WAIT_POLICY when it is loaded, here. By default its threads spin for milliseconds, on the
    cores that C++ is called to work on next.
    """
    if not parallel:
        return
    import numba

    given = "OMP_WAIT_POLICY" in os.environ
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        numba.get_num_threads()
    finally:
        if not given:
            del os.environ["OMP_WAIT_POLICY"]


@contextmanager
def _counted():
    """Time the body for `SPENT`, where it calls the function that it is given with True, within no other one."""
    outermost, started, compiled = not SPENT.compiling, time.perf_counter(), []
    SPENT.compiling = True
    try:
        yield compiled.append
    finally:
        if outermost:
            SPENT.compiling = False
            if any(compiled):
                SPENT.seconds += time.perf_counter() - started
                _seal()


@in_children
def _after_fork():
    """A child process has none of its parent's threads; GNU's OpenMP ends one that goes on with them."""
    numba = sys.modules.get("numba")
    # Threads that are no more may have held them.
    _STATE.lock, _STATE.turn = threading.RLock(), threading.RLock()
    with suppress(AttributeError, ValueError):  # half imported; no threads were started yet
        if numba and numba.threading_layer():
            _STATE.parallel = False


if hasattr(os, "register_at_fork"):  # a fork waits while Numba compiles: what it holds then nobody else can give back
    os.register_at_fork(before=lambda: _STATE.lock.acquire(), after_in_parent=lambda: _STATE.lock.release())


# Folders of the cache. Numba runs whatever machine code it finds there.

_OPENED: dict[Path, set[Path]] = {}
"""The folders that this process uses, with the files whose checksums are written down."""


@cache
def _opened(name, digest, given):
    """The folder for a function whose sources have this digest, or None; what of it is damaged is removed."""
    try:
        home = Path(given) / "gpumf" if given else paths.cache() / "numba"
        paths.make_private(home)
        folder = home / f"{name}-{digest}"
        paths.make_private(folder)
        if not _is_whole(folder):
            for file in _files(folder):
                file.unlink(missing_ok=True)
        os.utime(folder)  # used last of all
        _remove_old(home, name)
    except OSError as error:  # read-only; without a home; full; open to others
        paths.warn_not_kept(error)
        return None
    _OPENED[folder] = _files(folder)
    return folder


def _remove_old(home, name):
    """Remove those folders of other sources of a function that were not used for longest."""
    own = [folder for folder in home.iterdir() if (match := _FOLDER_NAME.fullmatch(folder.name)) and match[1] == name]
    own = [(folder.stat().st_mtime, folder) for folder in own if paths.why_not_private(folder) is None]
    for _, folder in sorted(own, reverse=True)[1 + _KEPT :]:
        shutil.rmtree(folder, ignore_errors=True)


def _files(folder):
    """The files in which Numba keeps machine code and the index of it."""
    return set(folder.rglob("*.nb[ic]")) if folder else set()


def _is_whole(folder):
    """Whether each of these files is this user's and as it was written."""
    try:
        known = json.loads((folder / _CHECKSUMS).read_text())
        return _checksums(folder) == known and all(paths.why_not_private(file) is None for file in _files(folder))
    except (OSError, ValueError):
        return False


def _seal():
    """Write down the checksums of what Numba has added."""
    for folder, sealed in _OPENED.items():
        with suppress(OSError):  # then the next process compiles again
            if (files := _files(folder)) != sealed:
                for file in files:
                    file.chmod(0o600)  # whatever the umask
                new = folder / f"{_CHECKSUMS}.{os.getpid()}"
                new.write_text(json.dumps(_checksums(folder)))
                new.replace(folder / _CHECKSUMS)
                _OPENED[folder] = files


def _checksums(folder):
    return {str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in _files(folder)}
