"""Columns of ratings in files of the machine's memory, which other processes of the same machine map into theirs."""

import os
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

_FOLDERS = "/dev/shm", tempfile.gettempdir()  # Linux keeps the files of the first in memory alone


class SharedColumns:
    """Arrays of one length that are written once, when they are first asked for, and are there until `close`.

    Parameters
    ----------
    columns : NumPy arrays
    """

    def __init__(self, columns):
        self._columns, self._written = columns, False
        needed = 2 * sum(column.nbytes for column in columns)  # what else is kept there has to find room, too
        folder = next((f for f in _FOLDERS if os.path.isdir(f) and shutil.disk_usage(f).free >= needed), None)
        self._folder = folder and tempfile.TemporaryDirectory(prefix="gpumf-", dir=folder)

    def seen(self, client, addresses):
        """Those of some workers who can read these files; none where there is no room for them."""
        if self._folder is None:
            return set()
        found = client.run(_reads, self._folder.name, workers=list(addresses), on_error="ignore")
        return {address for address, reads in found.items() if reads}

    def part(self, begin, end):
        """What `mapped` makes the elements from `begin` to before `end` of."""
        paths = [str(Path(self._folder.name, f"{k}.npy")) for k in range(len(self._columns))]
        if not self._written:
            with ThreadPoolExecutor(len(paths)) as pool:
                list(pool.map(np.save, paths, self._columns))
            self._written = True
        return paths, int(begin), int(end)

    def close(self):
        """Remove the files; who has mapped them keeps what is there."""
        if self._folder is not None:
            self._folder.cleanup()


def _reads(folder):
    """Whether this process may read the files of a folder: it does on the machine, and as the user, who made it."""
    return os.access(folder, os.R_OK | os.X_OK)


def mapped(paths, begin, end):
    """The arrays of a part as of `SharedColumns.part`. Whoever writes to them changes a copy of their own."""
    return tuple(np.asarray(np.load(path, mmap_mode="c"))[begin:end] for path in paths)
