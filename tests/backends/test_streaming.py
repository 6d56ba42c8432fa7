"""The order of copies and kernels of a streamed array, on streams that run as late or as early as they may."""

import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from mmap import PAGESIZE

import numpy as np
import pytest

from gpumf import backends
from gpumf.backends import streaming

BOUNDS = [0, 3, 4, 8, 10, 13]
KERNELS, COPIES = range(2)
ARRAYS = [np.arange(1, 14, dtype=np.float32), np.arange(26).reshape(13, 2) + 100]


class Machine:
    """Counts what is asked of it and interrupts at a call, before or after it has done what it should.

    eager : the streams whose work is done at once, whatever it waits for; the others do theirs when waited for
    """

    def __init__(self, at=None, before=True, eager=()):
        self.calls, self.at, self.before, self.eager = 0, at, before, eager
        self.streams = []

    def do(self, what):
        self.calls += 1
        here = self.calls == self.at
        if here and self.before:
            raise KeyboardInterrupt
        what()
        for place in self.eager:
            self.streams[place].run(len(self.streams[place].work))
        if here:
            raise KeyboardInterrupt


class Stream:
    def __init__(self, machine):
        self.machine, self.work, self.done = machine, [], 0
        machine.streams.append(self)

    def run(self, until):
        while self.done < min(until, len(self.work)):
            self.work[self.done]()
            self.done += 1

    def wait_event(self, event):
        stream, at = event.stream, event.at
        self.machine.do(lambda: self.work.append(lambda: stream and stream.run(at)))

    def synchronize(self):
        self.run(len(self.work))


class Event:
    def __init__(self, machine):
        self.machine, self.stream, self.at = machine, None, 0

    def record(self, stream):
        def note():
            self.stream, self.at = stream, len(stream.work)

        self.machine.do(note)

    def synchronize(self):
        self.machine.do(lambda: self.stream and self.stream.run(self.at))


class Room:
    """An array on the device."""

    def __init__(self, machine, values):
        self.machine, self.values = machine, values

    def __getitem__(self, part):
        return Room(self.machine, self.values[part])

    def set(self, pinned, stream):
        self.machine.do(lambda: stream.work.append(lambda: self.values.__setitem__(slice(None), pinned)))

    def get(self, stream, out, blocking):
        assert not blocking
        self.machine.do(lambda: stream.work.append(lambda: out.__setitem__(slice(None), self.values)))

    def __len__(self):
        return len(self.values)

    @property
    def dtype(self):
        return self.values.dtype

    @property
    def itemsize(self):
        return self.values.itemsize

    @property
    def nbytes(self):
        return self.values.nbytes


class Slot:
    def __init__(self, machine):
        self.pinned = [np.full_like(a[:4], -7) for a in ARRAYS]
        self.arrays = [Room(machine, np.full_like(a[:4], -7)) for a in ARRAYS]
        self.copied, self.used = Event(machine), Event(machine)


def streamed(machine):
    """The parts as the kernels saw them, what they saw of the slots before, and the streams, by running all of it."""
    kernels, copies = Stream(machine), Stream(machine)
    slots, seen, before = [Slot(machine) for _ in range(2)], [], []
    for slot in slots:  # a kernel that still uses the memory that the slots now have
        kernels.work.append(lambda slot=slot: before.extend(array.values.copy() for array in slot.arrays))
    pieces = [[array[begin:end] for array in ARRAYS] for begin, end in pairwise(BOUNDS)]
    parts = streaming.parts(pieces, slots, kernels, copies)
    try:
        for part in parts:
            machine.do(lambda part=part: kernels.work.append(lambda: seen.append([a.values.copy() for a in part])))
    except KeyboardInterrupt:
        parts.close()
        assert copies.done == len(copies.work), "a copy is under way"
        raise
    assert copies.done == len(copies.work)
    kernels.synchronize()
    return seen, before


@pytest.mark.parametrize("eager", [(), (KERNELS,), (COPIES,), (KERNELS, COPIES), (COPIES, KERNELS)])
def test_kernels_see_each_part_and_no_other(eager):
    seen, before = streamed(Machine(eager=eager))
    assert len(seen) == len(BOUNDS) - 1 and len(before) == 4 and all((values == -7).all() for values in before)
    for k, arrays in enumerate(seen):
        for array, whole in zip(arrays, ARRAYS, strict=True):
            assert np.array_equal(array, whole[BOUNDS[k] : BOUNDS[k + 1]])


@pytest.mark.parametrize("before", [True, False])
def test_an_interrupt_leaves_no_copy_under_way(before):
    whole = Machine()
    streamed(whole)
    assert whole.calls >= 8 * len(BOUNDS) - 6  # a part has its copies, its events and its kernel
    for at in range(1, whole.calls + 1):
        with pytest.raises(KeyboardInterrupt):
            streamed(Machine(at, before))


def test_a_part_is_valid_until_the_next_is_asked_for(host):
    parts = host.stream(ARRAYS, BOUNDS)
    (first, _) = next(parts)
    assert first.tolist() == [1, 2, 3]
    next(parts)
    assert np.isnan(first).all()


@pytest.mark.parametrize("values", [*ARRAYS, np.arange(26.0).reshape(2, 13).T])
def test_what_is_launched_between_steps_sees_the_rows_so_far(launcher, values):
    for last in (None, 4):  # to the end, or given up
        there, steps = launcher.array_in_parts(values, BOUNDS)
        found = []
        for end in steps:
            found.append((end, launcher.to_numpy(there[:end] + 1)))
            if end == last:
                break
        steps.close()
        assert [end for end, _ in found] == BOUNDS[1 : len(found) + 1]
        assert all(np.array_equal(rows, values[:end] + 1) for end, rows in found)
        if last is None:
            assert there.dtype == values.dtype and np.array_equal(launcher.to_numpy(there), values)


class PinnedRoom:
    def __init__(self, machine):
        self.pinned, self.copied = np.full(streaming.PIECE, 249, np.uint8), Event(machine)


@pytest.fixture
def one_thread(monkeypatch):
    """A machine is of one thread; pieces are short."""
    with ThreadPoolExecutor(1) as pool:
        monkeypatch.setattr(streaming, "_copiers", lambda process: pool)
        monkeypatch.setattr(streaming, "PIECE", 16)
        yield pool


FLAT = [np.arange(1, 26, dtype=np.float32), np.arange(100, 107), np.arange(3, dtype=np.uint8), np.empty(0, np.int32)]


def copied_there(machine, first=None):
    """Send arrays and give them back; what the kernels saw of those that they waited for, if they did."""
    kernels, copies = Stream(machine), Stream(machine)
    there = [Room(machine, np.full_like(array, 77)) for array in FLAT]
    rooms, seen, copied = [PinnedRoom(machine) for _ in range(2)], [], Event(machine)
    try:
        with streaming.sent(list(zip(FLAT, there, strict=True)), rooms, copies) as wait:
            if first is not None:
                wait(first)
                copied.record(copies)
                kernels.wait_event(copied)
                kernels.work.append(lambda: seen.extend(array.values.copy() for array in there[:first]))
                kernels.synchronize()
    finally:
        assert copies.done == len(copies.work), "a copy is under way"
    here = [np.full(len(array), 7, np.result_type(array, np.float64)) for array in FLAT]
    streaming.receive(list(zip(here, there, strict=True)), rooms, copies)
    return [array.values for array in there], here, seen


@pytest.mark.parametrize("eager", [(), (KERNELS,), (COPIES,), (KERNELS, COPIES)])
@pytest.mark.parametrize("first", [None, 1, 2, 4])
def test_arrays_that_are_sent_arrive_whole_and_come_back(one_thread, eager, first):
    there, here, seen = copied_there(Machine(eager=eager), first)
    for arrived, back, array in zip(there, here, FLAT, strict=True):
        assert np.array_equal(arrived, array) and np.array_equal(back, array)
    assert len(seen) == (first or 0) and all(map(np.array_equal, seen, FLAT))


@pytest.mark.parametrize("before", [True, False])
def test_what_goes_wrong_leaves_no_copy_under_way_and_a_pool_that_works(one_thread, before):
    whole = Machine()
    copied_there(whole, 2)
    assert whole.calls > 60
    for at in range(1, whole.calls + 1):
        with pytest.raises(KeyboardInterrupt):
            copied_there(Machine(at, before), 2)
        assert one_thread.submit(int).result(60) == 0


def test_what_was_not_begun_when_the_body_fails_stays_there(one_thread):
    machine, begun, go_on = Machine(), threading.Event(), threading.Event()
    rooms = [PinnedRoom(machine) for _ in range(2)]
    there = Room(machine, np.zeros(4096, np.uint8))
    real = there.machine.do

    def once(what):
        begun.set()
        go_on.wait(60)
        real(what)

    machine.do = once
    with (
        pytest.raises(ZeroDivisionError),
        streaming.sent([(np.ones(4096, np.uint8), there)], rooms, Stream(machine)),
    ):
        begun.wait(60)
        threading.Timer(0.05, go_on.set).start()
        _ = 1 / 0
    assert there.values[:16].all() and not there.values.all()


def test_many_threads_copy_what_one_does(monkeypatch):
    monkeypatch.setattr(streaming, "PIECE", 64)
    machine, lock = Machine(), threading.Lock()
    real = machine.do

    def one_by_one(what):
        with lock:
            real(what)

    machine.do = one_by_one
    with ThreadPoolExecutor(5) as pool:
        monkeypatch.setattr(streaming, "_copiers", lambda process: pool)
        copies = Stream(machine)
        machine.eager = (0,)
        source = np.random.default_rng(0).integers(0, 256, 100_001).astype(np.uint8)
        there, back = Room(machine, np.zeros_like(source)), np.zeros_like(source)
        rooms = [PinnedRoom(machine) for _ in range(3)]  # fewer than threads
        with streaming.sent([(source, there)], rooms, copies):
            pass
        streaming.receive([(back, there)], rooms, copies)
    assert np.array_equal(there.values, source) and np.array_equal(back, source)


def test_new_memory_is_touched_by_others_and_waited_for(one_thread):
    go_on, arrays = threading.Event(), [np.ones((40_000, 3), np.float32), np.ones(5, np.uint8)]
    one_thread.submit(go_on.wait, 60)
    wait = streaming.touched(arrays)
    assert all(array.all() for array in arrays)
    waiting = threading.Thread(target=wait)
    waiting.start()
    waiting.join(0.05)
    assert waiting.is_alive()
    go_on.set()
    waiting.join(60)
    for array in arrays:
        bytes_of = array.reshape(-1).view(np.uint8)
        assert not bytes_of[::PAGESIZE].any() and np.count_nonzero(array) >= array.size - -(-array.nbytes // PAGESIZE)


@pytest.mark.gpu
def test_an_interrupted_stream_on_the_gpu_leaves_the_next_one_right(cuda):
    values, size = np.arange(1 << 22, dtype=np.float32), 1 << 20
    bounds = list(range(0, len(values) + 1, size))
    for stop in range(4):
        parts = cuda.stream([values], bounds)
        for k, _ in enumerate(parts):
            if k == stop:
                break
        parts.close()
        total = sum(float(part[:8].sum()) for (part,) in cuda.stream([values], bounds))
        assert total == sum(float(values[b : b + 8].sum()) for b in bounds[:-1])
    with pytest.raises(backends.DeviceError, match=r"takes .* GiB, and .* GiB of the device's memory are free"):
        cuda.empty(1 << 44, np.float32)


@pytest.mark.parametrize(("cores", "threads"), [(3, 3), (64, 12), (None, 1)])
def test_only_long_copies_take_threads_and_no_more_than_there_are_cores(monkeypatch, cores, threads):
    monkeypatch.setattr(streaming.threads, "count", lambda: cores or 1)
    made, plain = [], streaming._copiers.__wrapped__

    def copiers(process):
        made.append(plain(process))
        return made[-1]

    monkeypatch.setattr(streaming, "_copiers", copiers)
    for n, pools in ((streaming._ALONE - 1, 0), (streaming._ALONE, 1)):
        streaming.copy(np.empty(n, np.uint8), np.zeros(n, np.uint8))
        assert len(made) == pools
    assert made[0]._max_workers == threads


@pytest.mark.parametrize("shape", [(3,), (0, 2), (1_500_001,), (700_001, 3)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_copy_by_several_threads_is_whole(shape, dtype):
    source = np.random.default_rng(0).random(shape).astype(np.float32)
    target = np.full(shape, np.nan, dtype)
    streaming.copy(target, source)
    assert np.array_equal(target, source)
