"""CuPy and its NCCL as far as `gpumf.distributed.nccl` uses them, for threads in the place of GPUs.

Arrays lie on the host. An operation that not all ranks call alike, at which NCCL would wait for ever, is an error.
"""

import ctypes
import sys
import threading
from types import SimpleNamespace

import numpy as np

_SECONDS = 60
_TYPES = {"NCCL_FLOAT32": np.float32, "NCCL_FLOAT64": np.float64, "NCCL_INT32": np.int32, "NCCL_FLOAT16": np.uint16}


class Array:
    """An array on a device: not one of NumPy's."""

    def __init__(self, host):
        self.host, self.dtype, self.shape, self.size = host, host.dtype, host.shape, host.size
        self.data = SimpleNamespace(ptr=host.ctypes.data)

    def __len__(self):
        return len(self.host)

    def __getitem__(self, part):
        return Array(self.host[part])

    def reshape(self, *shape):
        return Array(self.host.reshape(*shape))


class Event:
    done = True

    def __init__(self, disable_timing=False):
        pass

    def record(self, stream=None):
        pass


class Stream:
    ptr = 0

    def __init__(self, non_blocking=False, priority=0):
        pass

    def wait_event(self, event):
        pass


def _at(pointer, count, kind):
    """A view of the memory at a pointer."""
    kind = np.dtype(kind)
    return np.frombuffer((ctypes.c_char * (count * kind.itemsize)).from_address(pointer), kind)


class Room:
    """Where the ranks of a communicator meet."""

    def __init__(self, size):
        self.barrier, self.given = threading.Barrier(size, timeout=_SECONDS), {}

    def meet(self, rank, given):
        """What each rank gives, by rank."""
        self.given[rank] = given
        self.barrier.wait()
        found = dict(self.given)
        self.barrier.wait()
        return found


class NcclCommunicator:
    """Operations wait for the end of their group, and are then carried out one after another."""

    rooms, queue = {}, threading.local()

    def __init__(self, size, identifier, rank):
        self._rank, self._room = rank, self.rooms.setdefault(identifier, Room(size))
        self.ended, self.called = [], set()

    def destroy(self):
        self.ended.append("destroyed")

    def abort(self):
        self.ended.append("aborted")

    def check_async_error(self):
        pass

    def _later(self, work, *arguments):
        self.called.add(work if isinstance(work, str) else arguments[0])
        self.queue.calls.append((self, work, arguments))

    def _collective(self, name, send, receive, count, kind, root, combine):
        asked = name, count, kind, root
        met = self._room.meet(self._rank, (asked, _at(send, count, kind).copy()))
        if {of for of, _ in met.values()} != {asked}:
            raise AssertionError(f"not all ranks call this: {[of for of, _ in met.values()]}")
        made = combine([met[rank][1] for rank in sorted(met)])
        if made is not None:
            _at(receive, len(made), kind)[:] = made

    def allGather(self, send, receive, count, kind, stream):
        self._later(self._collective, "allGather", send, receive, count, kind, None, np.concatenate)

    def broadcast(self, send, receive, count, kind, root, stream):
        self._later(self._collective, "broadcast", send, receive, count, kind, root, lambda every: every[root])

    def allReduce(self, send, receive, count, kind, operation, stream):
        self._later(self._collective, "allReduce", send, receive, count, kind, None, sum)

    def reduce(self, send, receive, count, kind, operation, root, stream):
        def to_root(every):
            return sum(every) if self._rank == root else None

        self._later(self._collective, "reduce", send, receive, count, kind, root, to_root)

    def reduceScatter(self, send, receive, count, kind, operation, stream):
        size = self._room.barrier.parties

        def own(every):
            return sum(every)[self._rank * count : (self._rank + 1) * count]

        self._later(self._collective, "reduceScatter", send, receive, count * size, kind, None, own)

    def send(self, pointer, count, kind, peer, stream):
        self._later("send", peer, _at(pointer, count, kind))

    def recv(self, pointer, count, kind, peer, stream):
        self._later("recv", peer, _at(pointer, count, kind))

    def exchange(self, calls):
        """Carry sends and receptions out, which come in one group, at the same time."""
        sent = [(peer, array.copy()) for work, (peer, array) in calls if work == "send"]
        met = self._room.meet(self._rank, sent)
        come = {rank: [array for peer, array in met[rank] if peer == self._rank] for rank in met}
        for work, (peer, array) in calls:
            if work == "recv":
                array[:] = come[peer].pop(0)
        if any(come.values()):
            raise AssertionError(f"nobody receives what was sent: {come}")


def group_start():
    NcclCommunicator.queue.calls = []


def group_end():
    calls = NcclCommunicator.queue.calls
    pairs = [(work, arguments) for _, work, arguments in calls if isinstance(work, str)]
    if pairs:
        calls[0][0].exchange(pairs)
        return
    for _, work, arguments in calls:
        work(*arguments)


def put_in_place(monkeypatch):
    """Have `import cupy` give this, until the test ends."""
    nccl = SimpleNamespace(NcclCommunicator=NcclCommunicator, NcclError=type("NcclError", (RuntimeError,), {}),
                           NCCL_SUM=0, groupStart=group_start, groupEnd=group_end, available=True,
                           get_unique_id=object, **_TYPES)  # fmt: skip
    cuda = SimpleNamespace(nccl=nccl, Stream=Stream, Event=Event, get_current_stream=Stream)
    cupy = SimpleNamespace(cuda=cuda, zeros=lambda *of: Array(np.zeros(*of)), empty=lambda *of: Array(np.empty(*of)))
    for name, module in {"cupy": cupy, "cupy.cuda": cuda, "cupy.cuda.nccl": nccl}.items():
        monkeypatch.setitem(sys.modules, name, module)


class Mailbox:
    """In the place of the mailboxes of all workers of a training: threads find each other's messages in one dict."""

    def __init__(self):
        self._changed, self._messages, self._aborted = threading.Condition(), {}, None

    def send(self, address, message, payload):
        with self._changed:
            self._messages[address, *message] = payload
            self._changed.notify_all()

    def of(self, rank):
        """What the communicator of a rank takes for its own."""
        return SimpleNamespace(send=self.send, collect=lambda *given: self._collect(rank, *given), check=self._check)

    def _collect(self, rank, message, senders, sent, timeout):
        wanted = [(rank, *message, sender) for sender in senders]
        with self._changed:
            self._changed.wait_for(lambda: self._aborted or all(key in self._messages for key in wanted), _SECONDS)
            self._check()
            return {key[-1]: self._messages.pop(key) for key in wanted}

    def _check(self, *attempt):
        if self._aborted:
            raise self._aborted

    def abort(self, error):
        with self._changed:
            self._aborted = error
            self._changed.notify_all()
