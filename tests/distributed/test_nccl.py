"""NCCL's communicators end on all workers together, not when the garbage collector comes to each.

In NCCL's place stands what ends as it does: who comes first waits for the others.
"""

import gc
import time
from functools import partial
from pathlib import Path

import pytest

from gpumf import ALS
from gpumf.distributed import fit, nccl
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
