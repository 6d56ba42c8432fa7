"""A program of one's own on all workers of a cluster at once."""

import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from gpumf.distributed.communicator import PeerLost
from gpumf.distributed.mailbox import MailboxPlugin, abort, communicator

POLL_SECONDS = 0.2


def together(client: Any, work: Callable, *arguments: Any, timeout: float = 600.0) -> list:
    """Run work(comm, *arguments) on every worker, where comm is a `Communicator` of them all.

    Parameters
    ----------
    client : `distributed.Client`
    work : function that workers can import
    *arguments : the same for all
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
    addresses, training = tuple(sorted(client.ncores())), uuid.uuid4().hex
    futures = [
        client.submit(
            _run, training, rank, addresses, timeout, work, arguments, workers=[address], pure=False, retries=0
        )
        for rank, address in enumerate(addresses)
    ]
    try:
        for states, gone in watched(client, addresses, futures):
            for future, state in zip(futures, states, strict=True):
                if state == "error":
                    future.result()
            if gone:
                raise PeerLost(f"the worker {gone[0]} was lost")
        return client.gather(futures)
    except BaseException:
        client.run(abort, training, 1, on_error="ignore")
        raise


def watched(client, addresses, futures):
    """Watch tasks, one on each worker, until all have finished.

    The task of a worker that died fails for nobody: it may run there alone, and the scheduler would wait for the
    worker to come back. So the workers are watched too.

    Yields
    ------
    (states of the futures, addresses of the workers that are gone), again and again
    """
    from distributed import wait

    while True:
        with suppress(Exception):  # of a task: its future tells
            wait(futures, timeout=POLL_SECONDS)
        states = [future.status for future in futures]
        if set(states) == {"finished"}:
            return
        yield states, sorted(set(addresses) - set(client.ncores()))


def _run(training, rank, addresses, timeout, work, arguments):
    with communicator(training, 0, rank, addresses, timeout) as comm:
        return work(comm, *arguments)
