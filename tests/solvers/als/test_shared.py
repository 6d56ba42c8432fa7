"""Items that are solved by the sums of parts of their equations, a few of a worker's at a time."""

import numpy as np
import pytest

from gpumf import ALS, ImplicitALS
from gpumf.ratings import Ratings
from gpumf.solvers import als_shared


class Carrier:
    """Of one worker of two, the other of which has the same ratings, users and all: sums are twice what is here."""

    rank, size = 0, 2

    def __init__(self):
        self.log = []

    def all_reduce(self, array):
        if array.dtype == np.float64:
            array[1] = array[0]  # of each what it says of itself
        else:
            array *= 2

    def start_reduce_scatter(self, array, bounds):
        self.log.append("begun")

        def complete():
            self.log.append("completed")
            own = array[bounds[0] : bounds[1]]
            own *= 2
            return own

        return complete


MODELS = {
    "cholesky": lambda: ALS(3, 0.2, biases=False, solver="cumf_cholesky", device="emulator"),
    "bias apart": lambda: ALS(18, 0.2, biases=False, weighted=False, solver="cumf_lu", device="emulator"),
    "implicit": lambda: ImplicitALS(
        3, 0.2, unobserved_weight=0.5, regularization_exponent=0, solver="cumf_cholesky", device="emulator"
    ),
}


@pytest.mark.emulator
@pytest.mark.usefixtures("host")
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("floats", "fewest"), [(2_000, 512), (10**9, 512), (10**9, 1)])
def test_sums_of_two_workers_are_those_of_all_ratings(monkeypatch, name, floats, fewest):
    """The first has 7 items, of which 3 have no rating; rows of more than 4 ratings have their sums in parts."""
    cells = np.random.default_rng(5).permutation(12 * 9)[:70]
    cells = cells[~np.isin(cells % 9, [0, 3, 4])]
    half = Ratings(cells // 9, cells % 9, 1 + cells.astype(np.float32) % 5, 12, 9)
    twice = {"users": np.tile(half.users, 2) + np.repeat([0, 12], half.nnz).astype(np.int32), "n_users": 24}
    whole = Ratings(twice["users"], np.tile(half.items, 2), np.tile(half.values, 2), 24, 9)
    model, rng = MODELS[name](), np.random.default_rng(2)
    p, q = rng.random((12, model.columns), np.float32), rng.random((9, model.columns), np.float32)
    expected = model.make_solver(whole, np.tile(p, (2, 1)), q, longest=4)
    expected.solve_items()
    made = model.make_solver(half, p, q, longest=4)
    monkeypatch.setattr(made._device, "free_bytes", lambda: floats * 4 / als_shared._SHARE, raising=False)
    monkeypatch.setattr(als_shared, "_FEWEST", fewest)
    carrier = Carrier()
    made.share_items(carrier, np.array([0, 7, 9]), slice(0, 12), half.by_item.indptr, whole.item_counts)
    chunks = len(made._chunks_shared)
    assert (chunks > 1) == (floats < 10**9 or fewest == 1)
    made.solve_items(solve=made.solve_shared)
    between = ["begun", "begun", "completed", "completed"] * (chunks - 1)
    assert carrier.log == ["begun", "begun", *between, "completed", "completed"], "one is on its way, and one made"
    assert np.allclose(made.factors()[1][:7], expected.factors()[1][:7], atol=2e-5)
    assert np.array_equal(made.factors()[1][7:], q[7:]), "the other worker's are its own to solve"


def test_chunks_are_of_all_workers_and_cover_every_row_once():
    assert als_shared._chunks([0, 5, 5, 7], 3) == [
        [slice(0, 3), slice(5, 5), slice(5, 7)],
        [slice(3, 5), slice(5, 5), slice(7, 7)],
    ]
