"""Collective operations over the connections that Dask's workers have with each other.

Works like Dask's own P2P shuffles: a handler of the worker takes messages in, and arrays go out on its connections.
Tasks wait in the worker's thread, the network lives in its event loop.
"""

import asyncio
import copy
import threading
import time
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
from distributed import WorkerPlugin, get_worker
from distributed.protocol import to_serialize

from gpumf.distributed.communicator import Aborted, CommunicationTimeout, Communicator, PeerLost

_NAME = "gpumf-mailbox"
_OPERATION = "gpumf_deliver"
_GIVEN_UP = "attempt {} of the training was given up"


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
        self._worker = worker
        self._changed = threading.Condition()
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
            raise Aborted(_GIVEN_UP.format(attempt))

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

        sent = asyncio.run_coroutine_threadsafe(deliver(), self._worker.loop.asyncio_loop)
        sent.add_done_callback(self._notify)
        return sent

    def _notify(self, _):
        with self._changed:
            self._changed.notify_all()

    def collect(self, message, senders, sent, timeout):
        """Wait until messages of this step have come from all senders, and those sent have gone to their rank.

        Connecting to a worker that has died goes on for as long as Dask's own time-outs let it: so nobody waits for
        what was sent without listening for an abort too.

        Parameters
        ----------
        message : (training, attempt, step)
        senders : ranks
        sent : dict of rank -> future of `send`

        Returns
        -------
        dict of rank -> payload

        Raises
        ------
        Aborted, PeerLost, CommunicationTimeout
        """
        training, attempt, _ = message
        keys = {rank: (*message, rank) for rank in senders}

        def failed():
            return [rank for rank, f in sent.items() if f.done() and f.exception()]

        def gone():
            return attempt < self._oldest.get(training, 0)

        def arrived():
            return all(key in self._messages for key in keys.values()) and all(f.done() for f in sent.values())

        with self._changed:
            self._changed.wait_for(lambda: gone() or failed() or arrived(), timeout)
            if gone():
                problem = Aborted(_GIVEN_UP.format(attempt))
            elif lost := failed():
                problem = PeerLost(f"worker {lost[0]} cannot be reached: {sent[lost[0]].exception()!r}")
            elif not arrived():
                late = sorted(
                    {rank for rank, key in keys.items() if key not in self._messages}
                    | {rank for rank, f in sent.items() if not f.done()}
                )
                problem = CommunicationTimeout(
                    f"after {timeout:g} s nothing has come from or got through to the workers {late}; where they "
                    "only take longer, raise timeout"
                )
            else:
                return {rank: self._messages.pop(key) for rank, key in keys.items()}
        for future in sent.values():
            future.cancel()
        raise problem

    def finish(self, training, attempt):
        """Drop an attempt, whose end this worker has reached, and what has come for it."""
        self.abort(training, attempt + 1)


def abort(training, attempt, dask_worker=None):
    """Have a worker give all attempts of a training before this one up: for `Client.run`."""
    mailbox = dask_worker.extensions.get(_NAME)
    if mailbox is not None:
        mailbox.abort(training, attempt)


@contextmanager
def communicator(training, attempt, rank, addresses, timeout):
    """The `DaskCommunicator` of the task that runs here, for as long as the body lasts.

    Parameters
    ----------
    training, attempt : str and int, the same on all workers
    rank : int, of this one
    addresses : of all workers, by rank
    timeout : seconds
    """
    mailbox = get_worker().extensions[_NAME]
    try:
        yield DaskCommunicator(mailbox, training, attempt, rank, addresses, timeout)
    finally:
        mailbox.finish(training, attempt)


class DaskCommunicator(Communicator):
    """Over Dask's connections, arrays on the host; those on a device are copied by way of it."""

    def __init__(self, mailbox, training, attempt, rank, addresses, timeout):
        self._mailbox, self._addresses = mailbox, addresses
        self._id, self._step = (training, attempt), 0
        self.rank, self.size, self.timeout = rank, len(addresses), timeout
        mailbox.abort(training, attempt)  # what has come for attempts before is nobody's any more

    def exchange(self, outgoing, senders=None):
        """Send each of some workers something, and get something from some.

        Parameters
        ----------
        outgoing : dict of rank -> what goes there: arrays, or what pickles
        senders : ranks from which something comes; by default all

        Returns
        -------
        dict of rank -> what came from there
        """
        started = time.monotonic()
        others = [rank for rank in (range(self.size) if senders is None else senders) if rank != self.rank]
        step = (*self._id, self._step)
        self._step += 1
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
        self._mailbox.check(*self._id)

    def all_gather_object(self, thing):
        """What every worker gives, by rank: things that pickle."""
        come = self.exchange(dict.fromkeys(range(self.size), thing))
        return [come[rank] for rank in range(self.size)]

    def barrier(self):
        self.all_gather_object(None)

    def all_gather(self, array, bounds):
        if self.size == 1:
            return  # an array on a device would go by way of the host
        own = _on_host(array[bounds[self.rank] : bounds[self.rank + 1]])
        come = self.exchange({rank: own for rank in range(self.size) if rank != self.rank})
        for rank, rows in come.items():
            _write(array[bounds[rank] : bounds[rank + 1]], rows)

    def reduce_scatter(self, array, bounds):
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

    def all_to_all(self, arrays, bounds):
        hosts, parts = list(map(_on_host, arrays)), [slice(*pair) for pair in pairwise(bounds)]
        come = self.exchange({rank: [host[part] for host in hosts] for rank, part in enumerate(parts)})
        joined = (np.concatenate(some) for some in zip(*(come[rank] for rank in range(self.size)), strict=True))
        return [_there(host, array) for host, array in zip(joined, arrays, strict=True)]

    def shift(self, outgoing, incoming):
        before, after = (self.rank - 1) % self.size, (self.rank + 1) % self.size
        come = self.exchange({before: _on_host(outgoing)}, [after])
        _write(incoming, come[after])


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
