"""What arguments of any function may be: integers, numbers, flags and paths, each with the message that says so."""

import os
from pathlib import Path
from typing import Any

import numpy as np

MOST_SEED = 2**64 - 1
_MOST = float(np.finfo(np.float32).max)


def integer(name: str, value: Any, least: int, most: int = 2**31 - 1) -> int:
    """The value as an int; ValueError, which names parameter, value and range, unless it is from least to most."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool) and least <= value <= most:
        return int(value)
    raise ValueError(f"{name} must be an integer from {least} to {most}, not {brief(value)}")


def number(name, value, *, least=None, above=None, below=np.inf, most=None):
    """The value as a float; ValueError, which names parameter, value and range, where it is outside.

    Judged as the float32 that the kernels get: what is not zero may not round to zero or to infinity.

    Parameters
    ----------
    least, above : the lower bound, allowed or not; one of them
    most, below : the upper bound, allowed or not; one of them or none
    """
    numeric = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if numeric and abs(value) <= _MOST:
        single = np.float32(value)
        if (single >= least if above is None else single > above) and (
            single < below if most is None else single <= most
        ):
            return float(value)
    bottom = f"from {least}" if above is None else f"above {above}"
    top = f"up to {most}" if most is not None else "finite" if np.isinf(below) else f"below {below}"
    raise ValueError(f"{name} must be a number {bottom} and {top}, not {brief(value)}")


def flag(name: str, value: Any) -> bool:
    """The value as a bool; ValueError where it is none."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise ValueError(f"{name} must be True or False, not {brief(value)}")


def brief(value: Any) -> str:
    """A repr that a message has room for, of NumPy's numbers as of Python's."""
    if isinstance(value, int) and value.bit_length() > 200:
        return f"an integer of {value.bit_length()} bits"  # of more than 4300 digits Python makes no text
    text = repr(value.item() if isinstance(value, np.generic) else value)
    return text if len(text) <= 200 else f"{text[:200]}.. ({type(value).__name__})"


def path_of(value: Any) -> Path:
    """The value as a Path; TypeError where it is none."""
    if isinstance(value, str | os.PathLike):
        return Path(value)
    raise TypeError(f"path must be a str or os.PathLike, not {type(value).__name__}")
