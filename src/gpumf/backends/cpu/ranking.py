"""The best items of users by inner products on the CPU: native/ranking.cpp, where C++ compiles."""

from ctypes import c_int, c_int64, c_void_p
from functools import cache

import numpy as np

from gpumf._util import threads
from gpumf.backends import compile
from gpumf.backends.cpu.shapes import takes


@cache
def native_top_items():
    """Compile top_items(users, indptr, seen, user_factors, item_factors, candidates, items, best), in C++.

    Returns a function that overwrites `items` and `best`, int32 and float32 (n, k), as
    `gpumf.backends.cpu.metrics.top_items` does by scores p . q, the same on any number of threads; or None where C++
    does not compile here. Rows of seen items are ascending. A user's scores among many others may differ by rounding
    from those alone.
    """
    library = compile.library("ranking.cpp")
    if library is None:
        return None
    run, floats, places = library.top_items, compile.array(np.float32), compile.array(np.int32)
    run.argtypes = [floats, floats, c_int64, places, c_int64, c_void_p, c_int64, compile.array(np.int64), places]
    run.argtypes += [c_int, places, floats, c_int]

    @takes(
        "int32 n",
        "int64 users+1",
        "int32 seen",
        "float32 users f",
        "float32 items f",
        "bool items",
        "int32 n k",
        "float32 n k",
    )
    def top_items(users, indptr, seen, user_factors, item_factors, candidates, items, best):
        chosen, n = (None, len(candidates)) if candidates.all() else _positions(candidates)
        arrays = user_factors, item_factors, item_factors.shape[1], users, len(users), chosen, n, indptr, seen
        run(*arrays, items.shape[1], items, best, threads.count())

    return top_items


def _positions(candidates):
    """(pointer, number) of the positions that a mask has."""
    chosen = np.flatnonzero(candidates).astype(np.int32)
    return chosen.ctypes, len(chosen)
