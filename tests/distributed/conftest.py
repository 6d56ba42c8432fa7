"""A cluster of three worker processes on this machine, started once."""

import pytest

from support import needs_gpus

try:
    import distributed.protocol  # noqa: F401 - this folder is on the path of tests under the same name, without modules
except ImportError:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def client():
    """A client of three workers, of which tests take as many as they want."""
    from gpumf.distributed import local_cluster

    needs_gpus(3)
    with local_cluster(3) as client:
        yield client


@pytest.fixture(scope="session")
def addresses(client):
    """The workers' addresses, which stay as they are: no test that shares this cluster kills any."""
    return sorted(client.ncores())
