"""ALS with more factors and more ratings."""

import numpy as np
import pandas as pd
import pytest

from gpumf_study import figure_style as style
from gpumf_study.experiments.gpumf import als_scaling
from outcomes import labelled
from support import ragged_ratings


def scaling_rows():
    for varied, settings in (("factors", (10, 20)), ("nnz", (100, 400))):
        for kernel in ("cumf_cholesky", "tensor_core"):
            for setting in settings:
                factors, nnz = (setting, 100) if varied == "factors" else (16, setting)
                power = 2 if kernel == "cumf_cholesky" else 1
                yield "a-synthetic", varied, kernel, "cuda", factors, nnz, 0, setting**power / 1e3, 1e-3


def test_times_are_drawn_against_factors_and_ratings(stored):
    columns = ["data", "varied", "kernel", "device", "factors", "nnz", "repeat", "seconds", "limit_seconds"]
    result = stored(scaling_rows(), columns)
    figure = style.save(als_scaling.figure(result.frame), result)
    assert list(figure.axes[0].lines[0].get_ydata()) == [0.1, 0.4]
    assert list(figure.axes[1].lines[1].get_xdata()) == [100, 400] and labelled(figure)
    slopes = als_scaling.summary(result.frame)
    assert slopes["factors", "cumf_cholesky"] == pytest.approx(2)
    assert slopes["nnz", "tensor_core"] == pytest.approx(1)


def test_conjugate_gradient_need_not_do_what_a_direct_solver_does():
    ratings = ragged_ratings(seed=0)
    direct, iterative = (als_scaling._work(kernel, ratings, 100) for kernel in ("cumf_cholesky", "cumf_cg"))
    assert iterative[1] < direct[1] and not np.array_equal(direct, als_scaling._work("cumf_cholesky", ratings, 50))


def test_times_grow_as_from_a_quarter_of_the_largest_setting():
    seconds = {8: 1.0, 16: 2.0, 50: 3.0, 64: 32.0}
    rows = [("factors", "fast", f, repeat, s * (1 + repeat)) for f, s in seconds.items() for repeat in (0, 1, 2)]
    frame = pd.DataFrame(rows, columns=["varied", "kernel", "factors", "repeat", "seconds"])
    assert als_scaling.summary(frame).to_dict() == {("factors", "fast"): pytest.approx(2)}
    assert als_scaling.summary(frame[frame.factors == 8]).empty
