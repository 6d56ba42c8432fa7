"""The best items of users by inner products on the CPU: native/ranking.cpp, where C++ compiles."""

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
    kinds = "float32* float32* int64 int32* int64 void* int64 int64* int32* int32 int32* float32* int32"
    run, lists = compile.function("ranking.cpp", "top_items", kinds), ("int32 n k", "float32 n k")

    @takes("int32 n", "int64 users+1", "int32 seen", "float32 users f", "float32 items f", "bool items", *lists)
    def top_items(users, indptr, seen, user_factors, item_factors, candidates, items, best):
        chosen = None if candidates.all() else np.flatnonzero(candidates).astype(np.int32)
        chosen, n = (None, len(candidates)) if chosen is None else (chosen.ctypes, len(chosen))
        arrays = user_factors, item_factors, item_factors.shape[1], users, len(users), chosen, n, indptr, seen
        run(*arrays, items.shape[1], items, best, threads.count())

    return run and top_items
