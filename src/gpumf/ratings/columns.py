"""Columns of many ratings, worked on piece by piece on all threads (NumPy and Arrow release the GIL)."""

from contextlib import contextmanager, suppress
from threading import Lock
from typing import NamedTuple

import numpy as np

from gpumf._util import interrupts, threads

_PIECE = 1 << 18
"""Ratings of a piece: what is made of them on the way stays in a core's cache."""
_ROOM = 1 << 20
"""Integers below it, or below the number of ratings, are looked up in a table; others are hashed."""
_INTEGER = r"^-?(0|[1-9][0-9]*)(\.0*)?$"
"""What of strings is taken for an integer: 7 and 7.0, but not 007, which may well be another id than 7."""


class Coded(NamedTuple):
    """A column of ids.

    codes : int32 (nnz,), the position of each rating's id among the names, -1 where it is missing
    names : the distinct ids, ascending: integers, or an object array of str
    """

    codes: np.ndarray
    names: np.ndarray

    def __len__(self):
        return len(self.codes)


@contextmanager
def pool():
    """A thread a core; an interrupt waits for the end."""
    from concurrent.futures import ThreadPoolExecutor

    with interrupts.deferred(), ThreadPoolExecutor(threads.count()) as made:
        yield made


def in_pieces(work, n):
    """[work(part) for slices that make up range(n)], on all threads."""
    if n <= _PIECE:
        return [work(slice(0, n))] if n else []
    with pool() as threads:
        starts = range(0, n, _PIECE)
        return list(threads.map(lambda start: work(slice(start, min(start + _PIECE, n))), starts))


def first(condition, n):
    """The first position where condition(slice), an array of bool, is true; None where there is none."""

    def search(part):
        found = condition(part)
        return part.start + int(found.argmax()) if found.any() else None

    return next((k for k in in_pieces(search, n) if k is not None), None)


def joined(parts):
    """The arrays one after another, of the widest of their dtypes; the list is emptied."""
    widest = max((part.dtype for part in parts), key=lambda dtype: dtype.itemsize)
    ends = np.cumsum([len(part) for part in parts])
    result = np.empty(ends[-1], widest)

    def copy(k):
        result[ends[k] - len(parts[k]) : ends[k]] = parts[k]
        parts[k] = None

    with pool() as threads:
        list(threads.map(copy, range(len(parts))))
    parts.clear()
    return result


def narrowed(numbers):
    """Numbers as int32 or float32 where these hold every one of them, else, and what are none, as they are."""
    if numbers.dtype.kind not in "iuf":
        return numbers
    if numbers.dtype.kind == "f":
        with np.errstate(over="ignore", invalid="ignore"):
            narrow = numbers.astype(np.float32)
        return narrow if np.array_equal(narrow, numbers) else numbers
    most = np.iinfo(np.int32)
    fits = not len(numbers) or (numbers.min() >= most.min and numbers.max() <= most.max)
    return numbers.astype(np.int32, copy=False) if fits else numbers


def coded_integers(ids, overwrite=False):
    """`Coded` of integers (nnz,), int32 codes; where told to `overwrite`, in the memory of those of int32."""
    lows_and_highs = in_pieces(lambda part: (ids[part].min(), ids[part].max()), len(ids))
    low, high = (pick(bounds) for pick, bounds in zip((min, max), zip(*lows_and_highs, strict=True), strict=True))
    if low < 0 or high >= max(len(ids), _ROOM):
        return _hashed_integers(ids)
    present = np.zeros(int(high) + 1, bool)
    in_pieces(lambda part: present.__setitem__(ids[part], True), len(ids))
    names = np.flatnonzero(present)
    if len(names) == len(present) and ids.dtype == np.int32:
        return Coded(ids, names)
    places = np.cumsum(present, dtype=np.int32) - np.int32(1)
    return Coded(_looked_up(places, ids, overwrite), names)


def _looked_up(table, positions, overwrite):
    """table[positions], int32; -1 stands for the table's last."""
    result = positions if overwrite and positions.dtype == np.int32 else np.empty(len(positions), np.int32)
    in_pieces(lambda part: np.take(table, positions[part], out=result[part], mode="wrap"), len(positions))
    return result


def _hashed_integers(ids):
    import pyarrow as pa

    kind = np.uint64 if ids.dtype.kind == "u" and ids.dtype.itemsize == 8 else np.int64
    names, codes = Names(pa.from_numpy_dtype(kind)), np.empty(len(ids), np.int32)

    def encode(part):
        codes[part] = names.codes(pa.array(ids[part].astype(kind, copy=False)).dictionary_encode())

    in_pieces(encode, len(ids))
    return names.coded(codes)


class Names:
    """The distinct ids of a column, of an Arrow type `kind`, in the order in which threads meet them."""

    def __init__(self, kind):
        import pyarrow as pa

        self._known, self._lock = pa.array([], kind), Lock()

    def codes(self, encoded):
        """int32 codes of a DictionaryArray, -1 where there is none; ids that are new get the next ones."""
        import pyarrow as pa
        from pyarrow import compute as pc

        known = self._known
        codes = pc.index_in(encoded.dictionary, known)
        if codes.null_count:
            fresh = pc.unique(encoded.dictionary.filter(pc.is_null(codes)).drop_null())
            with self._lock:
                since = self._known[len(known) :]  # which other threads have met
                fresh = fresh.filter(pc.is_null(pc.index_in(fresh, since)))
                known = self._known = pa.concat_arrays([self._known, fresh])
            codes = pc.index_in(encoded.dictionary, known)
        table = np.append(codes.fill_null(-1).to_numpy(zero_copy_only=False), np.int32(-1))
        return table[encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)]

    def coded(self, codes):
        """`Coded` of such codes, whose memory it uses.

        Blanks around a string do not belong to it; one of blanks alone is missing. The names are integers where all
        of a column's are.
        """
        import pyarrow as pa
        from pyarrow import compute as pc

        names, same = self._known, None
        if pa.types.is_string(names.type):
            names = pc.utf8_trim_whitespace(names)
            names = pc.if_else(pc.equal(names, ""), None, names)
            if pc.all(pc.match_substring_regex(names, _INTEGER)).as_py():
                with suppress(pa.ArrowInvalid):  # beyond 64 bits they stay strings
                    names = pc.replace_substring_regex(names, r"\..*", "").cast(pa.int64())
            same = names.dictionary_encode()
            names = same.dictionary
        order = pc.sort_indices(names).to_numpy()  # of strings by their bytes in UTF-8, which is as Python does
        places = np.empty(len(order) + 1, np.int32)
        places[order], places[-1] = np.arange(len(order), dtype=np.int32), -1
        if same is not None:
            places = np.append(places[same.indices.fill_null(-1).to_numpy(zero_copy_only=False)], np.int32(-1))
        kind = object if pa.types.is_string(names.type) else None
        return Coded(_looked_up(places, codes, True), np.asarray(names.to_numpy(zero_copy_only=False), kind)[order])
