"""Operations by NCCL, and the end of its communicators: on all workers together, not when garbage is collected.

In NCCL's place stands `fake_nccl`, or what ends as NCCL does: who comes first waits for the others.
"""

import gc
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import fake_nccl
from gpumf import ALS
from gpumf.distributed import Aborted, PeerLost, fit, nccl
from gpumf.distributed.als import Worker
from gpumf.distributed.communicator import Communicator
from support import scattered

EPOCHS = 2


class Together(Communicator):
    """Carries factors by Dask's connections. Its end is written to a folder."""

    folder: Path

    def __init__(self, comm):
        vars(self).update(vars(comm))
        self._name, self._ended = self.all_gather_object(str(time.monotonic_ns()))[0], False

    def connect(self):
        pass

    def destroy(self):
        if self._ended:
            return
        self._ended, deadline = True, time.monotonic() + 20
        (self.folder / f"{self._name} destroyed by {self.rank}").touch()
        while len(list(self.folder.glob(f"{self._name} destroyed by *"))) < self.size:
            if time.monotonic() > deadline:
                (self.folder / f"{self._name} waited in vain").touch()
                return
            time.sleep(0.01)

    def abort(self):
        self._ended = True
        (self.folder / f"{self._name} aborted by {self.rank}").touch()

    __del__ = destroy  # as CuPy's


def stand_in(folder):
    """Put `Together` in NCCL's place on a worker, whose garbage collector comes only when it is called."""
    Together.folder = folder
    nccl._before = nccl.usable, nccl.NcclCommunicator
    nccl.usable, nccl.NcclCommunicator = lambda comm, device: comm.size > 1, Together
    gc.collect()
    gc.disable()


def put_back():
    nccl.usable, nccl.NcclCommunicator = nccl._before
    gc.enable()


@pytest.fixture
def ended(client, tmp_path):
    """The folder in which communicators write how they ended."""
    client.run(stand_in, tmp_path)
    yield tmp_path
    client.run(put_back)


def collect(row):
    """For `stop`: the garbage collector comes to the first worker alone."""
    gc.collect()
    return False


def fails(row):
    raise LookupError("the first worker has lost its place")


def count(folder, how):
    return len(list(folder.glob(f"* {how} *")))


@pytest.fixture(scope="module")
def ratings():
    return scattered(50, 30, 600, seed=5)


def model():
    return ALS(4, 0.1, device="cpu", solver="parallel")


def test_a_training_ends_its_communicator_on_all_workers_before_the_next_begins(client, ratings, ended):
    train = partial(fit, train=ratings, epochs=EPOCHS, client=client, workers=2, attempts=1, stop=collect)
    for trainings in (1, 2):
        train(model())
        assert count(ended, "destroyed by") == 2 * trainings
    assert not count(ended, "waited in") and not count(ended, "aborted by")


def test_where_one_worker_fails_none_waits_for_it(client, ratings, ended):
    with pytest.raises(LookupError):
        fit(model(), ratings, EPOCHS, client=client, workers=2, attempts=1, stop=fails)
    assert count(ended, "aborted by") == 2 and not count(ended, "destroyed by")


def workers_left():
    return sum(issubclass(type(thing), Worker) for thing in gc.get_objects())


@pytest.mark.parametrize("item_update", ["gather", "reduce"])
def test_what_a_worker_has_on_its_device_is_let_go_with_the_training(client, ratings, ended, item_update):
    fit(model(), ratings, EPOCHS, client=client, workers=2, attempts=1, item_update=item_update)
    assert not any(client.run(workers_left).values())


@pytest.fixture
def on_gpus(monkeypatch):
    """A function that runs program(carrier) on so many threads, and gives what it returned and raised, by rank."""
    fake_nccl.put_in_place(monkeypatch)
    made = []
    monkeypatch.setattr(nccl, "usable", lambda comm, device: True)

    def run(program, n):
        mailbox = fake_nccl.Mailbox()

        def rank_of(rank):
            comm = Communicator(mailbox.of(rank), ("training", 0), rank, list(range(n)), 60.0)
            try:
                with nccl.carrier(comm, "cuda") as carrier:
                    made.append(carrier._communicator)
                    return program(carrier)
            except Exception as error:
                mailbox.abort(Aborted(f"rank {rank} failed"))
                return error

        with ThreadPoolExecutor(n) as pool:
            return list(pool.map(rank_of, range(n)))

    run.made = made
    return run


BOUNDS = {
    2: ([0, 4, 8], [0, 3, 8], [0, 0, 8]),
    3: ([0, 2, 4, 6], [0, 1, 1, 8]),
    4: ([0, 2, 4, 6, 8], [0, 5, 6, 7, 8]),
}
SHARED = [(n, np.array(bounds)) for n, several in BOUNDS.items() for bounds in several]


@pytest.mark.parametrize(("n", "bounds"), SHARED)
@pytest.mark.parametrize("kind", [np.float32, np.uint16])
def test_rows_are_gathered_in_place(on_gpus, n, bounds, kind):
    expected = np.arange(3 * bounds[-1]).reshape(-1, 3).astype(kind)

    def program(carrier):
        own, array = slice(*bounds[carrier.rank : carrier.rank + 2]), np.zeros_like(expected)
        array[own] = expected[own]
        carrier.all_gather(fake_nccl.Array(array), bounds)
        return array

    assert all(np.array_equal(array, expected) for array in on_gpus(program, n))
    assert [made.ended for made in on_gpus.made] == [["destroyed"]] * n


@pytest.mark.parametrize(("n", "bounds"), SHARED)
@pytest.mark.parametrize("begun", [False, True])
def test_sums_come_to_the_rank_that_has_the_rows(on_gpus, n, bounds, begun):
    weights = np.arange(3 * bounds[-1], dtype=np.float32).reshape(-1, 3)

    def program(carrier):
        array = fake_nccl.Array(weights * (carrier.rank + 1))
        own = carrier.start_reduce_scatter(array, bounds)() if begun else carrier.reduce_scatter(array, bounds)
        total = fake_nccl.Array(weights + carrier.rank)
        carrier.all_reduce(total)
        return own.host, total.host

    owns, totals = zip(*on_gpus(program, n), strict=True)
    assert np.array_equal(np.concatenate(owns), weights * n * (n + 1) / 2)
    assert all(np.array_equal(total, weights * n + n * (n - 1) / 2) for total in totals)


@pytest.mark.parametrize("n", [2, 3])
def test_parts_go_to_all_ranks_and_round_the_ring(on_gpus, n):
    """Rank r has, for rank s, r + s times the number 10 r + s, which is nothing for itself on rank 0."""

    def program(carrier):
        lengths = carrier.rank + np.arange(n)
        column = np.repeat(10 * carrier.rank + np.arange(n), lengths).astype(np.int32)
        found = carrier.all_to_all([fake_nccl.Array(column)], np.r_[0, np.cumsum(lengths)])[0].host
        incoming = np.zeros(2, np.float32)
        carrier.shift(fake_nccl.Array(np.full(2, carrier.rank, np.float32)), fake_nccl.Array(incoming))
        return found, incoming

    for rank, (found, incoming) in enumerate(on_gpus(program, n)):
        assert found.tolist() == [10 * sender + rank for sender in range(n) for _ in range(sender + rank)]
        assert incoming.tolist() == [(rank + 1) % n] * 2


def test_gpus_are_connected_for_all_operations_before_the_first_epoch(on_gpus):
    def program(carrier):
        return carrier._communicator.called.copy()

    operations = {"allGather", "broadcast", "reduceScatter", "reduce", "allReduce", "send", "recv"}
    assert on_gpus(program, 3) == [operations] * 3


def test_a_rank_that_fails_ends_the_others_without_waiting_for_them(on_gpus):
    def program(carrier):
        if carrier.rank == 1:
            raise LookupError("the second worker has lost its place")

    first, second = on_gpus(program, 2)
    assert isinstance(first, Aborted) and isinstance(second, LookupError)
    assert [made.ended for made in on_gpus.made] == [["aborted"]] * 2


@pytest.mark.parametrize("call", ["groupEnd", "groupStart"])
def test_a_call_that_nccl_refuses_is_a_lost_worker_after_which_training_goes_on(on_gpus, call):
    def program(carrier):
        def refuse():
            raise carrier._nccl.NcclError("remote process exited")

        setattr(carrier._nccl, call, refuse)
        carrier.all_reduce(fake_nccl.Array(np.zeros(1, np.float32)))

    assert all(isinstance(error, PeerLost) for error in on_gpus(program, 2))


def test_workers_that_nccl_does_not_bring_together_are_lost(on_gpus, monkeypatch):
    def refuse(self, size, identifier, rank):
        raise sys.modules["cupy.cuda.nccl"].NcclError("connection closed by remote peer")

    monkeypatch.setattr(fake_nccl.NcclCommunicator, "__init__", refuse)
    found = {type(error) for error in on_gpus(lambda carrier: None, 2)}
    assert PeerLost in found and found <= {PeerLost, Aborted}
