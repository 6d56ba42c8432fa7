"""The order of copies and kernels of a streamed array, on streams that run as late or as early as they may."""

from itertools import pairwise

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
