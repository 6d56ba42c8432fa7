"""A cluster on this machine: who can reach it."""

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import psutil
import pytest

from gpumf import ALS, backends
from gpumf.distributed import fit, local_cluster
from support import needs_gpus, scattered


def listening():
    """The addresses at which this process and those that it started listen."""
    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    return [c.laddr for p in processes for c in p.net_connections("inet") if c.status == psutil.CONN_LISTEN]


def test_nothing_listens_beyond_the_loopback_interface(client):
    found = listening()
    assert len(found) > 3, "scheduler and workers do listen"
    assert {address.ip for address in found} <= {"127.0.0.1", "::1"}


def test_no_worker_is_paused_for_its_memory(client):
    limits = client.run(lambda dask_worker: dask_worker.memory_manager.memory_limit)
    assert len(limits) == 3 and set(limits.values()) == {None}


@pytest.mark.slow
def test_with_tls_the_same_is_learned_over_encrypted_connections():
    pytest.importorskip("cryptography")
    from distributed import Client
    from distributed.security import Security

    needs_gpus(2)
    ratings = scattered(20, 10, 200, seed=0)
    one = ALS(3, device="cpu").fit(ratings, 2)
    with local_cluster(2, security=Security.temporary()) as client:
        assert all(address.startswith("tls://127.0.0.1:") for address in client.ncores())
        made = fit(ALS(3, device="cpu"), ratings, 2, client=client, attempts=1)
        with pytest.raises((OSError, RuntimeError, TypeError)):
            Client(client.scheduler.address, timeout=2)
    assert np.allclose(made.user_factors, one.user_factors, atol=1e-5)


def test_cards_without_dask_cuda_are_refused_with_what_to_install(monkeypatch):
    monkeypatch.setattr(backends, "available", lambda: True)
    monkeypatch.setitem(sys.modules, "dask_cuda", None)
    with pytest.raises(ImportError, match="pip install dask-cuda"), local_cluster():
        pass


def test_more_workers_than_cards_are_refused_with_both_numbers(monkeypatch):
    monkeypatch.setattr(backends, "available", lambda: True)
    monkeypatch.setattr(backends, "gpus", lambda: 2)
    monkeypatch.setitem(sys.modules, "dask_cuda", SimpleNamespace(LocalCUDACluster=None))
    with pytest.raises(ValueError, match="3 workers take a GPU each, and this machine has 2"), local_cluster(3):
        pass


GUARDED = """
from gpumf.distributed import local_cluster


def main():
    with local_cluster(1) as client:
        print("workers:", len(client.ncores()))


if __name__ == "__main__":
    main()
"""


def test_a_script_without_a_guard_gets_one_error(tmp_path):
    (tmp_path / "script.py").write_text(GUARDED.replace('if __name__ == "__main__":\n    main()', "main()"))
    done = subprocess.run([sys.executable, tmp_path / "script.py"], capture_output=True, text=True)
    assert done.returncode == 1 and done.stdout == ""
    assert "script.py, line 10: each worker imports this script" in done.stderr.splitlines()[-1]
    assert done.stderr.count("Traceback") == 1


def test_a_script_with_a_guard_starts_its_workers(tmp_path):
    (tmp_path / "script.py").write_text(GUARDED)
    done = subprocess.run([sys.executable, tmp_path / "script.py"], capture_output=True, text=True, check=True)
    assert done.stdout == "workers: 1\n"
