"""What workers say to each other: collective operations over the connections that Dask's workers have.

Works like Dask's own P2P shuffles: a handler of the worker takes messages in, and arrays go out on its connections.
Tasks wait in the worker's thread, the network lives in its event loop.
"""

import asyncio
import copy
import threading
import time
from contextlib import contextmanager
from itertools import count, pairwise

import numpy as np
from distributed import WorkerPlugin, get_worker
from distributed.protocol import to_serialize

_NAME = "gpumf-mailbox"
_OPERATION = "gpumf_deliver"


class CommunicationError(RuntimeError):
    """A collective operation did not come to its end. Nothing can be said of the arrays that it was to fill."""


class CommunicationTimeout(CommunicationError):
    """Not all workers came to a collective operation in time."""


class PeerLost(CommunicationError):
    """Another worker cannot be reached."""


class Aborted(CommunicationError):
    """The driver has given this attempt up."""


class MailboxPlugin(WorkerPlugin):
    """Gives each worker, those that come later too, a `Mailbox`."""

    name = _NAME

    def setup(self, worker):
        # Registered once more for the next training, it must not lose what has arrived for one that runs.
        if _NAME not in worker.extensions:
            worker.extensions[_NAME] = Mailbox(worker)


class Mailbox:
    """The messages that have arrived at a worker, by (training, attempt, step, sender).

    Attempts of a training are numbered from 0. A worker takes part in one of them at a time: once it has opened or
    given up an attempt, whatever still comes of one before is dropped.
    """

    def __init__(self, worker):
        self._worker, self._changed = worker, threading.Condition()
        self._messages, self._oldest = {}, {}
        worker.handlers[_OPERATION] = self.deliver

    async def deliver(self, training, attempt, step, sender, payload):
        """Take a message in: the handler."""
        with self._changed:
            if attempt >= self._oldest.get(training, 0):
                self._messages[training, attempt, step, sender] = payload
                self._changed.notify_all()

    def check(self, training, attempt):
        """Raise `Aborted` where this attempt was given up."""
        if attempt < self._oldest.get(training, 0):
            raise Aborted(f"attempt {attempt} of the training was given up")

    def abort(self, training, attempt):
        """Give all attempts before this one up: whoever waits in one raises `Aborted`."""
        with self._changed:
            self._oldest[training] = max(attempt, self._oldest.get(training, 0))
            kept = {key: value for key, value in self._messages.items() if key[0] != training or key[1] >= attempt}
            self._messages = kept
            self._changed.notify_all()

    def send(self, address, message, payload):
        """Start to send; a future that is done when the other side has the message."""
        if address.startswith("inproc:"):  # by reference: the receiver would see what the sender writes next
            payload = copy.deepcopy(payload)
        names = dict(zip(("training", "attempt", "step", "sender"), message, strict=True))

        async def deliver():
            await getattr(self._worker.rpc(address), _OPERATION)(**names, payload=to_serialize(payload))

        def notify(_):
            with self._changed:
                self._changed.notify_all()

        sent = asyncio.run_coroutine_threadsafe(deliver(), self._worker.loop.asyncio_loop)
        sent.add_done_callback(notify)
        return sent

    def collect(self, message, senders, sent, timeout):
        """Wait until messages of this step have come from all senders, and those sent have gone to their rank.

        Connecting to a worker that has died goes on for as long as Dask's own time-outs let it: so nobody waits for
        what was sent without listening for an abort too.

        message : (training, attempt, step); sent : dict of rank -> future of `send`. Returns {rank: payload}.
        """
        attempt = message[:2]

        def failed():
            return [rank for rank, future in sent.items() if future.done() and future.exception()]

        def late():
            missing = {rank for rank in senders if (*message, rank) not in self._messages}
            return sorted(missing | {rank for rank, future in sent.items() if not future.done()})

        def given_up():
            return attempt[1] < self._oldest.get(attempt[0], 0)

        with self._changed:
            self._changed.wait_for(lambda: given_up() or failed() or not late(), timeout)
            try:
                self.check(*attempt)
                if lost := failed():
                    raise PeerLost(f"worker {lost[0]} cannot be reached: {sent[lost[0]].exception()!r}")
                if late():
                    raise CommunicationTimeout(
                        f"after {timeout:g} s nothing has come from or got through to the workers {late()}; where "
                        "they only take longer, raise timeout"
                    )
                return {rank: self._messages.pop((*message, rank)) for rank in senders}
            except Exception:
                for future in sent.values():
                    future.cancel()
                raise


def abort(training, attempt, dask_worker=None):
    """Have a worker give all attempts of a training before this one up: for `Client.run`."""
    if (mailbox := dask_worker.extensions.get(_NAME)) is not None:
        mailbox.abort(training, attempt)


@contextmanager
def communicator(training, attempt, rank, addresses, timeout):
    """The `Communicator` of the task that runs here, for as long as the body lasts.

    training, attempt : str and int, the same on all workers
    rank : int, of this one; addresses : of all, by rank
    timeout : seconds
    """
    mailbox = get_worker().extensions[_NAME]
    mailbox.abort(training, attempt)  # what has come for attempts before is nobody's any more
    try:
        yield Communicator(mailbox, (training, attempt), rank, addresses, timeout)
    finally:
        mailbox.abort(training, attempt + 1)


class Communicator:
    """One of `size` workers that run the same program: every worker calls the same operations in the same order.

    Each operation is complete on return, or raises a `CommunicationError` after at most `timeout` seconds. Sums are
    the same on every worker, bit for bit. Arrays on a device go by way of the host; `gpumf.distributed.nccl` has a
    quicker way.

    `bounds` cut an array's rows into those of each worker: (size + 1,) integers, ascending from 0 to rows. Worker r
    has the rows bounds[r] to bounds[r + 1], which may be none.

    Attributes
    ----------
    rank, size : this worker's number, from 0, and how many there are
    timeout : seconds that an operation may take
    """

    def __init__(self, mailbox, attempt, rank, addresses, timeout):
        self._mailbox, self._attempt, self._addresses, self._steps = mailbox, attempt, addresses, count()
        self.rank, self.size, self.timeout = rank, len(addresses), timeout

    def exchange(self, outgoing, senders=None):
        """Send each of some workers something, and get something from some.

        outgoing : dict of rank -> what goes there: arrays, or what pickles
        senders : ranks from which something comes; by default all

        Returns a dict of rank -> what came from there.
        """
        started = time.monotonic()
        others = [rank for rank in (range(self.size) if senders is None else senders) if rank != self.rank]
        step = (*self._attempt, next(self._steps))
        sent = {
            rank: self._mailbox.send(self._addresses[rank], (*step, self.rank), payload)
            for rank, payload in outgoing.items()
            if rank != self.rank
        }
        come = self._mailbox.collect(step, others, sent, self.timeout - (time.monotonic() - started))
        if self.rank in outgoing:
            come[self.rank] = outgoing[self.rank]
        return come

    def check(self):
        """Raise `Aborted` where the driver has given this attempt up: for waits for something else."""
        self._mailbox.check(*self._attempt)

    def all_gather_object(self, thing):
        """What every worker gives, by rank: things that pickle."""
        come = self.exchange(dict.fromkeys(range(self.size), thing))
        return [come[rank] for rank in range(self.size)]

    def barrier(self):
        """Return when every worker has come here."""
        self.all_gather_object(None)

    def all_gather(self, array, bounds):
        """Give every worker all rows, in place: of each worker its own rows count."""
        if self.size == 1:
            return  # an array on a device would go by way of the host
        own = _on_host(array[bounds[self.rank] : bounds[self.rank + 1]])
        come = self.exchange({rank: own for rank in range(self.size) if rank != self.rank})
        for rank, rows in come.items():
            _write(array[bounds[rank] : bounds[rank + 1]], rows)

    def reduce_scatter(self, array, bounds):
        """Add up the workers' arrays; return this worker's rows, which hold the sums, the others anything."""
        if self.size == 1:
            return array
        host = _on_host(array)
        come = self.exchange({rank: host[bounds[rank] : bounds[rank + 1]] for rank in range(self.size)})
        total = come[0].copy()
        for rank in range(1, self.size):  # always in this order, for the same sums in every run
            total += come[rank]
        own = array[bounds[self.rank] : bounds[self.rank + 1]]
        _write(own, total)
        return own

    def start_reduce_scatter(self, array, bounds):
        """As `reduce_scatter`, but only begun, so that what is launched next is worked on meanwhile.

        Returns a function that completes it and returns what `reduce_scatter` does. Until it has, the array is not to
        be touched, and nothing else is to be asked of the workers but to begin another and to complete them in order.
        """
        return lambda: self.reduce_scatter(array, bounds)

    def all_reduce(self, array):
        """Add up the workers' arrays, in place, of one shape."""
        flat = array.reshape(-1)
        bounds = np.arange(self.size + 1) * flat.size // self.size
        self.reduce_scatter(flat, bounds)
        self.all_gather(flat, bounds)

    def all_to_all(self, arrays, bounds):
        """Give each worker its part of some arrays of as many rows, and get one's own from all.

        bounds : of this worker's rows: those for worker r begin at bounds[r]

        Returns a list of what came of each array, one sender's part after another's.
        """
        hosts, parts = list(map(_on_host, arrays)), [slice(*pair) for pair in pairwise(bounds)]
        come = self.exchange({rank: [host[part] for host in hosts] for rank, part in enumerate(parts)})
        joined = (np.concatenate(some) for some in zip(*(come[rank] for rank in range(self.size)), strict=True))
        return [_there(host, array) for host, array in zip(joined, arrays, strict=True)]

    def shift(self, outgoing, incoming):
        """Pass an array round the ring, to the worker before; `incoming`, of its shape there, comes from the next."""
        before, after = (self.rank - 1) % self.size, (self.rank + 1) % self.size
        _write(incoming, self.exchange({before: _on_host(outgoing)}, [after])[after])


def _on_host(array):
    return array if isinstance(array, np.ndarray) else array.get()


def _there(host, like):
    """An array of the host where another one is."""
    if isinstance(like, np.ndarray):
        return host
    result = type(like)(host.shape, host.dtype)
    result.set(host)
    return result


def _write(target, array):
    if isinstance(target, np.ndarray):
        target[...] = array
    else:
        target.set(array)
