"""Gaps between schemes, seed by seed."""

import numpy as np
import pandas as pd
import pytest

from gpumf_study.experiments.gpumf import sgd_spread


def test_gaps_are_to_the_core_that_takes_ratings_as_the_scheme_does_from_the_same_seed():
    rows = [(solver, fold, seed, "rmse", 0.9 + fold / 10 + seed / 100 + gap * (1 + seed))
            for solver, gap in (("sequential", 0), ("hogwild", 0.001), ("ordered_parallel", -0.01), ("fast", -0.01))
            for fold in (0, 1) for seed in (0, 1)]  # fmt: skip
    frame = pd.DataFrame(rows, columns=["solver", "x_fold", "repeat", "metric", "value"])
    table = sgd_spread.summary(frame).set_index("scheme")
    assert list(table.gap) == pytest.approx([0, 0.0015, 0, 0])
    assert list(table.largest_gap) == pytest.approx([0, 0.002, 0, 0])
    table = table.loc[["sequential", "hogwild"]]
    assert list(table.rmse) == pytest.approx([0.955, 0.9565])
    assert list(table.spread) == pytest.approx([np.std([0, 0.01], ddof=1), np.std([0, 0.011], ddof=1)])
