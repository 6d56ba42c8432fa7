"""Collective operations between GPUs, by NCCL through CuPy."""

import socket
import threading
import time
from contextlib import contextmanager

import numpy as np

from gpumf.distributed.communicator import CommunicationTimeout, Communicator, PeerLost
from gpumf.ratings.csr import row_offsets

_POLL_SECONDS = 50e-6
_ABORT_SECONDS = 5.0


def gpu():
    """What tells this worker's GPU from all others: the machine's name, and the GPU's place on its bus."""
    import cupy

    device = cupy.cuda.Device()
    return socket.gethostname(), cupy.cuda.runtime.deviceGetPCIBusId(device.id)


@contextmanager
def carrier(comm, device):
    """What carries the factors while the body lasts: NCCL where every worker has a GPU, else Dask's connections.

    NCCL ends a communicator on all workers of a host together: who comes first waits for the others. All end theirs
    here, after the last of them has left the body. The garbage collector would come to each at another time, and one
    that waits in it for the others has these wait for it in the training that follows.

    comm : Communicator, by which the workers agree; device : of the model
    """
    if not usable(comm, device):
        yield comm
        return
    made = NcclCommunicator(comm)
    try:
        made.connect()
        yield made
        made.barrier()
    except BaseException:
        made.abort()
        raise
    made.destroy()


def usable(comm, device):
    """Whether every worker has a GPU of its own, and CuPy finds NCCL there."""
    gpus = comm.all_gather_object(gpu() if device == "cuda" and comm.size > 1 else None)
    if None in gpus or len(set(gpus)) < len(gpus):
        return False
    from cupy.cuda import nccl

    return all(comm.all_gather_object(bool(getattr(nccl, "available", False))))


class NcclCommunicator(Communicator):
    """NCCL on CuPy's current stream, or beside it; sums of errors and all else on the host go by Dask's connections.

    Parameters
    ----------
    comm : Communicator of the same workers, which passes NCCL's identifier on; both may be used
    """

    def __init__(self, comm):
        import cupy
        from cupy.cuda import nccl

        vars(self).update(vars(comm))
        self._cupy, self._nccl = cupy, nccl
        identifier = self.all_gather_object(nccl.get_unique_id() if self.rank == 0 else None)[0]
        with self._lost():
            self._communicator = nccl.NcclCommunicator(self.size, identifier, self.rank)
        # What is begun there is sent while the current stream's kernels run, and before those that wait for room.
        self._beside = cupy.cuda.Stream(non_blocking=True, priority=-1)
        self._token = cupy.zeros(1, np.int32)
        self._types = {np.dtype(np.float32): nccl.NCCL_FLOAT32, np.dtype(np.float64): nccl.NCCL_FLOAT64}
        self._types[np.dtype(np.int32)] = nccl.NCCL_INT32
        self._types[np.dtype(np.uint16)] = nccl.NCCL_FLOAT16  # FP16 by its bits, which are sent, never added up

    def connect(self):
        """Have NCCL connect the GPUs now. Else it does so, operation by operation, in the first epoch."""
        array = self._cupy.zeros(self.size + 1, np.float32)
        for bounds in (np.arange(self.size + 1), np.r_[0, 2 : self.size + 2]):  # of equal lengths, and of others
            self.all_gather(array[: bounds[-1]], bounds)
            self.reduce_scatter(array[: bounds[-1]], bounds)
        self.shift(array[:1], array[1:2])
        self.barrier()

    def barrier(self):
        """Return when every worker has come here, at nearly the same time: Dask's messages arrive milliseconds apart.

        Those come first, as who waits for long is not to have its GPU wait in a kernel.
        """
        super().barrier()
        self.all_reduce(self._token)

    def destroy(self):
        """Let NCCL go; all workers do so at the same time."""
        self._communicator.destroy()

    def abort(self):
        """Let NCCL go, whatever the other workers do.

        NCCL may wait for them there too. They hear of it when this task has failed, so it does not wait for long.
        """
        aborting = threading.Thread(target=self._communicator.abort, daemon=True)
        aborting.start()
        aborting.join(_ABORT_SECONDS)

    def all_gather(self, array, bounds):
        if isinstance(array, np.ndarray):
            super().all_gather(array, bounds)
            return
        flat, ends, lengths = _flat(array, bounds)
        kind = self._types[array.dtype]
        with self._completed() as stream:
            if (lengths == lengths[0]).all():
                own = flat[ends[self.rank] :]
                self._communicator.allGather(own.data.ptr, flat.data.ptr, int(lengths[0]), kind, stream)
                return
            for rank in np.flatnonzero(lengths).tolist():  # NCCL gathers equal lengths alone
                rows = flat[ends[rank] :].data.ptr
                self._communicator.broadcast(rows, rows, int(lengths[rank]), kind, rank, stream)

    def reduce_scatter(self, array, bounds):
        if isinstance(array, np.ndarray):
            return super().reduce_scatter(array, bounds)
        with self._completed() as stream:
            self._reduce_scatter(array, bounds, stream)
        return array[bounds[self.rank] : bounds[self.rank + 1]]

    def start_reduce_scatter(self, array, bounds):
        if isinstance(array, np.ndarray):
            return super().start_reduce_scatter(array, bounds)
        ready, done = (self._cupy.cuda.Event(disable_timing=True) for _ in range(2))
        ready.record()
        self._beside.wait_event(ready)
        with self._group():
            self._reduce_scatter(array, bounds, self._beside.ptr)
        done.record(self._beside)

        def complete():
            self._wait(done)
            return array[bounds[self.rank] : bounds[self.rank + 1]]

        return complete

    def _reduce_scatter(self, array, bounds, stream):
        flat, ends, lengths = _flat(array, bounds)
        kind, total = self._types[array.dtype], self._nccl.NCCL_SUM
        if (lengths == lengths[0]).all():
            own = flat[ends[self.rank] :].data.ptr
            self._communicator.reduceScatter(flat.data.ptr, own, int(lengths[0]), kind, total, stream)
            return
        for rank in np.flatnonzero(lengths).tolist():
            rows = flat[ends[rank] :].data.ptr
            self._communicator.reduce(rows, rows, int(lengths[rank]), kind, total, rank, stream)

    def all_reduce(self, array):
        if isinstance(array, np.ndarray):
            super().all_reduce(array)
            return
        here, kind = array.data.ptr, self._types[array.dtype]
        with self._completed() as stream:
            self._communicator.allReduce(here, here, array.size, kind, self._nccl.NCCL_SUM, stream)

    def all_to_all(self, arrays, bounds):
        if isinstance(arrays[0], np.ndarray):
            return super().all_to_all(arrays, bounds)
        lengths = self.all_gather_object(np.diff(bounds))
        ends = row_offsets([int(sent[self.rank]) for sent in lengths])
        come = [self._cupy.empty(int(ends[-1]), array.dtype) for array in arrays]
        with self._completed() as stream:
            for array, incoming in zip(arrays, come, strict=True):
                for rank in range(self.size):
                    self._send(array[bounds[rank] : bounds[rank + 1]], rank, stream)
                    self._receive(incoming[ends[rank] : ends[rank + 1]], rank, stream)
        return come

    def shift(self, outgoing, incoming):
        with self._completed() as stream:
            self._send(outgoing, (self.rank - 1) % self.size, stream)
            self._receive(incoming, (self.rank + 1) % self.size, stream)

    def _send(self, array, rank, stream):
        if array.size:
            self._communicator.send(array.data.ptr, array.size, self._types[array.dtype], rank, stream)

    def _receive(self, array, rank, stream):
        if array.size:
            self._communicator.recv(array.data.ptr, array.size, self._types[array.dtype], rank, stream)

    @contextmanager
    def _lost(self):
        """Have NCCL's errors be those of a lost worker: with one, its other calls fail too, not only their ends."""
        try:
            yield
        except self._nccl.NcclError as problem:
            raise PeerLost(f"NCCL: {problem}") from problem

    @contextmanager
    def _group(self):
        with self._lost():
            self._nccl.groupStart()
            try:
                yield
            finally:
                self._nccl.groupEnd()

    @contextmanager
    def _completed(self):
        """Group the calls of the body, on the current stream, which it is given, and wait for them."""
        with self._group():
            yield self._cupy.cuda.get_current_stream().ptr
        done = self._cupy.cuda.Event()
        done.record()
        self._wait(done)

    def _wait(self, done):
        """Return when an event has come, after no longer than the time-out, nor after an abort."""
        deadline = time.monotonic() + self.timeout
        with self._lost():
            while not done.done:
                self.check()
                self._communicator.check_async_error()
                if time.monotonic() > deadline:
                    raise CommunicationTimeout(f"NCCL has not come to its end after {self.timeout:g} s")
                time.sleep(_POLL_SECONDS)


def _flat(array, bounds):
    """The array's numbers in a row, where each worker's begin among them, and how many these are."""
    width = array.size // len(array) if len(array) else 1
    ends = np.asarray(bounds, np.int64) * width
    return array.reshape(-1), ends, np.diff(ends)
