"""The schemes of SGD: their speeds, and their gaps to one core."""

import numpy as np
import pandas as pd
import pytest

from gpumf_study import schema
from gpumf_study.experiments.gpumf import sgd_schemes


def runs():
    """Two epochs of 100 updates each, twice: a solver, the seconds of an epoch, and the RMSE at the start."""
    rows = [
        sgd_schemes.columns_of(scheme)
        | {"data": "a", "device": device, "repeat": repeat, "epoch": epoch, "phase": "train", "x_nnz": 100}
        | {"seconds": epoch * seconds, "metric": metric, "value": value}
        for scheme, device, seconds, rmse in (
            ("sequential", "cpu", 2.0, 1.0),
            ("hogwild", "cuda", 1.0, 1.02),
            ("ordered_parallel", "cpu", 1.0, 0.94),
            ("fast, FP32", "cuda", 0.5, 0.95),
        )
        for repeat in (0, 1)
        for epoch in (0, 1, 2)
        for metric, value in (("rmse", rmse - 0.1 * epoch + 0.01 * repeat), ("mae", 0.5 - epoch / 10))
    ]
    return schema.validated(pd.DataFrame(rows))


def test_schemes_are_summed_up_by_speed_and_by_their_gap_to_one_core_that_takes_ratings_as_they_do():
    table = sgd_schemes.summary(runs()).set_index("scheme")
    assert table.updates_per_second.to_dict() == {
        "sequential": 50, "hogwild": 100, "ordered_parallel": 100, "fast, FP32": 200,
    }  # fmt: skip
    assert table.last_rmse[["sequential", "fast, FP32"]].to_list() == pytest.approx([0.805, 0.755])
    np.testing.assert_allclose(table.best_rmse, table.last_rmse)
    assert list(table.last_mae) == pytest.approx([0.3] * 4) and set(table.epochs) == {2}
    assert list(table.gap) == pytest.approx([0, 0.02, 0, 0.01])
    assert list(table.spread) == pytest.approx([np.std([0, 0.01], ddof=1)] * 4)


def test_figures_have_a_line_or_a_dot_a_scheme():
    few = sgd_schemes.figure(runs(), labels=["fast, FP32", "hogwild"])
    assert sorted(line.get_label() for line in few.axes[0].lines) == ["Hogwild", "fast, FP32"]


def test_every_label_of_a_scheme_is_a_kernel_with_options_that_it_has():
    for label, (kernel, options) in sgd_schemes.SCHEMES.items():
        assert set(options) <= set(sgd_schemes.SGD.solver_classes()[kernel].options)
        assert sgd_schemes.columns_of(label)["solver"] == kernel
    assert {kernel for kernel, _ in sgd_schemes.SCHEMES.values()} == set(sgd_schemes.SGD.solvers())
