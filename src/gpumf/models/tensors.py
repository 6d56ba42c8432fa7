"""Arrays in safetensors files, which other programs read and which are mapped into memory instead of read.

The format: https://huggingface.co/docs/safetensors, 8 bytes with the length of a JSON header, it, the arrays.
"""

import json
from contextlib import contextmanager

import numpy as np

_KEY = "gpumf"  # of the metadata
_TYPES = {"BOOL": "?", "U8": "u1", "I32": "<i4", "I64": "<i8", "U64": "<u8", "F32": "<f4"}
_NAMES = {np.dtype(dtype): name for name, dtype in _TYPES.items()}
_ALIGNED = 8
"""Bytes: where arrays begin, the largest elements first, each is at a multiple of its element's size."""


def write_tensors(file, header, arrays):
    """Write arrays and a header, a str, to an open file."""
    entries, end = {"__metadata__": {_KEY: header}}, 0
    arrays = dict(sorted(arrays.items(), key=lambda named: (-named[1].dtype.itemsize, named[0])))
    for name, array in arrays.items():
        begin, end = end, end + array.nbytes
        entries[name] = {"dtype": _NAMES[array.dtype], "shape": array.shape, "data_offsets": [begin, end]}
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNED)
    file.write(len(text).to_bytes(8, "little") + text)
    for array in arrays.values():
        file.write(np.ascontiguousarray(array).data)


@contextmanager
def open_tensors(path, mmap=False):
    """While it is open, (header, read) of a file that `write_tensors` wrote; read() returns its arrays by name.

    mmap : bool, arrays that are read from the file where they are used
    """
    with open(path, "rb") as file:
        size = file.seek(0, 2)
        file.seek(0)
        start = 8 + int.from_bytes(file.read(8), "little")
        if not 8 < start <= size:
            raise ValueError("its header ends beyond the file")
        entries = json.loads(file.read(start - 8).decode())
        header = entries.pop("__metadata__")[_KEY]

        def read():
            taken = sum(end - begin for begin, end in (entry["data_offsets"] for entry in entries.values()))
            if taken > size - start:
                raise ValueError(f"its arrays take {taken} bytes, more than the file")
            whole = np.memmap(file, np.uint8, "r", offset=start)
            return {name: _array(whole, name, entry, mmap) for name, entry in entries.items()}

        yield header, read


def _array(whole, name, entry, mmap):
    """The array of an entry of the header, of the mapped bytes."""
    begin, end = entry["data_offsets"]
    if not 0 <= begin <= end <= len(whole):
        raise ValueError(f"{name} lies outside the file")
    array = whole[begin:end].view(_TYPES[entry["dtype"]]).reshape(entry["shape"])
    return array if mmap else np.array(array)
