"""Calls that are refused: by one error that the package raises itself, whose message says what is wrong."""

import re

import numpy as np
import pytest

from gpumf import DivergedError, NotFittedError
from gpumf.backends import DeviceError
from gpumf.ratings import DataError
from support import ROOT

OWN = (ValueError, TypeError, DataError, NotFittedError, DeviceError, DivergedError, KeyError, IndexError, OSError)
"""What the package raises; a KeyError, IndexError or OSError too has a message of its own."""


def table(cases):
    """A parametrization over a dict name -> case."""
    return pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in cases.items()])


def refused(call, error, words):
    """That a call raises this error, from a `raise` of the package, with a message that has these words (a regex)."""
    assert issubclass(error, OWN)
    with pytest.raises(Exception) as caught:
        call()
    found, last = caught.value, caught.traceback[-1]
    told = f"{type(found).__name__}: {found} ({last.path}, line {last.lineno + 1}: {last.statement})"
    assert isinstance(found, error), told
    assert last.path.is_relative_to(ROOT / "src") and str(last.statement).lstrip().startswith("raise"), told
    assert re.search(words, str(found)), told
    assert len(str(found)) < 1000, told


def contents(folder):
    """What is in a folder, with all that is below it: a dict path -> bytes, None of folders."""
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def state(model):
    """All that a model has, and copies of its arrays, to compare with `same_state`."""
    own = dict(vars(model))
    return own, {name: value.copy() for name, value in own.items() if isinstance(value, np.ndarray)}


def assert_as_before(model, before):
    own, copies = before
    assert vars(model).keys() == own.keys() and all(vars(model)[name] is value for name, value in own.items())
    for name, copy in copies.items():
        np.testing.assert_array_equal(vars(model)[name], copy)
