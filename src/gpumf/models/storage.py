"""Models in files: written as a whole or not at all, read with every array checked."""

import json
import os
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from gpumf.gpu import DeviceError

_FORMAT = 3


def write(path, header, arrays):
    """Write one .npz file: beside it first, then in its place, so that a failure leaves what was there before.

    Parameters
    ----------
    path : of the file, an older one is replaced
    header : dict of plain values
    arrays : dict name -> array
    """
    path = Path(path).resolve()  # a link stays one
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(beside, "wb") as file:  # np.savez given a name may append a suffix; a file it leaves alone
            np.savez(file, header=json.dumps({"format": _FORMAT} | header), **arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def read(path, model):
    """(header, arrays) of a file that `write` wrote for this model, a name.

    Raises
    ------
    ValueError : the file is none, is damaged, or holds another model
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            header = json.loads(str(file["header"]))
            arrays = {name: file[name] for name in file.files if name != "header"}
            found = header.pop("format", None), header.get("model")
    except OSError:
        raise
    # What a damaged archive makes of NumPy and zipfile is not bounded by their documentation.
    except Exception as error:
        raise ValueError(f"{path} is not a saved model: {error!r}") from error
    if found != (_FORMAT, model):
        raise ValueError(f"{path} holds a {found[1]} (format {found[0]}), not a {model} (format {_FORMAT})")
    return header, arrays


@contextmanager
def damage_of(path):
    """Say of what goes wrong with a file's contents that the file is damaged (ValueError)."""
    try:
        yield
    except DeviceError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{path} is damaged: {error!r}") from error


def check_arrays(arrays, expected):
    """Raise ValueError unless these are the arrays, all their numbers finite and none of their counts negative.

    Parameters
    ----------
    arrays : dict name -> array
    expected : dict name -> (dtype, shape)
    """
    if arrays.keys() != expected.keys():
        raise ValueError(f"it has the arrays {sorted(arrays)}, not {sorted(expected)}")
    for name, (dtype, shape) in expected.items():
        array = arrays[name]
        if (array.dtype, array.shape) != (np.dtype(dtype), shape):
            raise ValueError(f"{name} is {array.dtype} {array.shape}, not {np.dtype(dtype)} {shape}")
        if not np.isfinite(array).all() or (array.dtype.kind == "i" and array.min(initial=0) < 0):
            raise ValueError(f"{name} has numbers that are not finite, or negative counts")


def history(columns):
    """The history as a DataFrame, from its columns by name; ValueError where it is none."""
    import pandas as pd

    frame = pd.DataFrame(columns)
    if list(frame) != ["epoch", "seconds", "rmse", "mae"] or frame.empty or not frame.epoch.dtype.kind == "i":
        raise ValueError("its history is none")
    return frame.astype({name: np.float64 for name in frame if name != "epoch"})
