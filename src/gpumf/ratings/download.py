"""Download the sets whose licences let anyone do so: GroupLens's MovieLens and Berkeley's Jester.

The checksums are the publishers' own where they publish them (the .md5 beside each MovieLens archive) and
otherwise (Jester, MovieLens latest small) of the archives as distributed.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from gpumf.ratings import files
from gpumf.ratings.checks import DataError
from gpumf.ratings.files import of_extra
from gpumf.ratings.sources import SOURCES


def download(name: str, root: str | os.PathLike | None = None) -> list[Path]:
    """Fetch a data set's archives from its publisher, unless they are there already, and check them.

    Parameters
    ----------
    name : str, a row of `names()` whose `download` is true
    root : Path, the folder to hold the data set's own folder; the first of `files.data_folders()` by default

    Returns
    -------
    list of Path, the archives; `load` reads them as they are

    Raises
    ------
    DataError : a set that may not be downloaded; a folder that cannot be written; an address that does not answer;
        a wrong checksum. Nothing is left in the folder then
    """
    source = SOURCES.get(name)
    if source is None or not source.archives:
        raise DataError(f"{name!r} cannot be downloaded; {', '.join(downloadable())} can")
    if root is None and not (folders := files.data_folders()):
        raise DataError("there is no folder to download to: set GPUMF_DATA")
    folder = Path(root or folders[0], source.folder or name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise DataError(f"{folder} cannot be written: {error}; set GPUMF_DATA to a folder that can") from error
    return [_fetch(address, checksum, folder) for address, checksum in source.archives]


def downloadable() -> list[str]:
    """The names of the sets that `download` fetches."""
    return [name for name, source in SOURCES.items() if source.archives]


def _fetch(address, checksum, folder):
    pooch = of_extra("pooch", address)
    try:
        return Path(pooch.retrieve(address, checksum, address.rsplit("/", 1)[1], folder, progressbar=True))
    except ValueError as error:  # pooch has removed what it downloaded
        raise DataError(
            f"{address}: the download does not have the checksum {checksum}: truncated or changed; try again"
        ) from error
    except OSError as error:
        raise DataError(f"{address} cannot be downloaded: {error}; try again later") from error
