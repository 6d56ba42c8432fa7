"""Numba's decorators, with a cache on disk that sees a change in any module of the package.

Numba itself looks only at the file of the function that it compiled. What that function inlined from another module,
another function or a constant, stays as it was compiled for good. Here the folder of the cache is named after the
sources of the whole package, so that no change goes unseen.

Numba is imported when the first of these functions is used, not before: that takes longer than all else that
`import gpumf` does.
"""

import hashlib
import os
import shutil
import tempfile
from functools import cache, cached_property, partial, update_wrapper
from pathlib import Path
from types import FunctionType

_PACKAGE = Path(__file__).parent
_KEPT = 8
"""Folders of other sources that stay: several versions of the package may be in use side by side."""


prange = range
"""A loop whose passes a compiled function with parallel=True shares out among the cores (`numba.prange`)."""


class _Late:
    """A function that is compiled when it is first called, from Python or from another compiled function."""

    def __init__(self, decorator, options, function):
        update_wrapper(self, function)
        self._decorator, self._options, self._function = decorator, options, function

    def __call__(self, *arguments):
        return self._compiled(*arguments)

    @cached_property
    def _compiled(self):
        import numba

        function = self._function
        names = function.__globals__
        if names.get("prange") is prange:
            names = names | {"prange": numba.prange}
        same = function.__name__, function.__defaults__, function.__closure__
        function = update_wrapper(FunctionType(function.__code__, names, *same), function)
        folder = _folder()
        # Numba picks a function's folder when it decorates it; functions of other packages keep theirs.
        before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(folder or "")
        try:
            arguments, options = self._options
            decorate = getattr(numba, self._decorator)(*arguments, cache=folder is not None, **options)
            return decorate(function)
        finally:
            numba.config.CACHE_DIR = before

    @property
    def _numba_type_(self):
        """Where Numba compiles a function that calls this one, what it calls is the compiled one."""
        from numba.core.registry import cpu_target

        return cpu_target.typing_context.resolve_value_type(self._compiled)


def _decorator(name, *arguments, **options):
    return partial(_Late, name, (arguments, options))


cached_njit = partial(_decorator, "njit")
cached_vectorize = partial(_decorator, "vectorize")


@cache
def _folder():
    """The cache of these sources, or None where it cannot be written; folders long unused are removed."""
    try:
        folder = _home() / f"gpumf-{_digest(_PACKAGE)}"
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
        os.utime(folder)  # used last of all
        others = sorted(folder.parent.glob("gpumf-*"), key=lambda other: other.stat().st_mtime, reverse=True)
    except (OSError, RuntimeError):  # read-only; without a home; removed meanwhile by another process
        return None
    for other in others[1 + _KEPT :]:
        shutil.rmtree(other, ignore_errors=True)
    return folder


def _home():
    """$NUMBA_CACHE_DIR where it is set, else a folder in the user's cache."""
    import numba

    if numba.config.CACHE_DIR:
        return Path(numba.config.CACHE_DIR)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "gpumf", "numba")


def _digest(package):
    """A digest of every module of a package, by name and content: some milliseconds."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(package)}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:24]
