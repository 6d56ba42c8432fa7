"""Numba's decorators, with a cache on disk that sees a change in any module of the package.

Numba itself looks only at the file of the function that it compiled. What that function inlined from another module,
another function or a constant, stays as it was compiled for good. Here the folder of the cache is named after the
sources of the whole package, so that no change goes unseen.
"""

import hashlib
import os
import shutil
import tempfile
from functools import cache, partial
from pathlib import Path

import numba

_PACKAGE = Path(__file__).parent
_KEPT = 8
"""Folders of other sources that stay: several versions of the package may be in use side by side."""


def _cached(decorator, *arguments, **options):
    """The decorator with these arguments, and with the package's cache, or none where no folder can be written."""

    def decorate(function):
        folder = _folder()
        # Numba picks a function's folder when it decorates it; functions of other packages keep theirs.
        before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(folder or "")
        try:
            return decorator(*arguments, cache=folder is not None, **options)(function)
        finally:
            numba.config.CACHE_DIR = before

    return decorate


cached_njit = partial(_cached, numba.njit)
cached_vectorize = partial(_cached, numba.vectorize)


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
