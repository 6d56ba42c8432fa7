"""Where things lie outside the package: data and results of this user, and what was compiled.

In a checkout data and results are part of it. An installed package has them where the system keeps a user's data
(`platformdirs`): a folder of packages is neither its own nor always writable.
"""

import os
import stat
import tempfile
import warnings
from contextlib import suppress
from functools import cache as once
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]


def checkout() -> Path | None:
    """The root of the repository that this package runs from, or None for an installed package."""
    root = _PACKAGE.parents[1]
    return root if _PACKAGE.parent.name == "src" and (root / "kernels").is_dir() else None


def home() -> Path:
    """The folder whose `data` holds data sets and results: the checkout, else this user's; OSError without a home."""
    import platformdirs

    return checkout() or _known(platformdirs.user_data_path)


def cache() -> Path:
    """The folder of what is compiled for this user, which need not exist yet; OSError without a home."""
    import platformdirs

    return _known(platformdirs.user_cache_path)


def _known(folder):
    # Without a home some versions raise, and others leave its sign, ~, in the path.
    with suppress(RuntimeError):
        if (path := folder("gpumf")).is_absolute():
            return path
    raise OSError("this user has no home folder; set HOME to one that can be written")


# Code that is executed is loaded only from where no other user could have put it.


def make_private(folder: Path) -> None:
    """Make a folder, with those above it, that this user alone can change.

    Raises
    ------
    OSError : it cannot be made or written, or others could change what is in it; a warning tells the latter, once
    """
    for missing in reversed([place for place in (folder, *folder.parents) if not place.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)
    if why := _why_others_could_write(folder):
        _warn(f"{why}: compiled code is not kept in {folder}")
        raise PermissionError(why)
    if hasattr(os, "geteuid") and folder.stat().st_mode & 0o077:
        folder.chmod(0o700)
    tempfile.TemporaryFile(dir=folder).close()


def warn_not_kept(error: OSError) -> None:
    """Warn, once, of a folder that compiled code cannot be kept in; `make_private` has told of one open to others."""
    if not (isinstance(error, PermissionError) and error.errno is None):
        _warn(
            f"compiled code is not kept, and each process compiles again: {error}; set XDG_CACHE_HOME to a folder "
            "that this user can write"
        )


def others_could_write(folder: Path) -> bool:
    """Whether others than this user could have put files into a folder of another program's; a warning tells, once.

    The folder need not exist, and stays as it is.
    """
    try:
        places = [folder, *folder.iterdir()] if folder.exists() else []
        why = next(filter(None, map(why_not_private, places)), None) or _why_others_could_write(folder)
    except OSError as error:
        why = str(error)
    if why:
        _warn(f"{why}: compiled code in {folder} is not loaded")
    return why is not None


def _why_others_could_write(folder):
    """As `why_not_private`, of a folder and of those above it, as far as they exist."""
    above = {*folder.absolute().parents, *folder.resolve().parents}
    return why_not_private(folder) or next(filter(None, (_why_open(at) for at in sorted(above) if at.exists())), None)


def why_not_private(path: Path) -> str | None:
    """One sentence on who else could have written a file or folder, or None where it is this user's alone or gone."""
    if not hasattr(os, "geteuid"):  # Windows keeps users apart by other means
        return None
    try:
        found = path.lstat()
    except FileNotFoundError:  # programs rename what they have written
        return None
    if stat.S_ISLNK(found.st_mode):
        return f"{path} is a link"
    if found.st_uid != os.geteuid():
        return f"{path} belongs to another user"
    return f"{path} can be written by others" if found.st_mode & 0o022 else None


def _why_open(folder):
    """As `why_not_private`, of a folder above: it may be root's, and where only owners rename (/tmp), everybody's."""
    if not hasattr(os, "geteuid"):  # Windows keeps users apart by other means
        return None
    found = folder.stat()
    if found.st_uid not in (0, os.geteuid()):
        return f"{folder} belongs to another user"
    return (
        f"{folder} can be written by others" if found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX else None
    )


@once
def _warn(message):
    warnings.warn(message, RuntimeWarning, stacklevel=2)
