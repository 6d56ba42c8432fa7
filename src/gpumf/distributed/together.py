"""A program on several workers of a cluster at once."""

import time
import uuid
from collections.abc import Callable
from contextlib import contextmanager, suppress
from typing import Any

from gpumf.distributed.communicator import CommunicationError, MailboxPlugin, PeerLost, abort, communicator

POLL_SECONDS = 0.2


def together(client: Any, work: Callable, *arguments: Any, timeout: float = 600.0) -> list:
    """Run work(comm, *arguments) on every worker, where comm is a `Communicator` of them all.

    client : `distributed.Client`
    work : function that workers can import; its arguments are the same for all
    timeout : seconds that a worker waits for the others

    Returns
    -------
    list of what it returned, by rank

    Raises
    ------
    what `work` raises on one of them; the others are told to give up
    PeerLost : a worker died
    """
    client.register_plugin(MailboxPlugin())
    addresses = sorted(client.ncores())
    with at_once(client, uuid.uuid4().hex, 0, addresses, timeout, work, [arguments] * len(addresses)) as futures:
        return client.gather(futures)


@contextmanager
def at_once(client, training, attempt, addresses, timeout, work, arguments):
    """Run work(comm, *arguments[rank]) on the worker of each rank, and give the futures, all of which have finished.

    Dask starts a task again somewhere else, but not others that wait for it. So one that fails ends the attempt, and
    all workers are free again at the end: those that wait for others are told that it is over, and waited for, as
    the next attempt's tasks would queue behind theirs. A worker that cannot be told is started again.

    client : has registered the `MailboxPlugin`
    training, attempt, addresses, timeout : of `gpumf.distributed.communicator.communicator`

    Raises
    ------
    what `work` raises on one of them; an error that `may_pass` only where there is no other
    PeerLost : a worker died
    """
    futures = []

    def running():
        pending = {a for a, future in zip(addresses, futures, strict=False) if future.status == "pending"}
        return sorted(pending & set(client.ncores())) if pending else []

    try:
        for rank, address in enumerate(addresses):
            given = training, attempt, rank, tuple(addresses), timeout, work, arguments[rank]
            key = f"gpumf-{training}-{attempt}-{rank}"
            futures.append(client.submit(_run, *given, key=key, workers=[address], pure=False, retries=0))
        while not _finished(client, addresses, futures):
            pass
        yield futures
    finally:
        if left := running():
            client.run(abort, training, attempt + 1, workers=left, on_error="ignore")
        deadline = time.monotonic() + timeout
        while (left := running()) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS / 4)
        if left:
            client.restart_workers(left, raise_for_error=False)
        client.cancel(futures, force=True)


def _finished(client, addresses, futures):
    """Whether all tasks have finished after a while; raises as `at_once` where one cannot any more.

    The task of a worker that died fails for nobody: it may run there alone, and the scheduler would wait for the
    worker to come back. So the workers are watched too.
    """
    from distributed import wait

    with suppress(Exception):  # of a task: its future tells
        wait(futures, timeout=POLL_SECONDS)
    states = {future.status for future in futures}
    errors = sorted((future.exception() for future in futures if future.status == "error"), key=may_pass)
    if errors and not may_pass(errors[0]):
        raise errors[0]
    if states != {"finished"} and (gone := sorted(set(addresses) - set(client.ncores()))):
        raise PeerLost(f"the worker {gone[0]} was lost") from (errors[0] if errors else None)
    if errors:
        raise errors[0]
    if {"cancelled", "lost"} & states:
        raise PeerLost("a task was cancelled or lost")
    return states == {"finished"}


def may_pass(error):
    """Whether an error is of the connections between workers, not of the program or its ratings."""
    from distributed import KilledWorker
    from distributed.comm import CommClosedError

    return isinstance(error, CommunicationError | CommClosedError | KilledWorker)


def _run(training, attempt, rank, addresses, timeout, work, arguments):
    with communicator(training, attempt, rank, addresses, timeout) as comm:
        return work(comm, *arguments)
