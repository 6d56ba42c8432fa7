"""Ratings on disk that are mapped into memory: sets that the host's memory does not hold."""

from __future__ import annotations

import os

import numpy as np

from gpumf._util.validation import path_of
from gpumf.ratings.checks import DataError
from gpumf.ratings.columns import in_pieces
from gpumf.ratings.ratings import Ratings

_COLUMNS = {"user": np.int32, "item": np.int32, "rating": np.float32}


def map_ratings(
    path: str | os.PathLike,
    *,
    scale: tuple[float, float] | None = None,
    n_users: int | None = None,
    n_items: int | None = None,
) -> Ratings:
    """`Ratings` whose columns lie on disk and are read where they are used, with no copy of them.

    Positions and lengths are checked, in a pass over the file; pairs that come twice and ratings that are no finite
    numbers are not looked for.

    Parameters
    ----------
    path : of a folder with user.npy, item.npy and rating.npy, as `numpy.save` writes them, or of a Feather (Arrow
        IPC) file with these columns, not compressed and in one record batch; positions int32, ratings float32
    scale : (lowest, highest) possible rating
    n_users, n_items : int, the shape; by default the highest positions + 1

    Raises
    ------
    TypeError : a path that is none
    DataError : a file that is not there, not as said above, or of columns that `Ratings` refuses

    >>> from pathlib import Path
    >>> Path("folder").mkdir()
    >>> for name, column in {"user": [0, 1], "item": [0, 2]}.items():
    ...     np.save(f"folder/{name}.npy", np.array(column, np.int32))
    >>> np.save("folder/rating.npy", np.array([4, 5], np.float32))
    >>> ratings = map_ratings("folder", scale=(1, 5))
    >>> ratings.n_users, ratings.n_items, ratings.nnz
    (2, 3, 2)
    """
    path = path_of(path)
    columns = _of_folder(path) if os.path.isdir(path) else _of_feather(path)
    for (name, dtype), column in zip(_COLUMNS.items(), columns, strict=True):
        if column.dtype != dtype or column.ndim != 1 or not len(column):
            raise DataError(
                f"{path}: {name} is {column.dtype} {column.shape}; only {dtype.__name__} (ratings,) maps without a "
                "copy: convert it, or use gpumf.ratings.read_ratings"
            )
    users, items, values = columns

    def count(positions):
        return int(max(in_pieces(lambda part: positions[part].max(), len(positions)))) + 1

    shape = count(users) if n_users is None else n_users, count(items) if n_items is None else n_items
    return Ratings(users, items, values, *shape, scale=scale, name=path.stem)


def _of_folder(path):
    found = [path / f"{name}.npy" for name in _COLUMNS]
    try:
        if wrong := next((file.name for file in found if file.exists() and not file.is_file()), None):
            raise ValueError(f"{wrong} is a pipe, a device or a folder")
        return [np.lib.format.open_memmap(file, mode="r") for file in found]
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path}: {error}; it needs {', '.join(f'{name}.npy' for name in _COLUMNS)}") from error


def _of_feather(path):
    import pyarrow as pa
    from pyarrow import ipc

    try:
        if path.exists() and not path.is_file():
            raise DataError(f"{path} is a pipe or a device, which cannot be mapped; give a Feather file")
        whole = pa.memory_map(str(path)).read_buffer()
        table = ipc.open_file(pa.BufferReader(whole)).read_all()
        chunks = [chunk for name in _COLUMNS for chunk in table[name].chunks]
        if len(chunks) != len(_COLUMNS) or not all(
            whole.address <= chunk.buffers()[1].address < whole.address + whole.size for chunk in chunks
        ):
            raise DataError(f"{path} is compressed, or of several record batches; write it without, and in one")
        return [chunk.to_numpy(zero_copy_only=True) for chunk in chunks]
    except (OSError, KeyError, pa.ArrowException) as error:
        raise DataError(
            f"{path}: {error}; give a Feather file with the columns {', '.join(_COLUMNS)}, none missing"
        ) from error
