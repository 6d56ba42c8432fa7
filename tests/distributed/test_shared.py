"""Ratings of the driver's memory that workers of the same machine map into theirs."""

import os

import numpy as np
import pytest

from gpumf import ALS
from gpumf.distributed import PeerLost, fit, shared, sources
from gpumf.ratings import Ratings
from support import scattered

COLUMNS = np.arange(7, dtype=np.int32), np.arange(7, dtype=np.int32) % 3, np.linspace(1, 5, 7, dtype=np.float32)


@pytest.fixture
def kept():
    """Columns that are written, and removed at the end."""
    columns = shared.SharedColumns(COLUMNS)
    yield columns
    columns.close()


def test_a_part_is_what_was_written_and_a_change_of_it_is_the_readers_own(kept):
    part = kept.part(2, 5)
    for found, given in zip(shared.mapped(*part), COLUMNS, strict=True):
        assert np.array_equal(found, given[2:5]) and found.dtype == given.dtype and type(found) is np.ndarray
        found[:] = 0
    assert np.array_equal(shared.mapped(*part)[2], COLUMNS[2][2:5])
    assert [len(column) for column in shared.mapped(*kept.part(7, 7))] == [0, 0, 0]


def test_what_is_mapped_stays_when_the_writer_lets_it_go(kept):
    part = kept.part(0, 7)
    found = shared.mapped(*part)
    kept.close()
    assert np.array_equal(found[2], COLUMNS[2])
    with pytest.raises(OSError, match="No such file"):
        shared.mapped(*part)


def test_only_the_file_of_its_name_is_read(kept, tmp_path):
    path = kept.part(0, 7)[0][0]
    assert shared._reads(path, kept._name)
    assert not shared._reads(path, "gpumf-of-another-machine")
    assert not shared._reads(f"/proc/{os.getpid()}/fd/99999", kept._name)
    assert not shared._reads(str(tmp_path / "none"), kept._name)


def test_without_such_files_nobody_sees_them(monkeypatch):
    monkeypatch.delattr(os, "memfd_create")
    assert shared.SharedColumns(COLUMNS).seen(None, ["tcp://1"]) == set()


@pytest.mark.parametrize("blind", [[0], [0, 1]])
def test_workers_that_cannot_read_the_files_are_sent_their_part(client, addresses, monkeypatch, blind):
    """The same is learned."""
    ratings = scattered(30, 20, 300, seed=5)
    seeing, kinds = shared.SharedColumns.seen, []

    def seen(self, client, addresses):
        found = seeing(self, client, addresses)
        assert found == set(addresses), "all are processes of this machine"
        return found - {addresses[k] for k in blind}

    def parts(self, client, addresses):
        found = [*taken(self, client, addresses)]
        kinds.extend("mapped" if callable(part[0]) else "sent" for part in found)
        return found

    taken = sources.Source.parts
    monkeypatch.setattr(shared.SharedColumns, "seen", seen)
    monkeypatch.setattr(sources.Source, "parts", parts)
    made = fit(ALS(3, device="cpu"), ratings, 2, client=client, workers=2, attempts=1)
    assert kinds == ["sent" if k in blind else "mapped" for k in range(2)]
    assert np.allclose(made.user_factors, ALS(3, device="cpu").fit(ratings, 2).user_factors, atol=1e-5)


def test_nothing_is_kept_after_a_training_that_fails(client, monkeypatch):
    """The columns are there while workers train, and not after."""
    found = []

    def fails(cluster, job, given, *others):
        part = given[0].parts(client, sorted(client.ncores()))[0]
        found.extend([*sources.load(part, 0), part[0].args[0][0]])
        raise KeyboardInterrupt

    monkeypatch.setattr("gpumf.distributed.driver._trained", fails)
    with pytest.raises(KeyboardInterrupt):
        fit(ALS(3, device="cpu"), Ratings(*COLUMNS, 7, 3), 2, client=client)
    assert found[0].nnz == 2 and not any(map(os.path.exists, found[1]))


def test_a_worker_that_does_not_answer_is_lost_at_once(kept):
    """Dask would try for the client's whole timeout to send its part to one that died."""

    class Client:
        def run(self, function, *arguments, workers, on_error):
            return {workers[0]: True}

    with pytest.raises(PeerLost, match="tcp://2 was lost"):
        kept.seen(Client(), ["tcp://1", "tcp://2"])
