"""What workers say to each other: collective operations on arrays, whatever carries them."""

from abc import ABC, abstractmethod
from functools import partial

import numpy as np


class CommunicationError(RuntimeError):
    """A collective operation did not come to its end. Nothing can be said of the arrays that it was to fill."""


class CommunicationTimeout(CommunicationError):
    """Not all workers came to a collective operation in time."""


class PeerLost(CommunicationError):
    """Another worker cannot be reached."""


class Aborted(CommunicationError):
    """The driver has given this attempt up."""


class Communicator(ABC):
    """One of `size` workers that run the same program: every worker calls the same operations in the same order.

    Each operation is complete on return, or raises a `CommunicationError` after at most `timeout` seconds. Sums are
    the same on every worker, bit for bit.

    Attributes
    ----------
    rank, size : this worker's number, from 0, and how many there are
    timeout : seconds that an operation may take
    """

    rank: int
    size: int
    timeout: float

    @abstractmethod
    def all_gather(self, array, bounds):
        """Give every worker all rows, in place.

        Parameters
        ----------
        array : (rows, ..), on the host or where the transport works, contiguous; of each worker its own rows count
        bounds : (size + 1,) integers, ascending from 0 to rows: worker r has the rows bounds[r] to bounds[r + 1],
            which may be none
        """

    @abstractmethod
    def reduce_scatter(self, array, bounds):
        """Add up the workers' arrays; each worker gets the sums of its rows, bounds as of `all_gather`.

        Returns
        -------
        The array's own rows, which hold the sums; what the others hold now is undefined
        """

    def start_reduce_scatter(self, array, bounds):
        """As `reduce_scatter`, but only begun, so that what is launched next is worked on meanwhile.

        Returns
        -------
        A function that completes it and returns what `reduce_scatter` does; until it has, the array is not to be
        touched, and nothing else is to be asked of the workers but to begin another and to complete them in order
        """
        return partial(self.reduce_scatter, array, bounds)

    @abstractmethod
    def all_to_all(self, arrays, bounds):
        """Give each worker its part of some arrays, and get one's own from all.

        Parameters
        ----------
        arrays : list of (rows,), as of `all_gather`, of as many rows
        bounds : as of `all_gather`, of this worker's rows: those for worker r begin at bounds[r]

        Returns
        -------
        list of what came of each array, one sender's part after another's
        """

    @abstractmethod
    def shift(self, outgoing, incoming):
        """Pass an array round the ring, to the worker before; `incoming`, of its shape there, comes from the next."""

    def all_reduce(self, array):
        """Add up the workers' arrays, in place, of one shape."""
        flat = array.reshape(-1)
        bounds = np.arange(self.size + 1) * flat.size // self.size
        self.reduce_scatter(flat, bounds)
        self.all_gather(flat, bounds)

    @abstractmethod
    def barrier(self):
        """Return when every worker has come here."""
