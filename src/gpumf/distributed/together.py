"""A program of one's own on all workers of a cluster at once."""

import uuid
from collections.abc import Callable
from typing import Any

from gpumf.distributed.mailbox import MailboxPlugin, abort, communicator


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
    """
    from distributed import as_completed

    client.register_plugin(MailboxPlugin())
    addresses, training = tuple(sorted(client.ncores())), uuid.uuid4().hex
    futures = [
        client.submit(
            _run, training, rank, addresses, timeout, work, arguments, workers=[address], pure=False, retries=0
        )
        for rank, address in enumerate(addresses)
    ]
    try:
        for future in as_completed(futures):
            future.result()
        return client.gather(futures)
    except BaseException:
        client.run(abort, training, 1, on_error="ignore")
        raise


def _run(training, rank, addresses, timeout, work, arguments):
    with communicator(training, 0, rank, addresses, timeout) as comm:
        return work(comm, *arguments)
