"""Files that are written beside their place and put there whole: readers meet the old one or the new one.

Both ways, reading and writing, take regular files alone: a pipe would have readers wait for ever, and a device never
end or be replaced by a file.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import BinaryIO

from gpumf._util.validation import path_of

try:
    import fcntl
except ImportError:  # on Windows, where what a killed process left is not told from what another one writes
    fcntl = None  # type: ignore[assignment]

_SUFFIX = ".saving"
_MAX_NAME = 255  # bytes, in most file systems


def open_file(path: str | PathLike) -> BinaryIO:
    """Open a file to read; OSError where it is not there, or no regular file."""
    # A pipe without writers is not waited for.
    opened = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0))
    mode = os.fstat(opened).st_mode
    if not stat.S_ISREG(mode):
        os.close(opened)
        kind = (errno.EISDIR, "it is a folder") if stat.S_ISDIR(mode) else (errno.EINVAL, "it is no regular file")
        raise OSError(*kind, os.fspath(path))
    return os.fdopen(opened, "rb")


@contextmanager
def replacing(path: str | PathLike) -> Iterator[BinaryIO]:
    """While it lasts, a new file beside `path`; at its end it is in the place of `path`, unless something is raised.

    A symbolic link stays one, and what it points to is replaced. A file that is replaced hands on its mode. The new
    file is locked as long as it is written: those for the same path that nobody has locked are of processes that were
    killed, and are removed first.

    Raises OSError: the file cannot be written, and nothing of it is left; something else has this name, and stays
    """
    path = Path(os.path.realpath(path_of(path)))
    if os.path.lexists(path) and not stat.S_ISREG(path.stat().st_mode):  # where links are a loop, stat() raises
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    _clear(path)
    beside, file = _made(path)
    try:
        with suppress(OSError):
            os.chmod(beside, path.stat().st_mode & 0o777)
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if fcntl:
                os.replace(beside, path)  # before the lock goes
        finally:
            file.close()
        if not fcntl:
            os.replace(beside, path)  # which Windows does with closed files alone
    except BaseException as error:
        with suppress(OSError):
            beside.unlink()
        if isinstance(error, OSError) and error.filename is None:  # as where the disk is full
            error.filename = str(path)
        raise


class _Tried(Exception):
    """Ends an attempt to write, which leaves nothing."""


def check_writable(path: str | PathLike) -> None:
    """Raise OSError where `replacing(path)` cannot write."""
    with suppress(_Tried), replacing(path):
        raise _Tried


def _made(path: Path) -> tuple[Path, BinaryIO]:
    """A new file beside the path, locked, and its name."""
    while True:
        beside = path.with_name(f".{_start(path)}.{secrets.token_hex(8)}{_SUFFIX}")
        try:
            new = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        except OSError as error:
            error.filename = str(path)  # what the user named
            raise
        file = os.fdopen(new, "w+b")
        if fcntl:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:  # not removed by another process before the lock
            return beside, file
        file.close()


def _start(path: Path) -> str:
    """The name of a path, cut so that those of files beside it are no longer than file systems take."""
    name = path.name
    if len(os.fsencode(name)) > _MAX_NAME:  # which is told when the file beside it is made
        return name
    while len(os.fsencode(name)) > _MAX_NAME - len("..0123456789abcdef") - len(_SUFFIX):
        name = name[:-1]
    return name


def leftover(name: str, path: Path) -> bool:
    """Whether a file of this name, in the folder of `path`, is one that `replacing(path)` makes."""
    return re.fullmatch(rf"\.{re.escape(_start(path))}\.[0-9a-f]{{16}}{re.escape(_SUFFIX)}", name) is not None


def _clear(path: Path) -> None:
    """Remove the files of this user that `replacing(path)` made and no process writes."""
    if not fcntl:
        return
    with suppress(OSError), os.scandir(path.parent) as entries:
        for entry in entries:
            if not leftover(entry.name, path) or not entry.is_file(follow_symlinks=False):
                continue
            if entry.stat(follow_symlinks=False).st_uid != os.geteuid():
                continue
            with suppress(OSError), open(entry.path, "r+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(entry.path)
