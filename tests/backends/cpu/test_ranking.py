"""Lists in C++ wherever arrays lie: nothing beside them is read or written, by any number of threads at once."""

import ctypes
import mmap
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest

import references
from gpumf._util import threads
from gpumf.backends.cpu import ranking
from gpumf.ratings.csr import CompressedRows

AT_ONCE = 16


@pytest.fixture(autouse=True)
def _compiler():
    if ranking.native_top_items() is None:
        pytest.skip("C++ does not compile here")


class Before:
    """Copies arrays to where the next byte is on a page that may not be read; they begin wherever that is."""

    def __init__(self):
        self._rooms = []

    def __call__(self, array):
        whole = -(-array.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
        self._rooms.append(room := mmap.mmap(-1, whole + mmap.PAGESIZE))
        copy = np.frombuffer(room, array.dtype, array.size, whole - array.nbytes).reshape(array.shape)
        copy[...] = array
        forbidden = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(room)) + whole)
        assert ctypes.CDLL(None)["mprotect"](forbidden, ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
        return copy

    def nothing_written_beside(self):
        return True


class At:
    """Copies arrays to so many bytes, or the next multiple of an item, after a cache line, among other bytes."""

    def __init__(self, offset):
        self._offset, self._rooms = offset, []

    def __call__(self, array):
        room = np.full(array.nbytes + 256, 0xFF, np.uint8)  # not a number, or -1
        first = -room.ctypes.data % 64 + -(-self._offset // array.itemsize) * array.itemsize
        copy = room[first : first + array.nbytes].view(array.dtype).reshape(array.shape)
        copy[...] = array
        self._rooms.append((room[:first], room[first + array.nbytes :]))
        return copy

    def nothing_written_beside(self):
        return all((side == 0xFF).all() for sides in self._rooms for side in sides)


@pytest.mark.parametrize("place", ["before", 4, 8, 20])
@pytest.mark.parametrize(
    ("n_users", "n_items", "factors", "k"),
    [(1, 1, 1, 1), (9, 37, 3, 24), (33, 61, 17, 25), (41, 333, 5, 10), (75, 4099, 2, 24), (13, 700, 33, 128)],
)
def test_many_threads_may_ask_wherever_arrays_lie(n_users, n_items, factors, k, place):
    rng = np.random.default_rng(n_items)
    # Small integers: the sums are exact in any order, and many are equal.
    p, q = (rng.integers(-2, 3, (n, factors)).astype(np.float32) for n in (n_users, n_items))
    has_seen = rng.random((n_users, n_items)) < rng.random((n_users, 1)) ** 3
    seen = CompressedRows(np.r_[0, has_seen.sum(1).cumsum()], np.nonzero(has_seen)[1].astype(np.int32), None)
    users, begin = rng.permutation(n_users).astype(np.int32), Barrier(AT_ONCE)
    given = [rng.random(n_items) < share for share in (1.1, 0.7)]
    expected = [references.top_items(p, q, users, candidates, seen, k) for candidates in given]

    def ask(turn):
        put = Before() if place == "before" else At(place)
        candidates, (items, scores) = put(given[turn % 2]), expected[turn % 2]
        arrays = [put(array) for array in (users, seen.indptr, seen.indices, p, q)]
        found = put(np.full((n_users, k), 7, np.int32)), put(np.full((n_users, k), 7, np.float32))
        begin.wait(120)
        with threads.limited_to(1 + turn % 3):
            ranking.native_top_items()(*arrays, candidates, *found)
        assert np.array_equal(found[0], items) and np.array_equal(found[1], scores, equal_nan=True)
        assert put.nothing_written_beside()

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(ask, range(AT_ONCE)))
