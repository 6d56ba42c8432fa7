"""GPUSGD: a thread for each factor, and cells that are rated more than once."""

from contextlib import nullcontext

import numpy as np
import pytest

from cases import sgd_case
from gpumf.ratings import Ratings
from support import ragged_ratings


def test_gpusgd_has_a_thread_for_each_factor(launcher):
    for factors in (5, 16, 130):
        case = sgd_case(launcher.name, "gpusgd", ragged_ratings(seed=1), factors, side=3)
        assert case.make_solver()._shape == (3, factors)


@pytest.mark.parametrize("precision", [32, 64])
def test_gpusgd_makes_all_updates_of_a_cell_that_is_rated_more_than_once(launcher, precision):
    once = ragged_ratings(n_users=8, n_items=9, longest=6, seed=3)
    cells = np.concatenate([np.arange(once.nnz), np.repeat(np.arange(once.nnz), np.arange(once.nnz) % 3)])
    ratings = Ratings(once.users[cells], once.items[cells], np.arange(len(cells)) % 5, once.n_users, once.n_items)
    case = sgd_case(launcher.name, "gpusgd", ratings, 5, side=2, precision=precision)
    with launcher.shuffled(1) if launcher.name == "emulator" else nullcontext():
        case.assert_close(3e-6)
