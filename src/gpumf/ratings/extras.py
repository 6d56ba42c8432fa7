"""Packages that only some data sets need, of the extra `data`."""

from importlib import import_module
from types import ModuleType

from gpumf.ratings.checks import DataError


def of_extra(name: str, what: object) -> ModuleType:
    """Return the module of a package that reads `what`, a file or an address; DataError where it is not installed."""
    try:
        return import_module(name)
    except ImportError as error:
        raise DataError(f'{what} needs the package {name}: install it with `pip install "gpumf[data]"`') from error
