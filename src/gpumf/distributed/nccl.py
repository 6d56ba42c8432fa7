"""Collective operations between GPUs, by NCCL through CuPy."""

import socket
import time

import numpy as np

from gpumf.distributed.communicator import CommunicationTimeout, Communicator, PeerLost
from gpumf.ratings.csr import row_offsets

_POLL_SECONDS = 50e-6


def gpu():
    """What tells this worker's GPU from all others: the machine's name, and the GPU's place on its bus."""
    import cupy

    device = cupy.cuda.Device()
    return socket.gethostname(), cupy.cuda.runtime.deviceGetPCIBusId(device.id)


def carrier(comm, device):
    """What carries the factors: NCCL where every worker has a GPU of its own, else Dask's connections.

    Parameters
    ----------
    comm : DaskCommunicator, by which the workers agree
    device : of the model
    """
    gpus = comm.all_gather_object(gpu() if device == "cuda" and comm.size > 1 else None)
    if None in gpus or len(set(gpus)) < len(gpus) or not _everywhere(comm):
        return comm
    return NcclCommunicator(comm)


def _everywhere(comm):
    """Whether CuPy finds NCCL on every worker."""
    from cupy.cuda import nccl

    return all(comm.all_gather_object(bool(getattr(nccl, "available", False))))


class NcclCommunicator(Communicator):
    """NCCL on CuPy's current stream, or beside it; sums of errors and all else on the host go by Dask's connections.

    Parameters
    ----------
    control : DaskCommunicator of the same workers, which passes NCCL's identifier on
    """

    def __init__(self, control):
        import cupy
        from cupy.cuda import nccl

        self._cupy, self._nccl, self._control = cupy, nccl, control
        self.rank, self.size, self.timeout = control.rank, control.size, control.timeout
        identifier = control.all_gather_object(nccl.get_unique_id() if self.rank == 0 else None)[0]
        self._communicator = nccl.NcclCommunicator(self.size, identifier, self.rank)
        # What is begun there is sent while the current stream's kernels run, and before those that wait for room.
        self._beside = cupy.cuda.Stream(non_blocking=True, priority=-1)
        self._types = {np.dtype(np.float32): nccl.NCCL_FLOAT32, np.dtype(np.float64): nccl.NCCL_FLOAT64}
        self._types[np.dtype(np.int32)] = nccl.NCCL_INT32
        self._types[np.dtype(np.uint16)] = nccl.NCCL_FLOAT16  # FP16 by its bits, which are sent, never added up

    def all_gather(self, array, bounds):
        if isinstance(array, np.ndarray):
            self._control.all_gather(array, bounds)
            return
        flat, ends = self._flat(array, bounds)
        lengths = np.diff(ends)
        kind, stream = self._types[array.dtype], self._cupy.cuda.get_current_stream().ptr
        with self._completed():
            if (lengths == lengths[0]).all():
                own = flat[ends[self.rank] :]
                self._communicator.allGather(own.data.ptr, flat.data.ptr, int(lengths[0]), kind, stream)
                return
            for rank in range(self.size):  # NCCL gathers equal lengths alone
                if lengths[rank]:
                    rows = flat[ends[rank] :].data.ptr
                    self._communicator.broadcast(rows, rows, int(lengths[rank]), kind, rank, stream)

    def reduce_scatter(self, array, bounds):
        if isinstance(array, np.ndarray):
            return self._control.reduce_scatter(array, bounds)
        with self._completed():
            self._reduce_scatter(array, bounds, self._cupy.cuda.get_current_stream().ptr)
        return array[bounds[self.rank] : bounds[self.rank + 1]]

    def start_reduce_scatter(self, array, bounds):
        if isinstance(array, np.ndarray):
            return super().start_reduce_scatter(array, bounds)
        ready, done = (self._cupy.cuda.Event(disable_timing=True) for _ in range(2))
        ready.record()
        self._beside.wait_event(ready)
        self._nccl.groupStart()
        try:
            self._reduce_scatter(array, bounds, self._beside.ptr)
        finally:
            self._nccl.groupEnd()
        done.record(self._beside)

        def complete():
            self._wait(done)
            return array[bounds[self.rank] : bounds[self.rank + 1]]

        return complete

    def _reduce_scatter(self, array, bounds, stream):
        flat, ends = self._flat(array, bounds)
        lengths, kind, total = np.diff(ends), self._types[array.dtype], self._nccl.NCCL_SUM
        if (lengths == lengths[0]).all():
            own = flat[ends[self.rank] :].data.ptr
            self._communicator.reduceScatter(flat.data.ptr, own, int(lengths[0]), kind, total, stream)
            return
        for rank in range(self.size):
            if lengths[rank]:
                rows = flat[ends[rank] :].data.ptr
                self._communicator.reduce(rows, rows, int(lengths[rank]), kind, total, rank, stream)

    def all_reduce(self, array):
        if isinstance(array, np.ndarray):
            self._control.all_reduce(array)
            return
        kind, stream = self._types[array.dtype], self._cupy.cuda.get_current_stream().ptr
        here = array.data.ptr
        with self._completed():
            self._communicator.allReduce(here, here, array.size, kind, self._nccl.NCCL_SUM, stream)

    def all_to_all(self, arrays, bounds):
        if isinstance(arrays[0], np.ndarray):
            return self._control.all_to_all(arrays, bounds)
        lengths = self._control.all_gather_object(np.diff(bounds))
        ends = row_offsets([int(sent[self.rank]) for sent in lengths])
        come = [self._cupy.empty(int(ends[-1]), array.dtype) for array in arrays]
        stream = self._cupy.cuda.get_current_stream().ptr
        with self._completed():
            for array, incoming in zip(arrays, come, strict=True):
                kind = self._types[array.dtype]
                for rank in range(self.size):
                    goes, comes = array[bounds[rank] : bounds[rank + 1]], incoming[ends[rank] : ends[rank + 1]]
                    if goes.size:
                        self._communicator.send(goes.data.ptr, goes.size, kind, rank, stream)
                    if comes.size:
                        self._communicator.recv(comes.data.ptr, comes.size, kind, rank, stream)
        return come

    def shift(self, outgoing, incoming):
        before, after = (self.rank - 1) % self.size, (self.rank + 1) % self.size
        kind, stream = self._types[outgoing.dtype], self._cupy.cuda.get_current_stream().ptr
        with self._completed():
            if outgoing.size:
                self._communicator.send(outgoing.data.ptr, outgoing.size, kind, before, stream)
            if incoming.size:
                self._communicator.recv(incoming.data.ptr, incoming.size, kind, after, stream)

    def barrier(self):
        self._control.barrier()

    @staticmethod
    def _flat(array, bounds):
        """The array's numbers in a row, and where each worker's begin among them."""
        width = array.size // len(array) if len(array) else 1
        return array.reshape(-1), np.asarray(bounds, np.int64) * width

    def _completed(self):
        return _Completed(self)

    def _wait(self, done):
        """Return when an event has come, after no longer than the time-out, nor after an abort."""
        deadline = time.monotonic() + self.timeout
        while not done.done:
            try:
                self._control.check()
                self._communicator.check_async_error()
                if time.monotonic() > deadline:
                    raise CommunicationTimeout(f"NCCL has not come to its end after {self.timeout:g} s")
            except self._nccl.NcclError as problem:
                self._communicator.abort()
                raise PeerLost(f"NCCL: {problem}") from problem
            except Exception:
                self._communicator.abort()
                raise
            time.sleep(_POLL_SECONDS)


class _Completed:
    """Groups the calls of its body, and waits for them."""

    def __init__(self, owner):
        self._owner = owner

    def __enter__(self):
        self._owner._nccl.groupStart()

    def __exit__(self, kind, error, trace):
        owner = self._owner
        owner._nccl.groupEnd()
        if error is not None:
            return
        done = owner._cupy.cuda.Event()
        done.record()
        owner._wait(done)
