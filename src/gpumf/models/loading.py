"""A model from its file, whatever its class."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING

from gpumf._util.validation import flag, path_of
from gpumf.models.blend import Blend, model_named
from gpumf.models.solver_choice import check_device
from gpumf.models.storage import damage_of, read

if TYPE_CHECKING:
    from gpumf.models.estimator import Model
    from gpumf.models.solver_choice import Device


def load(path: str | PathLike, device: Device = "auto", *, mmap: bool = False) -> Model | Blend:
    """Read a model or a blend that `save` wrote; its class is the one that the file names.

    Parameters
    ----------
    path : of the file, or of a folder that `gpumf fit` keeps a model in, as model.npz
    device : 'auto', 'cuda', 'cpu' or 'emulator', as of the model's constructor
    mmap : bool, map the arrays of a .safetensors file into memory, as `Model.load`

    Raises
    ------
    OSError : the file cannot be read
    ValueError : the file holds no model of gpumf, or what it holds does not go together

    >>> import gpumf
    >>> columns = ["ann", "ann", "bob", "eve"], ["alien", "heat", "alien", "up"], [5, 2, 4, 3]
    >>> gpumf.ALS(2, device="cpu").fit(columns, epochs=3).save("films.npz")
    >>> type(gpumf.load("films.npz", device="cpu")).__name__
    'ALS'
    """
    path = path_of(path)
    if path.is_dir() and (kept := path / "model.npz").is_file():
        path = kept
    check_device(device)
    header, arrays = read(path, mmap=flag("mmap", mmap))
    with damage_of(path):
        kind = Blend if header["model"] == Blend.__name__ else model_named(header["model"])
        return kind._of_content(header, arrays, device, not mmap)
