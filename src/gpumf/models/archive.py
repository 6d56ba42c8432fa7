"""Arrays in .npz files, read without unpacking: what a file makes a reader take is never more than the file."""

from contextlib import contextmanager, suppress
from io import BytesIO
from math import prod
from zipfile import ZIP_STORED, ZipFile

import numpy as np
from numpy.lib import format as npy

from gpumf.models.replacing import open_file

_HEADER = "header.npy"
_ENDING = ".npy"


def write_archive(file, header, arrays):
    """Write arrays and a header, a str, to an open file."""
    np.savez(file, header=header, **arrays)


@contextmanager
def open_archive(path):
    """While it is open, (header, read) of a file that `write_archive` wrote; read() returns its arrays by name.

    Raises ValueError: members that are compressed, take more than the file, come twice, or are no arrays of their
        size
    """
    with open_file(path) as file, ZipFile(file) as archive:
        members = {member.filename: member for member in archive.infolist()}
        if len(members) < len(archive.infolist()):
            raise ValueError("it has a member twice")
        if any(member.compress_type != ZIP_STORED for member in members.values()):
            raise ValueError("its arrays are compressed, which save() does not do")
        size, taken = file.seek(0, 2), sum(member.file_size for member in members.values())
        if taken > size or not all(0 <= member.header_offset < size for member in members.values()):
            raise ValueError(f"its arrays take {taken} bytes, more than the file, or lie outside it")
        header = members.pop(_HEADER, None)
        if header is None or not all(name.endswith(_ENDING) for name in members):
            raise ValueError(f"it has no {_HEADER}, or members that are no arrays")

        def read():
            return {name.removesuffix(_ENDING): _array(archive, member) for name, member in members.items()}

        yield str(_array(archive, header)), read


def _parsed(read, described):
    """What read() makes of the description of an array, which some versions of Python fail to parse by chance.

    All threads share the depth that CPython 3.11 counts there: SystemError, where two of them parse at a time.
    """
    for _ in range(9):
        with suppress(SystemError):
            return read(BytesIO(described))
    return read(BytesIO(described))


def _array(archive, member):
    """The array of a member, whose shape is compared with its size before memory is taken for it."""
    with archive.open(member) as file:
        first = npy.read_magic(file) == (1, 0)
        length = file.read(2 if first else 4)
        described = length + file.read(int.from_bytes(length, "little"))
        shape, fortran, dtype = _parsed(npy.read_array_header_1_0 if first else npy.read_array_header_2_0, described)
        if dtype.hasobject:
            raise ValueError(f"{member.filename} has objects, which are not loaded")
        if min(shape, default=0) < 0 or file.tell() + prod(shape) * dtype.itemsize != member.file_size:
            raise ValueError(f"{member.filename} is {dtype} {shape}, which is not its size")
        array = np.empty(shape, dtype, "F" if fortran else "C")
        # To the end and without a step back, after which some versions of zipfile compare no checksum.
        if file.readinto(array.reshape(-1, order="A").view(np.uint8).data) < array.nbytes or file.read(1):
            raise ValueError(f"{member.filename} is cut short")
        return array
