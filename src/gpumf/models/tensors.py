"""Arrays in safetensors files, which other programs read and which are mapped into memory instead of read."""

import json
from errno import EIO

import numpy as np

_KEY = "gpumf"  # of the metadata
_TYPES = {"BOOL": "?", "U8": "u1", "I32": "<i4", "I64": "<i8", "F32": "<f4"}


def write_tensors(path, header, arrays):
    """Write arrays and a header, a str, with the package safetensors.

    Raises
    ------
    ImportError : without the package
    OSError : the file cannot be written
    """
    try:
        from safetensors import SafetensorError
        from safetensors.numpy import save_file
    except ImportError as error:
        raise ImportError("a .safetensors file needs the package safetensors: pip install safetensors") from error
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    try:
        save_file(contiguous, str(path), metadata={_KEY: header})
    except SafetensorError as error:
        raise OSError(EIO, str(error)) from error


def read_tensors(path, mmap=False):
    """(header, arrays) that `write_tensors` wrote; with mmap, arrays that are read from the file where they are used.

    The format: https://huggingface.co/docs/safetensors, 8 bytes with the length of a JSON header, it, the arrays.
    """
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        entries = json.loads(file.read(length).decode())
    whole = np.memmap(path, np.uint8, "r", offset=8 + length)
    header = entries.pop("__metadata__")[_KEY]
    arrays = {}
    for name, entry in entries.items():
        begin, end = entry["data_offsets"]
        if not 0 <= begin <= end <= len(whole):
            raise ValueError(f"{name} lies outside the file")
        array = whole[begin:end].view(_TYPES[entry["dtype"]]).reshape(entry["shape"])
        arrays[name] = array if mmap else np.array(array)
    return header, arrays
