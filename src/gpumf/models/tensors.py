"""Arrays in safetensors files, which other programs read and which are mapped into memory instead of read.

The format: https://huggingface.co/docs/safetensors, 8 bytes with the length of a JSON header, it, the arrays.
"""

import json
from binascii import crc32
from contextlib import contextmanager

import numpy as np

from gpumf.models.replacing import open_file

_KEY, _SUM = "gpumf", "crc32"  # of the metadata
_TYPES = {"BOOL": "?", "U8": "u1", "I32": "<i4", "I64": "<i8", "U64": "<u8", "F32": "<f4"}
_NAMES = {np.dtype(dtype): name for name, dtype in _TYPES.items()}
_ALIGNED = 8
"""Bytes: where arrays begin, the largest elements first, each is at a multiple of its element's size."""


def write_tensors(file, header, arrays):
    """Write arrays and a header, a str, to an open file."""
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    entries, end = {"__metadata__": {_KEY: header, _SUM: _checksum(header, arrays)}}, 0
    arrays = dict(sorted(arrays.items(), key=lambda named: (-named[1].dtype.itemsize, named[0])))
    for name, array in arrays.items():
        begin, end = end, end + array.nbytes
        entries[name] = {"dtype": _NAMES[array.dtype], "shape": array.shape, "data_offsets": [begin, end]}
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNED)
    file.write(len(text).to_bytes(8, "little") + text)
    for array in arrays.values():
        file.write(array.data)


def _checksum(header, arrays):
    """Of all that a file holds, whatever its order; the format has none of its own."""
    found = crc32(header.encode())
    for name, array in sorted(arrays.items()):
        found = crc32(np.ascontiguousarray(array).view(np.uint8).data, crc32(f"{name}{array.shape}".encode(), found))
    return f"{found:08x}"


@contextmanager
def open_tensors(path, mmap=False):
    """While it is open, (header, read) of a file that `write_tensors` wrote; read() returns its arrays by name.

    mmap : bool, arrays that are read from the file where they are used, whose checksum is not compared
    """
    with open_file(path) as file:
        size = file.seek(0, 2)
        file.seek(0)
        start = 8 + int.from_bytes(file.read(8), "little")
        if not 8 < start <= size:
            raise ValueError("its header ends beyond the file")
        entries = json.loads(file.read(start - 8).decode())
        facts = entries.pop("__metadata__")

        def read():
            taken = sum(end - begin for begin, end in (entry["data_offsets"] for entry in entries.values()))
            if taken > size - start:
                raise ValueError(f"its arrays take {taken} bytes, more than the file")
            whole = np.memmap(file, np.uint8, "r", offset=start) if mmap else None
            arrays = {}
            for name, entry in entries.items():
                begin, end = entry["data_offsets"]
                if not 0 <= begin <= end <= size - start:
                    raise ValueError(f"{name} lies outside the file")
                array = whole[begin:end] if mmap else _bytes(file, name, start + begin, end - begin)
                arrays[name] = array.view(_TYPES[entry["dtype"]]).reshape(entry["shape"])
            if not mmap and facts.get(_SUM) not in (None, _checksum(facts[_KEY], arrays)):
                raise ValueError("its bytes are not those of their checksum")
            return arrays

        yield facts[_KEY], read


def _bytes(file, name, begin, size):
    """The bytes of an array, read: of a mapped file that another program cuts short, reading ends the process."""
    found = np.empty(size, np.uint8)
    file.seek(begin)
    if file.readinto(found.data) < size:
        raise ValueError(f"{name} is cut short")
    return found
