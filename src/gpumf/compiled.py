"""Numba's decorators, with a cache on disk that sees a change in any module of the package.

Numba itself looks only at the file of the function that it compiled. What that function inlined from another module,
another function or a constant, stays as it was compiled for good. Here the folder of the cache is named after the
sources of the whole package, so that no change goes unseen.

Numba is imported when the first of these functions is used, not before: that takes longer than all else that
`import gpumf` does.
"""

import hashlib
import io
import os
import shutil
import sys
import tempfile
from contextlib import contextmanager, suppress
from functools import cache, cached_property, partial, update_wrapper, wraps
from inspect import signature
from pathlib import Path
from types import FunctionType

from gpumf import places
from gpumf.checksums import sealed, unsealed

# Numba's OpenMP reads it when it starts threads. Else they spin for milliseconds when they have nothing to do, on the
# cores that C++ is called to work on next: on two, an epoch of ALS on MovieLens 100K took a third longer for it.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

_PACKAGE = Path(__file__).parent
_KEPT = 8
"""Folders of other sources that stay: several versions of the package may be in use side by side."""


prange = range
"""A loop whose passes a compiled function with parallel=True shares out among the cores (`numba.prange`)."""

SUMS_IN_ANY_ORDER = {"reassoc", "contract", "arcp", "nsz"}
"""`fastmath` with which sums fill vector registers; what is not a number stays so."""


class _Late:
    """A function that is compiled when it is first called, from Python or from another compiled function."""

    def __init__(self, decorator, options, function):
        update_wrapper(self, function)
        self._decorator, self._options, self._function = decorator, options, function

    def __call__(self, *arguments):
        _check_cores(self._options[1].get("parallel"))
        return self._compiled(*arguments)

    @cached_property
    def _compiled(self):
        import numba
        from numba.core import caching

        _watch()
        function = self._function
        names = function.__globals__
        if names.get("prange") is prange:
            names = names | {"prange": numba.prange}
        same = function.__name__, function.__defaults__, function.__closure__
        function = update_wrapper(FunctionType(function.__code__, names, *same), function)
        folder = _folder()
        # Numba picks a function's folder when it decorates it; functions of other packages keep theirs.
        before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(folder or "")
        plain, caching.IndexDataCacheFile = caching.IndexDataCacheFile, _checked(caching.IndexDataCacheFile)
        try:
            arguments, options = self._options
            decorate = getattr(numba, self._decorator)(*arguments, cache=folder is not None, **options)
            return decorate(function)
        finally:
            numba.config.CACHE_DIR, caching.IndexDataCacheFile = before, plain

    @property
    def _numba_type_(self):
        """Where Numba compiles a function that calls this one, what it calls is the compiled one."""
        from numba.core.registry import cpu_target

        return cpu_target.typing_context.resolve_value_type(self._compiled)


def _decorator(name, *arguments, **options):
    return partial(_Late, name, (arguments, options))


_FORKED: list[str] = []
"""What to say where a function is to run on all cores of a process whose parent had done so before it forked."""


def _check_cores(parallel):
    if _FORKED and parallel:
        raise RuntimeError(_FORKED[0])


def cached_by_size(make):
    """`functools.cache` for a function of sizes and `parallel` that has Numba compile another one for them."""
    kept, parameters = cache(make), signature(make)

    @wraps(make)
    def made(*sizes, **named):
        bound = parameters.bind(*sizes, **named)
        _check_cores(bound.arguments["parallel"])
        _watch()
        return kept(*bound.args)

    return made


@cache
def _watch():
    """What adds up the seconds of this process that Numba compiles in, from now on."""
    from numba.core import event

    listener = event.TimingListener()
    event.register("numba:compile", listener)
    return listener


def seconds():
    """In which Numba compiled what was not in its cache, in this process, since this package first had it do so."""
    listener = _watch() if "numba" in sys.modules else None
    return listener.duration if listener and listener.done else 0.0


def _after_fork():
    """GNU's OpenMP, where Numba uses it, ends a forked process that goes on with threads of its parent."""
    numba = sys.modules.get("numba")
    with suppress(AttributeError, ValueError):  # half imported; no threads were started yet
        if sys.platform == "linux" and numba and numba.threading_layer() == "omp":
            _FORKED[:] = [
                "this process was forked from one that had computed on all cores, and can only predict: start it "
                "with multiprocessing.get_context('spawn') instead"
            ]


os.register_at_fork(after_in_child=_after_fork)

cached_njit = partial(_decorator, "njit")
cached_vectorize = partial(_decorator, "vectorize")


@cache
def _checked(plain):
    """Numba's class of a function's files in the cache, `plain`, of files that end with their checksum.

    Numba itself runs whatever machine code it finds there.
    """

    class Checked(plain):
        def _load_index(self):
            return super()._load_index() if _is_whole(self._index_path) else {}

        def _load_data(self, name):
            if not _is_whole(self._data_path(name)):
                raise OSError(f"{name} is damaged")  # at which Numba compiles again
            return super()._load_data(name)

        @contextmanager
        def _open_for_write(self, filepath):
            content = io.BytesIO()
            yield content
            with super()._open_for_write(filepath) as file:
                file.write(sealed(content.getvalue()))

    return Checked


def _is_whole(path):
    try:
        return unsealed(Path(path).read_bytes()) is not None
    except OSError:
        return False


@cache
def _folder():
    """The cache of these sources, or None where it cannot be written; folders long unused are removed."""
    try:
        folder = _home() / f"gpumf-{_digest(_PACKAGE)}"
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
        os.utime(folder)  # used last of all
        others = sorted(folder.parent.glob("gpumf-*"), key=lambda other: other.stat().st_mtime, reverse=True)
    except OSError:  # read-only; without a home; removed meanwhile by another process
        return None
    for other in others[1 + _KEPT :]:
        shutil.rmtree(other, ignore_errors=True)
    return folder


def _home():
    """$NUMBA_CACHE_DIR where it is set, else a folder in the user's cache."""
    import numba

    if numba.config.CACHE_DIR:
        return Path(numba.config.CACHE_DIR)
    return places.cache() / "numba"


def _digest(package):
    """A digest of every module of a package, by name and content: some milliseconds."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(package)}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:24]
