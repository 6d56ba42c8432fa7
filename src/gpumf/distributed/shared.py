"""Columns of ratings in memory that other processes of the same machine map into theirs: nothing is sent.

By files without a name in any folder (memfd_create of Linux), which processes of the same user open by the one that
has them. They are gone with it, however it ends.
"""

import os
import uuid
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from gpumf._util import interrupts
from gpumf.distributed.communicator import PeerLost


class SharedColumns:
    """NumPy arrays of one length that are written once, when first asked for, and are there until `close`."""

    def __init__(self, columns):
        self._columns, self._written, self._name = columns, False, f"gpumf-{uuid.uuid4().hex}"
        # Where there are none, as beyond Linux, nobody sees them.
        self._files = [os.memfd_create(self._name) for _ in columns] if hasattr(os, "memfd_create") else []

    def seen(self, client, addresses):
        """Those of some workers who can read the arrays: they are on this machine, and of this user.

        PeerLost where one does not answer: sending to it would try to connect for as long as the client's timeout.
        """
        if not self._files:
            return set()
        found = client.run(_reads, self._paths()[0], self._name, workers=list(addresses), on_error="ignore")
        if lost := sorted(set(addresses) - set(found)):
            raise PeerLost(f"the worker {lost[0]} was lost")
        return {address for address, reads in found.items() if reads}

    def part(self, begin, end):
        """What `mapped` makes the elements from `begin` to before `end` of."""
        if not self._written:
            with interrupts.deferred(), ThreadPoolExecutor(len(self._files)) as pool:
                list(pool.map(_write, self._files, self._columns))
            self._written = True
        return self._paths(), int(begin), int(end)

    def close(self):
        """Let the arrays go; who has mapped them keeps them."""
        while self._files:
            os.close(self._files.pop())

    def _paths(self):
        return [f"/proc/{os.getpid()}/fd/{file}" for file in self._files]


def _write(file, array):
    with open(file, "wb", closefd=False) as stream:
        np.save(stream, array)


def _reads(path, name):
    """Whether this process opens a file by this path, and it is that of this name, not another machine's."""
    try:
        with open(path, "rb"):
            return name in os.readlink(path)
    except OSError:
        return False


def mapped(paths, begin, end):
    """The arrays of a part as of `SharedColumns.part`. Whoever writes to them changes a copy of their own."""
    return tuple(np.asarray(np.load(path, mmap_mode="c"))[begin:end] for path in paths)
