"""What is not finite is found, wherever it is."""

import numpy as np
import pytest

from gpumf import ALS, DivergedError, backends
from gpumf.models import finite
from gpumf.models.finite import FiniteCheck
from support import ragged_ratings


@pytest.mark.parametrize("least", [0, 1 << 20])  # numbers from which all cores of the processor are at work
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_one_number_that_is_not_finite_is_found(device, value, least, monkeypatch):
    monkeypatch.setattr(finite, "LEAST", least)

    def copies(arrays):
        # Each by a new check: what has been found stays found.
        made = FiniteCheck(device).copies(
            arrays if device == "cpu" else list(map(backends.device(device).array, arrays))
        )
        return made and (made if device == "cpu" else list(map(backends.device(device).to_numpy, made)))

    for size, place in ((1, 0), (7, 6), (50000, 0), (50000, 49999), (50000, 23456)):
        # The largest numbers, whose sums would not be finite.
        arrays = [np.full(n, np.finfo(np.float32).max, np.float32) for n in (3, size)]
        made = copies(arrays)
        assert [a.tobytes() for a in made] == [a.tobytes() for a in arrays]
        arrays[1][place] = value
        assert copies(arrays) is None


def test_arrays_that_are_made_anew_are_checked_where_they_are(device, monkeypatch):
    there = None if device == "cpu" else backends.device(device)
    arrays = [np.full((3, 2), 1.5, np.float32), np.arange(500, dtype=np.float32)]
    given = arrays if there is None else [there.array(one) for one in arrays]
    check = FiniteCheck(device)
    made = check.copies(given, fresh=True)
    if device != "emulator":  # whose `array` always copies
        assert all(one is other for one, other in zip(made, given, strict=True))
    assert check._copies == [None, None]
    if there is not None:
        monkeypatch.setattr(type(there), "free_bytes", staticmethod(lambda: 100))
        on_host = check.copies(given, fresh=True)
        assert all(type(one) is np.ndarray for one in on_host)
        assert all(np.array_equal(*both) for both in zip(on_host, arrays, strict=True))
        given[1][499:] = np.nan
    else:
        given[1][499] = np.nan
    assert check.copies(given, fresh=True) is None


@pytest.mark.parametrize("biases", ["damped", False])
def test_an_epoch_that_ends_in_what_is_not_finite_leaves_the_one_before(device, biases, monkeypatch):
    train, epoch = ragged_ratings(n_users=30, n_items=20, longest=12, seed=4), ALS._epoch
    before, model = (ALS(3, biases=biases, device=device) for _ in range(2))
    before.fit(train, 2)

    def poisoned(self, solver, number, rows):
        epoch(self, solver, number, rows)
        if number == 2:
            solver.synchronize()
            solver.factors()[1][3, 1] = np.nan

    monkeypatch.setattr(ALS, "_epoch", poisoned)
    with pytest.raises(DivergedError, match="epoch 3 ended"):
        model.fit(train, 5)
    assert model.history.epoch.tolist() == [0, 1, 2] and model.epoch == 2
    assert all(np.array_equal(*both) for both in zip(model._learned, before._learned, strict=True))


def test_copies_stay_as_they_are_until_the_next_call_but_one():
    check, array = FiniteCheck("cpu"), np.zeros((3, 2), np.float32)
    made = []
    for k in range(4):
        array[...] = k
        made += check.copies([array])
    assert [copy[0, 0] for copy in made] == [2, 3, 2, 3] and made[0] is made[2]
    array[0, 0] = np.nan
    assert check.copies([array]) is None and made[3][0, 0] == 3


@pytest.mark.parametrize("place", range(7))
def test_a_thread_remembers_what_it_found_among_its_numbers(launcher, place):
    numbers = np.arange(7, dtype=np.float32)
    numbers[place] = np.inf
    copy, found = launcher.empty(7, np.float32), launcher.zeros(1, np.int32)
    kernel = launcher.kernel("metrics/finite.cu", "copy_finite")
    kernel(1, 2, numbers=launcher.array(numbers), n=7, copy=copy, found=found)
    assert launcher.to_numpy(found)[0] == 1
    np.testing.assert_array_equal(launcher.to_numpy(copy), numbers)
