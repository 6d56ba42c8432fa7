"""The folder that `gpumf fit` keeps a model in: one file, model.npz, which alone is ever replaced."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZipFile

import numpy as np

import gpumf
from gpumf._util.validation import brief
from gpumf.models.replacing import check_writable, leftover, open_file
from gpumf.models.storage import is_model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpumf.models import Blend, Model
    from gpumf.models.solver_choice import Device

_MODEL = "model.npz"
_OF_DESKTOPS = ".DS_Store", "Thumbs.db", "desktop.ini"
"""Files that file managers write into any folder."""
_RATINGS_OF_0_2_0 = "ratings.npz", {"model", "users", "items", "values", "user_ids", "item_ids"}
"""What gpumf 0.2.0 wrote beside the model, and its arrays: nothing reads or touches it now."""


@contextmanager
def output_folder(folder: Path) -> Iterator[Callable[..., None]]:
    """While it lasts, a function that saves a model in the folder, which is made; where that fails, nothing is left.

    The file holds the model, the ids and which items each user rated, so that readers, who open it once, never meet
    a part of another fit. What was in the folder stays but for a model of this package.

    Raises
    ------
    ValueError : the folder is none, or holds something else than such a model
    OSError : nothing can be written to it
    """
    missing = [place for place in (folder, *folder.parents) if not os.path.lexists(place)]

    def save(model, seen):
        _prepare(folder)  # again: training may have taken hours
        model.save(folder / _MODEL, seen=seen)

    try:
        _prepare(folder)
        check_writable(folder / _MODEL)
        yield save
    except BaseException:
        for place in missing:
            with suppress(OSError):
                place.rmdir()  # which removes empty folders alone
        raise


def _prepare(folder):
    """Make the folder, for its owner's eyes alone; ValueError unless it holds a model of this package or nothing."""
    if not folder.is_dir():
        if folder.suffix in (".npz", ".safetensors"):
            raise ValueError(f"--output is a folder, in which the model is {_MODEL}; {folder} has the name of a file")
        if os.path.lexists(folder):
            raise ValueError(f"{folder} exists and is no folder; give another --output")
        folder.mkdir(0o700, parents=True, exist_ok=True)
    path = folder / _MODEL
    for name in sorted(os.listdir(folder)):
        if name == _MODEL and not is_model(path):
            raise ValueError(
                f"{folder} holds {name}, which gpumf fit did not write, or which is damaged; remove it, or give "
                "another --output"
            )
        if not (name in (*_OF_DESKTOPS, _MODEL) or leftover(name, path) or _is_of_0_2_0(folder / name)):
            raise ValueError(
                f"{folder} holds {name}, which gpumf fit did not write and leaves as it is; give another --output"
            )


def _is_of_0_2_0(path):
    """Whether a file is the ratings that `gpumf fit` of 0.2.0 kept beside the model."""
    name, arrays = _RATINGS_OF_0_2_0
    if path.name == name:
        with suppress(Exception), open_file(path) as file, ZipFile(file) as archive:
            return sorted(archive.namelist()) == sorted(f"{array}.npy" for array in arrays)
    return False


def holds_model(folder: Path) -> bool:
    """Whether something in the folder has the name of its model."""
    return os.path.lexists(folder / _MODEL)


def kept(folder: str, device: Device) -> Model | Blend:
    """The model that `gpumf fit` kept in the folder, or `save` of a model or blend in a file of this name."""
    path = Path(folder) if Path(folder).is_file() else Path(folder, _MODEL)
    if not path.is_file():
        raise ValueError(f"{folder} holds no model; `gpumf fit RATINGS -o {folder}` makes one")
    return gpumf.load(path, device)


def ids_of(model: Model | Blend, side: str) -> np.ndarray:
    """The id of each 'user' or 'item' of a model."""
    ids = getattr(model, f"{side}_ids")
    return np.arange(model._shape[side == "item"]) if ids is None else ids


def as_text(ids: np.ndarray) -> list[str]:
    """Ids as they are written in the shell.

    A list: in an array of NumPy's strings each would take as much memory as the longest, and end before NUL.
    """
    return [str(one) for one in ids.tolist()]


def places_of(ids: np.ndarray, side: str, *given: str) -> list[int]:
    """The positions of ids, as they are written in the shell; ValueError where one is none of them."""
    known = {one: place for place, one in enumerate(as_text(ids))}
    if missing := [one for one in given if one not in known]:
        raise ValueError(
            f"the model knows no {side} {brief(missing[0])}; it knows {len(ids):,}, such as {brief(ids[0])}"
        )
    return [known[one] for one in given]
