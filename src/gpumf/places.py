"""Where things lie outside the package: data and results of this user, and what was compiled.

In a checkout data and results are part of it. An installed package has them where the system keeps a user's data
(`platformdirs`): a folder of packages is neither its own nor always writable.
"""

from contextlib import suppress
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def checkout() -> Path | None:
    """The root of the repository that this package runs from, or None for an installed package."""
    root = _PACKAGE.parents[1]
    return root if _PACKAGE.parent.name == "src" and (root / "kernels").is_dir() else None


def home() -> Path:
    """The folder whose `data` holds data sets and results: the checkout, else this user's folder of gpumf.

    Raises
    ------
    OSError : an installed package, and nothing says where the user's folders are
    """
    import platformdirs

    return checkout() or _known(platformdirs.user_data_path)


def cache() -> Path:
    """The folder of what is compiled for this user; it need not exist yet.

    Raises
    ------
    OSError : nothing says where the user's folders are
    """
    import platformdirs

    return _known(platformdirs.user_cache_path)


def _known(folder):
    # Without a home some versions raise, and others leave its sign, ~, in the path.
    with suppress(RuntimeError):
        if (path := folder("gpumf")).is_absolute():
            return path
    raise OSError("this user has no home folder; set HOME to one that can be written")
