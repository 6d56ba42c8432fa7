"""ALS and SGD on several GPUs and hosts.

Dask (`distributed`) starts, places, watches and restarts the workers; factors go between GPUs by NCCL, and without
GPUs by Dask's own connections between workers, with the same code. Needs the extra `distributed`.

    from gpumf import ALS
    from gpumf.distributed import fit, local_cluster

    with local_cluster(2) as client:
        model = fit(ALS(factors=16), train, client=client, epochs=10, validation=test)

`local_cluster` listens on the loopback interface alone. On several hosts the cluster is one of Dask's, such as
`dask.distributed.SSHCluster`, whose traffic a `distributed.Security` encrypts and authenticates.
"""

try:
    import distributed.protocol  # noqa: F401 - a folder of this name would import without its modules
except ImportError as error:
    raise ImportError(f"training on several workers needs Dask ({error}): pip install gpumf[distributed]") from error

from gpumf.distributed.communicator import Aborted, CommunicationError, CommunicationTimeout, PeerLost
from gpumf.distributed.driver import TrainingLost, fit
from gpumf.distributed.local import local_cluster

__all__ = [
    "Aborted",
    "CommunicationError",
    "CommunicationTimeout",
    "PeerLost",
    "TrainingLost",
    "fit",
    "local_cluster",
]
