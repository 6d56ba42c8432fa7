"""A case tells what is wrong from what is right."""

import numpy as np
import pytest

from cases import HALF, Case, sgd_case
from gpumf import ALS, RBM
from support import ragged_ratings


@pytest.fixture
def ratings():
    return ragged_ratings(n_users=15, n_items=14, longest=11, seed=8)


def cases(ratings):
    yield sgd_case("cpu", "sequential", ratings, 5, True)
    yield Case(ALS(5, solver="sequential", device="cpu", biases=False), ratings)
    yield Case(RBM(7, biases=False, learning_rate=0.3, batch=6, solver="sequential", device="cpu"), ratings)


def test_another_number_of_epochs_is_not_close(ratings):
    for case in cases(ratings):
        case.assert_close(1e-4)
        with pytest.raises(AssertionError, match=case.model.solver):
            case.assert_close(1e-4, epochs=2, actual=case.run(1))


def test_one_wrong_row_is_named(ratings):
    for case in cases(ratings):
        for array in range(len(case.run(2))):
            for wrong in (0.01, np.nan):
                learned = [np.array(a) for a in case.run(2)]
                learned[array][-1] += wrong
                with pytest.raises(AssertionError, match=case.model._arrays[array]):
                    case.assert_close(1e-4, actual=learned)


def test_half_an_epoch_of_als_leaves_the_items_alone(ratings):
    case = Case(ALS(5, solver="sequential", device="cpu", biases=False), ratings)
    case.assert_close(1e-4, HALF)
    with pytest.raises(AssertionError, match="item_factors"):
        case.assert_close(1e-4, HALF, actual=case.run(1))


def test_the_rate_of_sgd_falls_by_default_and_stays_if_told(ratings):
    case = sgd_case("cpu", "sequential", ratings, 5)
    steady = Case(case.model, ratings, case.start, decay=1)
    assert (case.rate(1), steady.rate(1)) == (case.model.learning_rate / 2, case.model.learning_rate)
    steady.assert_close(1e-5)
    with pytest.raises(AssertionError):
        steady.assert_close(1e-5, actual=case.run())
