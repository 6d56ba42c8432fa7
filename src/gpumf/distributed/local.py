"""A cluster on this machine."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gpumf import gpu


@contextmanager
def local_cluster(workers: int | None = None, *, security: Any = None, **options: Any) -> Iterator[Any]:
    """Start workers on this machine for as long as the body lasts, and give a `distributed.Client` of them.

    One thread each, one card each where there are cards (which needs dask-cuda), with a nanny that starts a worker
    that died again. Scheduler and workers, and their dashboards, listen on the loopback interface alone. Workers have
    the machine's memory together, without a limit of their own.

    Parameters
    ----------
    workers : int; by default one a card, or two
    security : `distributed.Security`, to encrypt and authenticate: traffic is then TLS. On a machine that others use
        too, this keeps them out: whoever reaches a scheduler can run code as its user
    **options : of `distributed.LocalCluster`, or `dask_cuda.LocalCUDACluster`

    Raises
    ------
    ImportError : without the extra `distributed`; on a machine with cards, without dask-cuda
    """
    from distributed import Client

    # A worker that Dask pauses for its memory takes no task, and a training would wait for it in vain.
    fixed = {"threads_per_worker": 1, "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "memory_limit": None}
    options = fixed | options
    options |= {"protocol": "tls://", "security": security} if security else {}
    if gpu.available():
        try:
            from dask_cuda import LocalCUDACluster
        except ImportError as error:
            raise ImportError(f"a worker a card needs dask-cuda ({error}): pip install dask-cuda") from error

        cluster = LocalCUDACluster(n_workers=workers, **options)
    else:
        from distributed import LocalCluster

        options["worker_dashboard_address"] = "127.0.0.1:0"
        cluster = LocalCluster(n_workers=workers or 2, processes=True, **options)
    with cluster, Client(cluster) as client:
        yield client
