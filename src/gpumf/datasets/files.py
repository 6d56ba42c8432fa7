"""Where data files lie: in a folder or inside a zip archive there, found in the same way."""

import hashlib
import io
import os
import zipfile
import zlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from gpumf.datasets.checks import DataError

_REPOSITORY = Path(__file__).resolve().parents[3]


def data_folders():
    """The folders searched for data sets, in order: $GPUMF_DATA where set, then data/raw of the repository."""
    given = os.environ.get("GPUMF_DATA")
    return [*([Path(given)] if given else []), _REPOSITORY / "data" / "raw"]


@dataclass(frozen=True)
class DataFile:
    """A file on disk, or a member of a zip archive."""

    path: Path
    member: str | None = None

    def __str__(self):
        return f"{self.path}:{self.member}" if self.member else str(self.path)

    @cached_property
    def contents(self):
        """The unpacked bytes, a pyarrow Buffer; a plain file is mapped into memory, not read."""
        if self.member is None:
            with pa.memory_map(str(self.path)) as file:
                return file.read_buffer()
        try:
            with zipfile.ZipFile(self.path) as archive:
                return pa.py_buffer(archive.read(self.member))
        except (zipfile.BadZipFile, zlib.error, EOFError) as error:
            raise _broken_archive(self.path) from error

    def lines(self):
        """Yield (line number from 1, text) of the lines that are not blank."""
        text = io.TextIOWrapper(pa.BufferReader(self.contents), encoding="utf-8", errors="replace")
        for number, line in enumerate(text, start=1):
            if line.strip():
                yield number, line.rstrip("\r\n")


def sha256(files):
    """SHA-256 of the contents of files, one after another: the same, packed or not."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.contents)
    return digest.hexdigest()


def find(folder, pattern):
    """Find the files of a data set.

    Parameters
    ----------
    folder : str, the data set's folder within each of `data_folders()`
    pattern : str, a file name with wildcards; alternatives are separated by "|", the first found counts

    Returns
    -------
    list of DataFile, by name: from the first place that has any, of the folder itself, its sub-folders, and the zip
    archives in or beside it; empty where there are none

    Raises
    ------
    DataError : an archive that cannot be opened
    """
    for root in data_folders():
        for alternative in pattern.split("|"):
            for place in (root / folder, *sorted((root / folder).glob("*/"))):
                if files := sorted(place.glob(alternative)):
                    return [DataFile(file) for file in files]
            for archive in (*sorted((root / folder).glob("*.zip")), root / f"{folder}.zip"):
                if members := _members(archive, alternative):
                    return [DataFile(archive, member) for member in members]
    return []


def _members(archive, pattern):
    if not archive.exists():
        return []
    try:
        with zipfile.ZipFile(archive) as opened:
            return sorted(name for name in opened.namelist() if Path(name).match(pattern))
    except zipfile.BadZipFile as error:
        raise _broken_archive(archive) from error


def _broken_archive(path):
    return DataError(f"{path} is truncated or not a zip archive; delete it and download it again")
