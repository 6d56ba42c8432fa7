"""Gaps between schemes, seed by seed."""

import numpy as np
import pandas as pd
import pytest

from gpumf_study import figure_style as style
from gpumf_study.experiments.gpumf import sgd_spread
from outcomes import labelled


def spread_frame():
    rows = [
        (scheme, fold, seed, 0.9 + fold / 10 + seed / 100 + gap * (1 + seed), 0.7)
        for scheme, gap in (("sequential", 0), ("hogwild", 0.001), ("ordered_parallel", -0.01), ("fast", -0.01))
        for fold in (0, 1)
        for seed in (0, 1)
    ]
    return pd.DataFrame(rows, columns=["scheme", "fold", "seed", "rmse", "mae"])


def test_gaps_are_to_the_core_that_takes_ratings_as_the_scheme_does_from_the_same_seed(stored):
    table = sgd_spread.summary(spread_frame()).set_index("scheme")
    assert list(table.gap) == pytest.approx([0, 0.0015, 0, 0])
    assert list(table.largest_gap) == pytest.approx([0, 0.002, 0, 0])
    table = table.loc[["sequential", "hogwild"]]
    assert list(table.rmse) == pytest.approx([0.955, 0.9565])
    assert list(table.spread) == pytest.approx([np.std([0, 0.01], ddof=1), np.std([0, 0.011], ddof=1)])
    figure = style.save(sgd_spread.figure(spread_frame()), stored(spread_frame()))
    seeds, means = figure.axes[0].lines
    assert len(seeds.get_xdata()) == 8 and max(means.get_xdata()) == pytest.approx(0.0015)
    names = ["fast", "ordered_parallel", "hogwild", "sequential"]
    assert [t.get_text() for t in figure.axes[0].get_yticklabels()] == names and labelled(figure)
