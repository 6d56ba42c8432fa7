"""Workers are killed, and training comes to the same end."""

import os
import signal
import threading
import time
from contextlib import contextmanager
from functools import partial
from itertools import pairwise

import numpy as np
import pytest

from gpumf import ALS
from gpumf.distributed import TrainingLost, fit, local_cluster
from gpumf.distributed.checkpoints import read
from support import needs_gpus, scattered

pytestmark = pytest.mark.slow

EPOCHS = 10


@pytest.fixture(scope="module")
def cluster():
    """Two workers of its own, which die."""
    needs_gpus(2)
    with local_cluster(2) as client:
        yield client


@pytest.fixture(scope="module")
def ratings():
    return scattered(50, 30, 600, seed=5)


@pytest.fixture(scope="module")
def undisturbed(ratings):
    return model().fit(ratings, EPOCHS, ratings)


def model(device="cpu"):
    return ALS(4, 0.1, device=device, solver="parallel" if device == "cpu" else "cumf_cholesky")


@contextmanager
def killing(client, folder, epochs, rng):
    """A function for `stop`, at which training waits once in each of these epochs until a worker is killed.

    Gives the function, and the list of those killed. The function writes each epoch to the file `epochs`.
    """
    killed, over = [], threading.Event()

    def stop(row):
        at, done = folder / f"{row['epoch']}", folder / f"{row['epoch']} killed"
        with (folder / "epochs").open("a") as log:
            log.write(f"{row['epoch']}\n")
        if row["epoch"] in epochs and not at.exists():
            at.touch()
            while not done.exists():
                time.sleep(0.01)
        return False

    def run():
        for epoch in epochs:
            while not (folder / f"{epoch}").exists():
                if over.wait(0.01):
                    return
            pids = client.run(os.getpid)
            victim = pids[sorted(pids)[int(rng.integers(len(pids)))]]
            os.kill(victim, signal.SIGKILL)
            killed.append(victim)
            (folder / f"{epoch} killed").touch()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield stop, killed
    finally:
        over.set()
        thread.join()


def went_back(folder):
    """How many epochs training went back each time that it was begun again, by the file of `killing`."""
    epochs = list(map(int, (folder / "epochs").read_text().split()))
    return [before - after for before, after in pairwise(epochs) if after <= before]


def same(made, undisturbed, factors=1e-5, rmse=1e-6):
    assert np.allclose(made.user_factors, undisturbed.user_factors, atol=factors)
    assert np.allclose(made.item_factors, undisturbed.item_factors, atol=factors)
    assert np.allclose(made.history.rmse, undisturbed.history.rmse, atol=rmse)
    assert made.history.epoch.tolist() == list(range(EPOCHS + 1))


def test_after_kills_training_goes_on_from_the_checkpoint_to_the_same_end(cluster, ratings, undisturbed, tmp_path):
    path = tmp_path / "checkpoint.npz"
    with killing(cluster, tmp_path, [5, 7], np.random.default_rng(1)) as (stop, killed):
        made = fit(model(), ratings, EPOCHS, ratings, client=cluster, stop=stop, checkpoint=path, every=3, attempts=6)
    assert len(killed) == 2 and not path.exists()
    same(made, undisturbed)
    assert sorted(filter(None, went_back(tmp_path))) == [1, 2], "from 5 to the checkpoint of 3, from 7 to that of 6"


@pytest.mark.gpu
def test_a_worker_killed_on_a_gpu_costs_the_epochs_since_the_checkpoint(cluster, ratings, cuda, tmp_path):
    cluster.wait_for_workers(2, timeout=300)
    train = partial(fit, train=ratings, epochs=EPOCHS, validation=ratings, client=cluster, workers=2, attempts=6)
    undisturbed = train(model("cuda"))
    with killing(cluster, tmp_path, [5], np.random.default_rng(3)) as (stop, killed):
        made = train(model("cuda"), stop=stop, checkpoint=tmp_path / "checkpoint.npz", every=3)
    assert len(killed) == 1
    same(made, undisturbed, factors=1e-4, rmse=1e-5)
    assert list(filter(None, went_back(tmp_path))) == [2]


def test_without_a_checkpoint_it_starts_again(cluster, ratings, undisturbed, tmp_path):
    with killing(cluster, tmp_path, [2], np.random.default_rng(2)) as (stop, killed):
        made = fit(model(), ratings, EPOCHS, ratings, client=cluster, stop=stop)
    assert len(killed) == 1
    same(made, undisturbed)


def test_too_many_faults_are_an_error_and_the_checkpoint_goes_on_later(cluster, ratings, undisturbed, tmp_path):
    path, learned = tmp_path / "checkpoint.npz", model()
    cluster.wait_for_workers(2, timeout=300)

    def dies(row):
        if row["epoch"] == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        return False

    with pytest.raises(TrainingLost, match="was lost"):
        fit(learned, ratings, EPOCHS, ratings, client=cluster, stop=dies, checkpoint=path, every=2, attempts=1)
    assert learned.history is None and path.exists()
    cluster.wait_for_workers(2, timeout=300)
    with pytest.raises(ValueError, match="of another training, of other parameters"):
        fit(ALS(3, 0.1, device="cpu", solver="parallel"), ratings, EPOCHS, client=cluster, checkpoint=path)
    made = fit(learned, ratings, EPOCHS, ratings, client=cluster, checkpoint=path, attempts=1)
    same(made, undisturbed)
    assert not path.exists()


def test_a_damaged_checkpoint_is_said_to_be_one(tmp_path, ratings):
    path = tmp_path / "checkpoint.npz"
    assert read(path, model(), {}, EPOCHS) is None
    path.write_bytes(b"PK and nothing more")
    with pytest.raises(ValueError, match="is not a saved model"):
        read(path, model(), {}, EPOCHS)
