"""Wrong parameters and wrong use get one clear error each."""

import warnings

import numpy as np
import pytest

from gpumf import ALS, RBM, SGD, BayesianMF, ImplicitALS, cross_validate
from gpumf._util.validation import integer
from gpumf.ratings import Ratings


def test_an_integer_is_one_that_kernels_take():
    assert integer("factors", 2**31 - 1, 1) == 2**31 - 1 and type(integer("factors", np.int8(3), 3)) is int
    for value in (2**31, 2**32 - 1, 0, 1.0, True, "1"):
        with pytest.raises(ValueError, match="factors must be an integer from 1 to 2147483647, not"):
            integer("factors", value, 1)


def test_numbers_of_numpy_are_told_as_numbers():
    for call, told in (
        (lambda: ALS(2, cg_steps=np.int64(0)), "cg_steps must be an integer from 1 to 2147483647, not 0"),
        (lambda: SGD(2, learning_rate=np.float32(-1)), "learning_rate must be a number above 0 and finite, not -1.0"),
        (lambda: RBM(2, gibbs_steps=(np.int64(0), 1)), r"all below 2147483648, not \(0, 1\)"),
        (lambda: SGD(2, solver="ordered", side=np.int64(0)), "from 1 to 4096, not 0"),
        (lambda: SGD(2, biases=np.int64(1)), "'baseline', not 1"),
        (lambda: Ratings([0], [0], [1], np.int64(0), 1), "not 0"),
        (lambda: Ratings([0], [0], [1], 1, 1, scale=(np.float64(5), np.float64(1))), r"not \(5.0, 1.0\)"),
    ):
        with pytest.raises(ValueError, match=f"{told}$"):
            call()


@pytest.mark.parametrize("model", [ALS, SGD, RBM, BayesianMF])
def test_clicks_are_no_ratings(model):
    pairs = np.arange(40) % 8, np.arange(40) % 5
    with pytest.warns(RuntimeWarning, match=f"all ratings are 1, so {model.__name__} has nothing to predict") as told:
        model(2, device="cpu").fit(pairs, 1)
        cross_validate(model(2, device="cpu"), Ratings(*pairs, np.ones(40), 8, 5), 1)
    assert {one.filename for one in told} == {__file__} and len(told) == 6
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ImplicitALS(2, device="cpu", regularization=0.1).fit(pairs, 1)
        model(2, device="cpu").fit((*pairs, np.arange(40) % 2 + 1.0), 1)
