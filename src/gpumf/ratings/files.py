"""Where data files lie: in a folder or inside a zip archive there, found in the same way, and unpacked."""

import codecs
import csv
import hashlib
import io
import lzma
import os
import re
import sys
import zipfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPException
from importlib import import_module
from itertools import islice
from pathlib import Path
from threading import Lock

from gpumf._util import paths
from gpumf._util.forks import cached_property, in_children
from gpumf.ratings.checks import DataError

_ZIP = b"PK"
_CODECS = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bz2",
    b"\x04\x22\x4d\x18": "lz4",
    b"\xfd7zXZ\0": "xz",
}
"""How compressed files begin."""
PARQUET = b"PAR1"
"""How a Parquet file begins."""
_OF_RATINGS = re.compile(r"[^.].*\.(csv|tsv|txt|parquet)(\.(gz|bz2|xz|zst|lz4|zip))?", re.IGNORECASE)
"""Names of a folder's files that `read` takes."""
_FIELD = 1 << 24
"""Characters of a field of text; csv takes no more than 131,072 unless told otherwise."""
_RECORDS = 1000
"""Of text that are read while csv's limit is another, and the lock is held."""
_LIMIT = Lock()
_TIMEOUT = 60  # seconds that a server may be silent
_HASHED = 1 << 20
"""Bytes at a time."""


@in_children
def _after_fork():
    """A thread that is no more may have held it."""
    global _LIMIT
    _LIMIT = Lock()


def data_folders():
    """The folders searched for data sets, in order, at most two.

    $GPUMF_DATA where set, then data/raw of the repository; for an installed package, of the user's folder of gpumf
    (~/.local/share/gpumf on Linux), where there is one.
    """
    given = os.environ.get("GPUMF_DATA")
    try:
        folders = [Path(given).expanduser()] if given else []
    except RuntimeError as error:
        raise ValueError(f"GPUMF_DATA={given} names no folder: {error}") from error
    with suppress(OSError):
        folders.append(paths.home() / "data" / "raw")
    return folders


@dataclass(frozen=True)
class DataFile:
    """A file on disk, or a member of a zip archive.

    encoding : of its text; its bytes are then those in UTF-8
    given : its bytes, as they came, where they are on no disk
    """

    path: Path | str
    member: str | None = None
    encoding: str = "utf-8"
    given: bytes | None = field(default=None, repr=False)

    def __str__(self):
        return f"{self.path}:{self.member}" if self.member else str(self.path)

    @cached_property
    def plain(self):
        """Whether its bytes lie on disk as they are, not packed."""
        if self.member is not None or self.given is not None or self._foreign:
            return False
        with self._opened() as file:
            start = file.read(6)
        return not any(start.startswith(magic) for magic in _CODECS)

    @property
    def _foreign(self):
        return codecs.lookup(self.encoding).name not in ("utf-8", "utf-8-sig", "ascii")

    @property
    def size(self):
        """Of the unpacked bytes."""
        return self.path.stat().st_size if self.plain else self.contents.size

    def read(self, begin, end):
        """The unpacked bytes from begin to end, bytes; DataError where a plain file has become shorter."""
        if not self.plain:
            return self.contents.slice(begin, end - begin).to_pybytes()
        with self._opened() as file:
            file.seek(begin)
            found = file.read(end - begin)
        if len(found) != end - begin:
            raise self.changed()
        return found

    def stream(self):
        """The unpacked bytes as a file: of a plain one that on disk, so that memory does not hold all of it."""
        import pyarrow as pa

        return self._opened() if self.plain else pa.BufferReader(self.contents)

    @property
    def version(self):
        """What differs once another program has written the file; None where it is gone, or was on no disk."""
        if self.given is not None:
            return None
        try:
            found = os.stat(self.path)
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns

    def changed(self):
        """The DataError of a file that another program wrote meanwhile."""
        return DataError(f"{self} changed while it was read; read it again once it is complete")

    def _opened(self):
        try:
            return self.path.open("rb")
        except OSError as error:
            raise DataError(f"{self} cannot be read: {error}") from error

    @cached_property
    def contents(self):
        """The unpacked bytes, a pyarrow Buffer in memory; DataError where they cannot be read.

        None are mapped: a file that becomes shorter would end the process by SIGBUS.
        """
        import pyarrow as pa

        try:
            if self.given is not None:
                packed = pa.py_buffer(self.given)
            elif self.member is None:
                packed = pa.py_buffer(self.path.read_bytes())
            else:
                packed = pa.py_buffer(_unzipped(self.path, self.member))
            start = packed.slice(0, min(6, packed.size)).to_pybytes()
            codec = next((codec for magic, codec in _CODECS.items() if start.startswith(magic)), None)
            if codec == "xz":
                packed = pa.py_buffer(lzma.decompress(packed))
            elif codec:
                packed = pa.CompressedInputStream(pa.BufferReader(packed), codec).read_buffer()
            if self._foreign and not packed.slice(0, 4).equals(pa.py_buffer(PARQUET)):
                return pa.py_buffer(str(packed, self.encoding).encode())
            return packed
        except UnicodeError as error:
            raise DataError(f"{self} is not text in {self.encoding}: {error}; pass its encoding") from error
        except (OSError, EOFError, lzma.LZMAError, pa.ArrowException) as error:
            raise DataError(f"{self} cannot be read: {error}; is it complete?") from error

    def lines(self):
        """Yield (line number from 1, text) of the lines that are not blank."""
        with self._text(None) as text:
            for number, line in enumerate(text, start=1):
                if line.strip():
                    yield number, line.rstrip("\n")

    def records(self, delimiter):
        """Yield (number of its first line from 1, fields) of records that are not blank; quotes may span lines."""
        with self._text("") as text:
            reader, number, rows, error = csv.reader(text, delimiter=delimiter), 1, [()], None
            while rows and error is None:
                rows, error = _next(reader)
                for fields, line in rows:
                    if fields:
                        yield number, fields
                    number = line + 1
            if error:
                raise DataError(f"{self}, line {number}: {error}; is this a CSV file?") from error

    def _text(self, newline):
        """The lines as str; what is not UTF-8 in them comes as lone surrogates, for messages to show."""
        return io.TextIOWrapper(self.stream(), encoding="utf-8-sig", errors="surrogateescape", newline=newline)


def _next(reader):
    """(records, error): the next of a csv reader, each with the number of its last line, and what ended them or None.

    csv's limit of fields, which is the process's, is as before then.
    """
    rows, error = [], None
    with _LIMIT:
        before = csv.field_size_limit()
        csv.field_size_limit(max(before, _FIELD))
        try:
            for fields in islice(reader, _RECORDS):
                rows.append((fields, reader.line_num))
        except csv.Error as found:
            error = found
        finally:
            csv.field_size_limit(before)
    return rows, error


def single(path, encoding="utf-8"):
    """The `DataFile` of any path: the file itself, or the one within a zip archive; DataError where there is none.

    encoding : of its text
    """
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise DataError(f"{path} is a pipe or a device; give - in its place, and the ratings on standard input")
        if not path.is_file():
            raise DataError(f"there is no file {path}")
        with path.open("rb") as file:
            packed = file.read(2) == _ZIP and zipfile.is_zipfile(path)
    except OSError as error:
        raise DataError(f"{str(path)[:200]} cannot be read: {error.strerror}") from error
    if not packed:
        return DataFile(path, encoding=encoding)
    members = [name for name in _members(path, "*") if not name.endswith("/") and not name.startswith("__MACOSX/")]
    if not members:
        raise DataError(f"{path} is an empty archive: it holds 0 files; pack it again, or give the file itself")
    if len(members) > 1:
        raise DataError(f"{path} holds {len(members)} files, {', '.join(members[:3])}, ..; unpack it and give one")
    return DataFile(path, members[0], encoding)


def sources(path, encoding="utf-8"):
    """(name, files) of what `read` takes: a file, those of a folder, standard input (-), or what lies at an address.

    encoding : of their text. DataError : nothing there, a folder without files of ratings; otherwise as of `single`
    """
    text = os.fspath(path)
    if text == "-":
        if sys.stdin is None:
            raise DataError("standard input is closed; give a file")
        return "standard input", [DataFile("standard input", None, encoding, sys.stdin.buffer.read())]
    if "://" in text:
        return Path(text.split("?")[0]).stem, [DataFile(text, None, encoding, _fetched(text))]
    path = Path(path)
    if not text or not os.path.isdir(path):
        if not text:
            raise DataError("there is no file ''")
        return path.stem, [single(path, encoding)]
    found = [file for file in sorted(path.iterdir()) if _OF_RATINGS.fullmatch(file.name)]
    if not found:
        raise DataError(f"{path} is a folder without CSV, TSV, TXT or Parquet files; give one of its files")
    found = [single(file, encoding) for file in found]
    # Programs that write in parts leave parts without a row empty; a Parquet file of no bytes was not written.
    written = [file for file in found if file.size or ".parquet" in file.path.name.lower()]
    return path.resolve().name, written or found


def _fetched(address):
    """The bytes at an address: of the web, or of a store that fsspec opens."""
    try:
        if address.startswith(("http://", "https://", "ftp://")):
            from urllib.request import urlopen

            with urlopen(address, timeout=_TIMEOUT) as opened:
                return opened.read()
        import fsspec

        with fsspec.open(address, "rb") as opened:
            return opened.read()
    except (OSError, HTTPException, ValueError, ImportError) as error:
        raise DataError(f"{address} cannot be read: {error}") from error


def sha256(files):
    """SHA-256 of the contents of files, one after another: the same, packed or not."""
    digest = hashlib.sha256()
    for file in files:
        for begin in range(0, file.size, _HASHED):
            digest.update(file.read(begin, min(begin + _HASHED, file.size)))
    return digest.hexdigest()


@contextmanager
def unchanged(found):
    """Raise DataError if files change while it lasts, so that what was read is of several versions."""
    versions = [file.version for file in found]

    def check():
        for file, version in zip(found, versions, strict=True):
            if file.version != version:
                raise file.changed()

    try:
        yield
    except Exception:
        check()  # first: parts of two versions seldom fit, which says nothing of either
        raise
    check()


@contextmanager
def hashed(found):
    """As `unchanged`, while a thread of its own computes the SHA-256 of files; the Future of it."""
    from concurrent.futures import ThreadPoolExecutor

    with unchanged(found):
        for file in found:
            if not file.plain:
                _ = file.contents  # unpacked once, for both
        with ThreadPoolExecutor(1) as beside:
            yield beside.submit(sha256, found)


def find(folder, pattern):
    """The files of a data set, by name, a list of `DataFile`; DataError for an archive that cannot be opened.

    From the first place that has any: its `folder` within each of `data_folders()`, the sub-folders of that, and zip
    archives in or beside it.

    pattern : str, a file name with wildcards; alternatives are separated by "|", the first found counts
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
    except (zipfile.BadZipFile, OSError) as error:
        raise _broken_archive(archive, error) from error


def _unzipped(archive, member):
    try:
        with zipfile.ZipFile(archive) as opened:
            return opened.read(member)
    except RuntimeError as error:  # encrypted, or compressed in a way that Python does not know
        raise DataError(f"{archive}:{member} cannot be unpacked: {error}; unpack it with another program") from error
    except Exception as error:  # damaged bytes make each decompressor raise its own
        raise _broken_archive(archive, error) from error


def _broken_archive(path, error):
    return DataError(f"{path} is truncated or not a zip archive; delete it and download it again ({error})")


def of_extra(name, what):
    """Return the module of a package that reads `what`, a file or an address; DataError where it is not installed."""
    try:
        return import_module(name)
    except ImportError as error:
        raise DataError(f'{what} needs the package {name}: install it with `pip install "gpumf[data]"`') from error
