"""A cluster on this machine."""

import ast
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from gpumf import backends

_START_SECONDS = 120
"""For which a client tries to reach the scheduler, or a worker; Dask's 30 are too few on a busy machine."""


@contextmanager
def local_cluster(workers: int | None = None, *, security: Any = None, **options: Any) -> Iterator[Any]:
    """Start workers on this machine for as long as the body lasts, and give a `distributed.Client` of them.

    One thread each, one GPU each where there are GPUs (which needs dask-cuda), with a nanny that starts a worker
    that died again. Scheduler and workers, and their dashboards, listen on the loopback interface alone. Workers have
    the machine's memory together, without a limit of their own.

    Parameters
    ----------
    workers : int; by default one a GPU, or two
    security : `distributed.Security`, to encrypt and authenticate: traffic is then TLS. On a machine that others use
        too, this keeps them out: whoever reaches a scheduler can run code as its user
    **options : of `distributed.LocalCluster`, or `dask_cuda.LocalCUDACluster`

    Raises
    ------
    ImportError : without the extra `distributed`; on a machine with GPUs, without dask-cuda
    ValueError : more workers than GPUs, on a machine that has any
    RuntimeError : a script calls this outside of `if __name__ == "__main__":`, where each worker would call it again
    """
    import dask
    from distributed import Client

    _check_guard(dask.config.get("distributed.worker.multiprocessing-method", "spawn"))

    # A worker that Dask pauses for its memory takes no task, and a training would wait for it in vain.
    fixed = {"threads_per_worker": 1, "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "memory_limit": None}
    options = fixed | options
    options |= {"protocol": "tls://", "security": security} if security else {}
    if backends.available():
        try:
            from dask_cuda import LocalCUDACluster
        except ImportError as error:
            raise ImportError(f"a worker for each GPU needs dask-cuda ({error}): pip install dask-cuda") from error

        if workers and "CUDA_VISIBLE_DEVICES" not in options and workers > backends.gpus():
            raise ValueError(f"{workers} workers take a GPU each, and this machine has {backends.gpus()}")
        cluster = LocalCUDACluster(n_workers=workers, **options)
    else:
        from distributed import LocalCluster

        options["worker_dashboard_address"] = "127.0.0.1:0"
        cluster = LocalCluster(n_workers=workers or 2, processes=True, **options)
    with cluster, Client(cluster, timeout=_START_SECONDS) as client:
        yield client


def _check_guard(method):
    """Raise where processes that import the script again would start a cluster each."""
    if method == "fork":
        return
    frame = sys._getframe()
    while frame and not (frame.f_globals.get("__name__") == "__main__" and frame.f_code.co_name == "<module>"):
        frame = frame.f_back
    if frame is None or not Path(frame.f_code.co_filename).is_file():  # a function of a notebook, or typed in
        return
    with suppress(OSError, SyntaxError, UnicodeDecodeError):
        tree = ast.parse(Path(frame.f_code.co_filename).read_bytes())
        tests = [node for node in ast.walk(tree) if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)]
        if not any(node.lineno <= frame.f_lineno <= node.end_lineno for node in tests):
            raise RuntimeError(
                f"{frame.f_code.co_filename}, line {frame.f_lineno}: each worker imports this script, and would "
                'start a cluster of its own; put what starts one under `if __name__ == "__main__":`'
            )
