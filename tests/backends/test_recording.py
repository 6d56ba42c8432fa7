"""Launches that are recorded once and replayed."""

from functools import partial

import numpy as np
import pytest

from gpumf import backends
from support import NAMES


def test_recorded_launches_run_whenever_they_are_replayed(launcher):
    votes, shuffles = launcher.kernel(NAMES, "votes"), launcher.kernel(NAMES, "shuffles")
    predicates, values = launcher.array(np.ones(64, np.int32)), launcher.array(np.arange(64, dtype=np.float32))
    ballots, first, second = (
        launcher.zeros(shape, kind) for shape, kind in (((4, 64), "u4"), *[((4, 64), "f4")] * 2)
    )

    def work():
        votes(1, 64, predicates, ballots)
        shuffles(1, 64, values, np.int32(1), np.int32(32), first)
        shuffles(1, 64, first, np.int32(1), np.int32(32), second)  # of what the launch before it wrote

    replay = launcher.recorded(work)
    assert len(replay) == 3
    assert not any(launcher.to_numpy(array).any() for array in (ballots, first, second))
    replay()
    expected = [launcher.to_numpy(array) for array in (ballots, first, second)]
    assert all(array.any() for array in expected)
    for array in (ballots, first, second):
        array[...] = 0
    work()
    for array, wanted in zip((ballots, first, second), expected, strict=True):
        assert np.array_equal(launcher.to_numpy(array), wanted)
    values[...] = 7  # an array that is passed is read at each replay
    replay()
    assert (launcher.to_numpy(second) == 7).all()


def test_a_recording_holds_its_arrays(launcher):
    votes, result = launcher.kernel(NAMES, "votes"), launcher.zeros((4, 64), np.uint32)
    replay = launcher.recorded(partial(votes, 1, 64, launcher.array(np.ones(64, np.int32)), result))
    others = [launcher.zeros(64, np.int32) for _ in range(8)]  # would take the place of one that was given back
    replay()
    assert launcher.to_numpy(result)[:2].all() and len(others) == 8


def test_only_launches_can_be_recorded(launcher):
    array = launcher.zeros(4, np.float32)
    for work in (
        lambda: launcher.array(np.zeros(4)),
        lambda: launcher.empty(4, np.float32),
        lambda: launcher.zeros(4, np.float32),
        lambda: launcher.to_numpy(array),
        lambda: launcher.synchronize(),
        lambda: next(launcher.stream([np.zeros(4)], [0, 4])),
        lambda: launcher.time(lambda: None),
        lambda: launcher.recorded(lambda: None),
    ):
        with pytest.raises(backends.DeviceError, match="while it records launches"):
            launcher.recorded(work)
    with pytest.raises(ZeroDivisionError):
        launcher.recorded(lambda: 1 / 0)
    assert len(launcher.recorded(lambda: None)) == 0 and launcher.to_numpy(array).shape == (4,)
