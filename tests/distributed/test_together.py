"""A program on all workers at once."""

import os
import signal

import numpy as np
import pytest

from gpumf.distributed import Aborted, PeerLost, local_cluster
from gpumf.distributed.together import together
from support import needs_gpus


def added(comm, first):
    array = np.array([first + comm.rank], np.float64)
    comm.all_reduce(array)
    return comm.rank, array[0]


def failing(comm, rank):
    if comm.rank == rank:
        raise LookupError(f"worker {rank} has lost its place")
    comm.barrier()


def test_results_come_by_rank(client):
    assert together(client, added, 10) == [(rank, 33.0) for rank in range(3)]


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 2])
def test_where_one_fails_the_others_do_not_wait(client, rank):
    # Who waits for its whole time raises CommunicationTimeout.
    with pytest.raises((LookupError, Aborted)):
        together(client, failing, rank, timeout=300)
    assert together(client, added, 0) == [(rank, 3.0) for rank in range(3)], "they can work again"


def killed(comm):
    if comm.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    comm.barrier()


@pytest.mark.slow
def test_a_worker_that_dies_is_noticed():
    needs_gpus(2)
    with local_cluster(2) as client, pytest.raises(PeerLost):
        together(client, killed, timeout=300)
