"""Who has which users and items."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumf.distributed.sources import balanced_bounds, dealt, owners


@given(st.lists(st.integers(0, 50), min_size=1, max_size=40), st.integers(1, 9))
def test_ranges_cover_all_rows_and_differ_by_a_row(counts, parts):
    counts = np.array(counts)
    bounds = balanced_bounds(counts, parts)
    assert bounds[0] == 0 and bounds[-1] == len(counts) and (np.diff(bounds) >= 0).all() and len(bounds) == parts + 1
    ratings = np.add.reduceat(np.append(counts, 0), bounds[:-1]) * (np.diff(bounds) > 0)
    assert ratings.sum() == counts.sum()
    assert ratings.max() <= counts.sum() / parts + counts.max()
    for row, owner in enumerate(owners(np.arange(len(counts)), bounds)):
        assert bounds[owner] <= row < bounds[owner + 1]


@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_files_are_dealt_by_their_bytes(n):
    sizes = [7, 1, 9, 3, 3]
    hands = dealt(sizes, n)
    assert sorted(k for hand in hands for k in hand) == list(range(5)) and len(hands) == n
    loads = [sum(sizes[k] for k in hand) for hand in hands]
    assert max(loads) - min(loads) <= 9 if n <= 5 else min(loads) == 0
