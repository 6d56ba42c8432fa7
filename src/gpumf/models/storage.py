"""Models in files: written as a whole or not at all, read with every array checked."""

import json
import os
from abc import ABC, abstractmethod
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import numpy as np

from gpumf.gpu import DeviceError
from gpumf.models.checks import number
from gpumf.models.times import Times

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


def history_of(columns):
    """The history as a DataFrame, from its columns by name; ValueError where it is none."""
    import pandas as pd

    frame = pd.DataFrame(columns)
    if list(frame) != ["epoch", "seconds", "rmse", "mae"] or frame.empty or not frame.epoch.dtype.kind == "i":
        raise ValueError("its history is none")
    return frame.astype({name: np.float64 for name in frame if name != "epoch"})


class Stored(ABC):
    """Models that are saved to a file and loaded from it.

    Subclasses have `_arrays`, the names of the attributes that hold what is learned, float32, `_parameters`, the
    constructor's arguments, and what `fit` leaves: mean, scale, times, history, `_user_known`, `_item_counts`.
    """

    def save(self, path):
        """Write the fitted model to one .npz file: what it learned, its parameters and history, no ratings.

        A file of this name is replaced once the new one is whole.
        """
        self._check_fitted()
        header = {
            "model": type(self).__name__,
            "parameters": self._parameters,
            "mean": self.mean,
            "scale": self.scale,
            "times": asdict(self.times),
            "history": self.history.to_dict("list"),
        }
        learned = dict(zip(self._arrays, self._learned, strict=True))
        write(path, header, learned | {"user_known": self._user_known, "item_counts": self._item_counts})

    @classmethod
    def load(cls, path, device="auto"):
        """Read a model that `save` wrote, for use on `device`; its kernel is chosen anew.

        Raises
        ------
        ValueError : the file is no saved model of this class, or what it holds does not go together
        """
        header, arrays = read(path, cls.__name__)
        with damage_of(path):
            parameters, mean, scale = header["parameters"], header["mean"], header["scale"]
            shapes = {name: array.shape for name, array in arrays.items()}
            users, items = shapes["user_known"], shapes["item_counts"]
            model = cls(**parameters, device=device)
            learned = model._shapes(*users, *items, [shapes[name] for name in cls._arrays])
            expected = {name: (np.float32, shape) for name, shape in zip(cls._arrays, learned, strict=True)}
            check_arrays(arrays, expected | {"user_known": (np.bool_, users), "item_counts": (np.int64, items)})
            model.mean = number("mean", mean, least=-np.inf)
            model.scale = scale and tuple(number("scale", bound, least=-np.inf) for bound in scale)
            model.times = Times(**{name: number(name, value, least=0) for name, value in header["times"].items()})
            model.history = history_of(header["history"])
        model._set_learned(arrays[name] for name in cls._arrays)
        model._user_known, model._item_counts = arrays["user_known"], arrays["item_counts"]
        model._training = None
        return model

    @abstractmethod
    def _shapes(self, users, items, found):
        """The shapes of the learned arrays for so many users and items; `found` are those in a file."""
