"""Models in files: written as a whole or not at all, read with every array checked."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict
from os import PathLike
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from gpumf._util.busy import check_usable
from gpumf._util.validation import flag, integer, number, path_of
from gpumf.backends import DeviceError
from gpumf.models.archive import open_archive, write_archive
from gpumf.models.replacing import replacing
from gpumf.models.solver_choice import check_device
from gpumf.models.stored_ids import packed_ids, packed_rows, unpacked_ids, unpacked_rows
from gpumf.models.tensors import open_tensors, write_tensors
from gpumf.models.times import Times
from gpumf.ratings.checks import check_scale

if TYPE_CHECKING:
    import pandas as pd

    from gpumf.models.recommender import Recommender as _Base
    from gpumf.models.solver_choice import Device
else:
    _Base = ABC

_TENSORS = ".safetensors"
_FORMAT = 5
_READ = 4, 5
"""Formats that are read: 5 may have ids, and what users rated, where 4 has neither."""
_PHASES_OF_0_2_0 = {"prepare": "preprocess", "wall": "end_to_end"}
"""Fields of `Times` by their names in files of gpumf 0.2.0."""


def write(path: str | PathLike, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Write one file: beside it first, then in its place, so that a failure leaves what was there before.

    path : of the file, an older one is replaced; one that ends in .safetensors is of that format, others are .npz
    header : dict of plain values
    arrays : dict name -> array

    Raises ValueError: a file of this name holds something else than a model, and stays
    Raises OSError: the file cannot be written
    """
    # Their names: the checksums of a damaged archive do not tell that arrays are missing.
    path, text = path_of(path), json.dumps({"format": _FORMAT, "arrays": sorted(arrays)} | header)
    if path.is_file() and path.stat().st_size and not is_model(path):
        raise ValueError(
            f"{path} holds something else than a model, or a damaged one, and stays as it is; save to another name, "
            "or remove it before"
        )
    write_arrays = write_tensors if path.suffix == _TENSORS else write_archive
    try:
        with replacing(path) as file:
            write_arrays(file, text, arrays)
    except OSError as error:  # this path, not the one beside it, says where
        raise OSError(error.errno, f"the model cannot be saved: {error.strerror}", str(path)) from error


def read(
    path: str | PathLike, model: str | None = None, mmap: bool = False
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """(header, arrays) of a file that `write` wrote for this model, a name; for any where it is None.

    The header is read first, and an array when its size is known to be that of its bytes in the file: what a file
    takes in memory is never more than it has.

    mmap : bool, map the arrays of a .safetensors file into memory instead of reading them

    Raises ValueError: the file is none, is damaged, or holds another model
    """
    tensors = path_of(path).suffix == _TENSORS
    if mmap and not tensors:
        raise ValueError(f"{path} cannot be mapped into memory; save the model as a .safetensors file")
    try:
        with open_tensors(path, mmap) if tensors else open_archive(path) as (text, read_arrays):
            header = json.loads(text)
            found = header.pop("format", None), header.get("model")
            right = found[0] in _READ and model in (None, found[1])
            arrays = read_arrays() if right else {}
    except OSError as error:
        raise OSError(error.errno, f"no model can be read: {error.strerror}", str(path)) from error
    # What a damaged archive makes of NumPy and zipfile is not bounded by their documentation.
    except Exception as error:
        raise ValueError(f"{path} is not a saved model: {error!r:.500}") from error
    if not right:
        remedy = "; gpumf.load reads models of any class" if model and found[0] in _READ else ""
        if isinstance(found[0], int) and found[0] > _FORMAT:
            remedy = "; a newer gpumf wrote it"
        wanted = model or "a model of gpumf"
        raise ValueError(f"{path} holds {found[1]} (format {found[0]}), not {wanted} (format {_FORMAT}){remedy}")
    with damage_of(path):
        if differing := {*header.pop("arrays", arrays)} ^ {*arrays}:
            raise ValueError(f"the arrays that it has and those that it names differ by {sorted(differing)}")
    return header, arrays


def is_model(path: str | PathLike) -> bool:
    """Whether a file has a header that `write` wrote, of any format; its arrays are not read."""
    for opened in (open_archive, open_tensors):
        with suppress(Exception), opened(path) as (text, _):
            return isinstance(json.loads(text)["format"], int)
    return False


def damage_of(path: str | PathLike) -> AbstractContextManager[None]:
    """Say of what goes wrong with a file's contents that the file is damaged (ValueError)."""
    return told_as(f"{path} is damaged")


@contextmanager
def told_as(what: str) -> Iterator[None]:
    """Raise ValueError, which begins with `what`, in the place of errors that contents of files lead to."""
    try:
        yield
    except DeviceError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise ValueError(f"{what}: {error!r:.500}") from error


def check_arrays(
    arrays: dict[str, np.ndarray], expected: dict[str, tuple[Any, tuple[int, ...]]], numbers: bool = True
) -> None:
    """Raise ValueError unless these are the arrays, all their numbers finite and none of their counts negative.

    arrays : dict name -> array
    expected : dict name -> (dtype, shape)
    numbers : bool, look at the numbers too, which reads all of them
    """
    if arrays.keys() != expected.keys():
        raise ValueError(f"it has the arrays {sorted(arrays)}, not {sorted(expected)}")
    for name, (dtype, shape) in expected.items():
        array = arrays[name]
        if (array.dtype, array.shape) != (np.dtype(dtype), shape):
            raise ValueError(f"{name} is {array.dtype} {array.shape}, not {np.dtype(dtype)} {shape}")
        if not numbers:
            continue
        if not np.isfinite(array).all() or (array.dtype.kind == "i" and array.min(initial=0) < 0):
            raise ValueError(f"{name} has numbers that are not finite, or negative counts")


def history_of(columns: dict[str, list]) -> pd.DataFrame:
    """The history as a DataFrame, from its columns by name; ValueError where it is none."""
    import pandas as pd

    frame = pd.DataFrame(columns)
    if list(frame)[:4] != ["epoch", "seconds", "rmse", "mae"] or frame.empty or not frame.epoch.dtype.kind == "i":
        raise ValueError("its history is none")
    return frame.astype({name: np.float64 for name in frame if name != "epoch"})


class Stored(_Base):
    """Models that are saved to a file and loaded from it.

    Subclasses have `_arrays`, the names of the attributes that hold what is learned, float32, `_parameters`, the
    constructor's arguments, and what `fit` leaves: mean, scale, epoch, times, history, ids,
    `_user_known`, `_item_counts`.
    """

    _units: Any = None  # in which the model was trained, where it has such

    def save(self, path: str | PathLike, *, seen: bool = False) -> None:
        """Write the fitted model to one file: what it learned, its ids, parameters and history, no ratings.

        A model of this name is replaced once the new one is whole; a file with something else in it is not.

        Parameters
        ----------
        path : a name that ends in .safetensors makes one of that format, which can be mapped into memory; any other
            an .npz file
        seen : bool, keep which items each user rated, 4 bytes a rating, so that the loaded model leaves them out of
            recommendations; not the ratings

        Raises
        ------
        ValueError : seen=True where the training set is not known; what `load` would refuse, such as numbers that
            are not finite; a file that is no model has this name

        >>> from gpumf import ALS
        >>> columns = ["ann", "ann", "bob", "eve"], ["alien", "heat", "alien", "up"], [5, 2, 4, 3]
        >>> ALS(2, device="cpu").fit(columns, epochs=3).save("films.npz", seen=True)
        >>> items, _ = ALS.load("films.npz", device="cpu").recommend("ann")
        >>> items.tolist()
        ['up']
        """
        write(path, *self._checked_content(seen))

    def _checked_content(self, seen):
        """`_content`, with which `load` finds nothing wrong: attributes may have been assigned."""
        header, arrays = self._content(seen)
        with told_as("the model cannot be saved, as it could not be loaded"):
            self._of_content(json.loads(json.dumps(header)), dict(arrays), self.device)
        return header, arrays

    def _content(self, seen=False):
        """(header, arrays) of a file."""
        self._check_fitted()
        header = {
            "model": type(self).__name__,
            "parameters": self._parameters,
            "mean": self.mean,
            "scale": self.scale,
            "epoch": self.epoch,
            "times": asdict(self.times),
            "history": self.history.to_dict("list"),
            "ids": self.ids,
            "units": self._units,
        }
        learned = dict(zip(self._arrays, self._learned, strict=True))
        learned |= {"user_known": self._user_known, "item_counts": self._item_counts}
        learned |= packed_ids("user_ids", self.user_ids) | packed_ids("item_ids", self.item_ids)
        if flag("seen", seen):
            if self._training is None and self._seen_rows is None:
                raise ValueError("the training set is not known here, so that what users rated cannot be saved")
            rows = self._seen_rows if self._training is None else self._training.on_host().by_user
            learned |= packed_rows(rows)
        check_usable(self)  # a fit may have begun meanwhile
        return header, learned

    @classmethod
    def load(cls, path: str | PathLike, device: Device = "auto", *, mmap: bool = False) -> Self:
        """Read a model that `save` wrote, for use on `device`; its solver is chosen anew.

        Parameters
        ----------
        path : of the file
        device : as of the constructor
        mmap : bool, map the arrays of a .safetensors file into memory: they are read where they are used, shared
            between processes, and their numbers are not checked

        Raises
        ------
        ValueError : the file is no saved model of this class, or what it holds does not go together

        >>> from gpumf import ALS, SGD
        >>> columns = ["ann", "ann", "bob", "eve"], ["alien", "heat", "alien", "up"], [5, 2, 4, 3]
        >>> ALS(2, device="cpu").fit(columns, epochs=3).save("films.npz")
        >>> ALS.load("films.npz", device="cpu").user_ids
        array(['ann', 'bob', 'eve'], dtype=object)
        >>> SGD.load("films.npz")
        Traceback (most recent call last):
            ...
        ValueError: films.npz holds ALS (format 5), not SGD (format 5); gpumf.load reads models of any class
        """
        check_device(device)
        header, arrays = read(path, cls.__name__, flag("mmap", mmap))
        with damage_of(path):
            return cls._of_content(header, arrays, device, not mmap)

    @classmethod
    def _of_content(cls, header, arrays, device, numbers=True):
        """The model that `_content` gave, with its arrays."""
        parameters, mean, scale = header["parameters"], header["mean"], header["scale"]
        shapes = {name: array.shape for name, array in arrays.items()}
        users, items = shapes["user_known"], shapes["item_counts"]
        model = cls(**parameters, device=device)
        learned = model._shapes(*users, *items, [shapes[name] for name in cls._arrays])
        model.user_ids = unpacked_ids("user_ids", arrays, *users)
        model.item_ids = unpacked_ids("item_ids", arrays, *items)
        model.ids = flag("ids", header.get("ids", False))
        model._seen_rows = unpacked_rows(arrays, *users, *items)
        expected = {name: (np.float32, shape) for name, shape in zip(cls._arrays, learned, strict=True)}
        counts = {"user_known": (np.bool_, users), "item_counts": (np.int64, items)}
        check_arrays(arrays, expected | counts, numbers)
        model.mean = number("mean", mean, least=-np.inf)
        check_scale(scale)
        model.scale = scale and tuple(number("scale", bound, least=-np.inf) for bound in scale)
        times = {_PHASES_OF_0_2_0.get(name, name): value for name, value in header["times"].items()}
        model.times = Times(**{name: number(name, value, least=0) for name, value in times.items()})
        model.history = history_of(header["history"])
        model.epoch = integer("epoch", header["epoch"], 0, int(model.history.epoch.max()))
        model._units = header.get("units")
        model._set_learned(arrays[name] for name in cls._arrays)
        model._user_known, model._item_counts = arrays["user_known"], arrays["item_counts"]
        model._training = None
        return model

    @abstractmethod
    def _shapes(self, users, items, found):
        """The shapes of the learned arrays for so many users and items; `found` are those in a file."""
