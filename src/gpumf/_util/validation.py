"""What arguments of any function may be: integers, numbers, flags and paths, each with the message that says so."""

import os
import re
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

MAX_SEED = 2**64 - 1
_NO_NUMBERS = bool | np.timedelta64
_MOST = float(np.finfo(np.float32).max)


def is_integer(value: Any) -> TypeGuard[int]:
    """Whether the value is an integer of Python or NumPy: no bool, and no duration, which NumPy counts among them."""
    return isinstance(value, int | np.integer) and not isinstance(value, _NO_NUMBERS)


def is_number(value: Any) -> bool:
    """Whether the value is an integer or a float of Python or NumPy."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, _NO_NUMBERS)


def integer(name: str, value: Any, least: int, most: int = 2**31 - 1) -> int:
    """The value as an int; ValueError, which names parameter, value and range, unless it is from least to most."""
    # As `is_integer`, without a call: each fit asks often.
    if isinstance(value, int | np.integer) and not isinstance(value, _NO_NUMBERS) and least <= value <= most:
        return int(value)
    raise ValueError(f"{name} must be an integer from {least} to {most}, not {brief(value)}")


def number(name, value, *, least=None, above=None, below=np.inf, most=None):
    """The value as a float; ValueError, which names parameter, value and range, where it is outside.

    Judged as the float32 that the kernels get: what is not zero may not round to zero or to infinity. The lower bound
    is `least`, allowed, or `above`, not allowed; the upper one is `most` or `below`.
    """
    numeric = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, _NO_NUMBERS)
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


def choice(name: str, value: Any, *choices: str) -> str:
    """The value; ValueError, which names the choices, unless it is one of them."""
    if isinstance(value, str) and value in choices:
        return value
    raise ValueError(f"{name} must be {', '.join(map(repr, choices[:-1]))} or {choices[-1]!r}, not {brief(value)}")


def brief(value: Any) -> str:
    """Return a repr that a message has room for, with NumPy's numbers as Python's: 0, not np.int64(0)."""
    if isinstance(value, int) and value.bit_length() > 200:
        return f"an integer of {value.bit_length()} bits"  # of more than 4300 digits Python makes no text
    text = re.sub(r"np\.(?!datetime64|timedelta64)\w+\(([^()]*)\)", r"\1", repr(value))
    return text if len(text) <= 200 else f"{text[:200]}.. ({type(value).__name__})"


def array(name: str, value: Any, dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
    """The value; ValueError, which says what it has to be, unless it is a C-contiguous array of this dtype and shape.

    What gets past here may be passed to native code, which would read and write past the end of others.
    """
    if (
        isinstance(value, np.ndarray)
        and value.shape == shape
        and value.dtype == dtype
        and value.flags.c_contiguous
        and value.flags.aligned
    ):
        return value
    found = type(value).__name__
    if isinstance(value, np.ndarray):
        order = "" if value.flags.c_contiguous and value.flags.aligned else ", not contiguous in C order"
        found = f"{value.dtype} {value.shape}{order}"
    raise ValueError(f"{name} must be an array, {np.dtype(dtype)} {shape}, contiguous in C order, not {found}")


def path_of(value: Any) -> Path:
    """The value as a Path; TypeError where it is none, ValueError for a NUL byte, which no file system takes."""
    if isinstance(value, str | os.PathLike):
        path = Path(value)
        if "\0" in str(path):
            raise ValueError(f"path must not have a NUL byte, as {brief(str(path))} has")
        return path
    raise TypeError(f"path must be a str or os.PathLike, not {type(value).__name__}")
