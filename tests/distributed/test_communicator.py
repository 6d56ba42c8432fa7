"""Collective operations over Dask's connections, among real processes."""

import time
import uuid

import numpy as np
import pytest
from distributed import wait

from gpumf.distributed import Aborted, CommunicationTimeout, PeerLost
from gpumf.distributed.communicator import MailboxPlugin, abort, communicator

pytestmark = pytest.mark.slow

ROWS = {1: [[0, 5]], 2: [[0, 4, 5], [0, 0, 5], [0, 5, 5]], 3: [[0, 1, 1, 5], [0, 2, 4, 5], [0, 0, 0, 5]]}
CASES = [(n, bounds) for n, several in ROWS.items() for bounds in several]


def start(client, addresses, program, timeout=300.0, training=None, attempt=0):
    """The futures of a program on each worker, given its communicator."""
    client.register_plugin(MailboxPlugin())
    training = training or uuid.uuid4().hex

    def run(rank):
        with communicator(training, attempt, rank, addresses, timeout) as comm:
            return program(comm)

    return [
        client.submit(run, rank, workers=[address], pure=False, retries=0) for rank, address in enumerate(addresses)
    ]


@pytest.mark.parametrize(("n", "bounds"), CASES)
def test_all_gather_gives_everyone_every_row_in_place(client, addresses, n, bounds):
    expected = np.arange(10, dtype=np.float32).reshape(5, 2)

    def program(comm):
        own = slice(bounds[comm.rank], bounds[comm.rank + 1])
        array = np.full((5, 2), -1, np.float32)
        array[own] = np.arange(10).reshape(5, 2)[own]
        comm.all_gather(array, bounds)
        return array

    for array in client.gather(start(client, addresses[:n], program)):
        assert np.array_equal(array, expected)


@pytest.mark.parametrize(("n", "bounds"), CASES)
def test_reduce_scatter_adds_up_and_all_reduce_gives_it_to_all(client, addresses, n, bounds):
    weights = np.arange(10).reshape(5, 2)

    def program(comm):
        array = np.float32(weights * (comm.rank + 1))
        total = np.float64(weights + comm.rank)
        comm.all_reduce(total)
        return comm.reduce_scatter(array, bounds).copy(), total

    found = client.gather(start(client, addresses[:n], program))
    own, totals = zip(*found, strict=True)
    assert np.array_equal(np.concatenate(own), weights * n * (n + 1) / 2)
    assert all(np.array_equal(total, weights * n + n * (n - 1) / 2) for total in totals)


SENT = {1: [[0, 3]], 2: [[0, 2, 3], [0, 0, 3]], 3: [[0, 1, 1, 3], [0, 0, 0, 0], [0, 0, 2, 3]]}


@pytest.mark.parametrize("n", SENT)
def test_all_to_all_gives_each_its_parts_in_the_order_of_their_senders(client, addresses, n):
    bounds = SENT[n]  # of each sender: some send nothing to some, or nothing at all

    def sent(rank):
        return np.arange(bounds[rank][-1], dtype=np.int32) + 10 * rank

    def program(comm):
        own = sent(comm.rank)
        return comm.all_to_all([own, np.float32(own / 2)], bounds[comm.rank])

    bounds = [bounds[rank % len(bounds)] for rank in range(n)]
    for rank, (whole, half) in enumerate(client.gather(start(client, addresses[:n], program))):
        expected = np.concatenate([sent(k)[slice(*bounds[k][rank : rank + 2])] for k in range(n)])
        assert whole.dtype == np.int32 and np.array_equal(whole, expected)
        assert half.dtype == np.float32 and np.array_equal(half, expected / 2)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_what_goes_round_the_ring_comes_home(client, addresses, n):
    """Large enough that its bytes go in frames of their own."""

    def program(comm):
        seen, held = [], np.full(30_000, comm.rank, np.float32)
        for _ in range(comm.size):
            seen.append(int(held[-1]))
            incoming = np.empty_like(held)
            comm.shift(held, incoming)
            held = incoming
        return seen, int(held[0])

    for rank, (seen, last) in enumerate(client.gather(start(client, addresses[:n], program))):
        assert seen == [(rank + k) % n for k in range(n)] and last == rank


def test_who_waits_for_one_that_never_comes_gives_up_in_time(client, addresses):
    def program(comm):
        if comm.rank == 1:
            return None
        started = time.monotonic()
        with pytest.raises(CommunicationTimeout, match=r"workers \[1\]"):
            comm.barrier()
        return time.monotonic() - started

    waited, _ = client.gather(start(client, addresses[:2], program, timeout=0.3))
    assert waited > 0.2


def test_a_worker_that_is_not_there_is_lost_or_late_but_never_waited_for(client, addresses):
    gone = "tcp://127.0.0.1:1"  # nobody listens there

    def run():
        with communicator("gone", 0, 0, [addresses[0], gone], 0.5) as comm:
            comm.barrier()

    with pytest.raises((PeerLost, CommunicationTimeout)):
        client.submit(run, workers=[addresses[0]], pure=False).result()


def test_an_abort_wakes_who_waits_and_the_next_attempt_hears_nothing_of_this_one(client, addresses):
    training = uuid.uuid4().hex

    def first(comm):
        comm.exchange({rank: "from the first attempt" for rank in range(3)}, [])
        if comm.rank == 2:
            return
        comm.barrier()

    def second(comm):
        return comm.all_gather_object(("second", comm.rank))

    started = start(client, addresses, first, timeout=600, training=training)
    started[2].result()
    client.run(abort, training, 1, workers=addresses)
    wait(started, timeout=300)
    assert isinstance(started[0].exception(), Aborted) and isinstance(started[1].exception(), Aborted)
    for found in client.gather(start(client, addresses, second, training=training, attempt=1)):
        assert found == [("second", rank) for rank in range(3)]

    def kept(dask_worker):
        return len(dask_worker.extensions["gpumf-mailbox"]._messages)

    assert set(client.run(kept).values()) == {0}
