"""Rows of factors more than 2^31 elements from the first one: offsets in kernels have 64 bits.

The matrices are sparse files, of which only the pages in use take memory.
"""

import numpy as np
import pytest

from gpumf import SGD
from gpumf.ratings import Ratings
from support import KERNELS, ragged_ratings

FACTORS = 300
FAR = 2**31 // FACTORS + 1


@pytest.fixture
def sparse(tmp_path):
    """A function that makes a float32 matrix of zeros with so many rows."""

    def zeros(name, rows):
        return np.memmap(tmp_path / name, np.float32, "w+", shape=(rows, FACTORS))

    return zeros


@pytest.mark.parametrize(
    ("helpers", "far"), [({}, FAR), ({"OF_QUADS": 1, "BIASES": 0}, 4 * FAR)], ids=["group", "quads"]
)
def test_rows_are_read_and_written_beyond_32_bits(host, sparse, helpers, far):
    matrix, read = sparse("matrix", far + 3), np.zeros((2, FACTORS), np.float32)
    expected = np.arange(1, FACTORS + 1, dtype=np.float32)
    matrix[far + 1] = expected
    host.kernel(KERNELS / "far_rows.cu", "copies_rows", FACTORS=FACTORS, **helpers)(1, 32, matrix, far + 1, far, read)
    assert np.array_equal(read, [expected, expected])
    assert np.array_equal(matrix[far], expected) and not matrix[0].any() and not matrix[far + 2].any()


# Options with which the updates do not depend on how many users and items there are. The other solvers have the rows
# of the test above, or copy the matrices that they are given.
WITHOUT_CONFLICTS = {
    "hogwild": {"threads": 1},
    "bsgd": {"batch": 1},
    "esgd": {"th_size": 10},
    "gpusgd": {"side": 1},
    "newgpusgd": {"side": 1},
}


@pytest.mark.parametrize("solver", WITHOUT_CONFLICTS)
def test_far_users_and_items_get_the_updates_of_near_ones(host, sparse, monkeypatch, solver):
    plain = type(host).array
    monkeypatch.setattr(type(host), "array", lambda self, a: a if isinstance(a, np.memmap) else plain(self, a))
    near = ragged_ratings(12, 10, 8, seed=3)

    def learned(first):
        users, items = near.n_users + first, near.n_items + first
        ratings = Ratings(near.users + first, near.items + first, near.values, users, items)
        rng = np.random.default_rng(0)
        start = sparse(f"users {first}", users), sparse(f"items {first}", items)
        for matrix in start:
            matrix[first:] = rng.random((len(matrix) - first, FACTORS)) / 20
        before = [matrix[first:].copy() for matrix in start]
        model = SGD(FACTORS, solver=solver, device="emulator", biases=False, **WITHOUT_CONFLICTS[solver])
        model.make_solver(ratings, *start).epoch(0)
        after = [matrix[first:].copy() for matrix in start]
        assert not any(map(np.array_equal, before, after))
        return after

    for far, expected in zip(learned(FAR), learned(0), strict=True):
        assert np.array_equal(far, expected)
