"""Gaps between schemes, seed by seed."""

import numpy as np
import pandas as pd
import pytest

from gpumf import figure_style as style
from gpumf.experiments.gpumf import sgd_spread
from outcomes import labelled


def spread_frame():
    rows = [
        (scheme, fold, seed, 0.9 + fold / 10 + seed / 100 + gap * (1 + seed), 0.7)
        for scheme, gap in (("sequential", 0), ("fast", 0.001))
        for fold in (0, 1)
        for seed in (0, 1)
    ]
    return pd.DataFrame(rows, columns=["scheme", "fold", "seed", "rmse", "mae"])


def test_gaps_are_to_sequential_from_the_same_seed(stored):
    table = sgd_spread.summary(spread_frame()).set_index("scheme")
    assert list(table.gap) == pytest.approx([0, 0.0015]) and list(table.largest_gap) == pytest.approx([0, 0.002])
    assert list(table.rmse) == pytest.approx([0.955, 0.9565])
    assert list(table.spread) == pytest.approx([np.std([0, 0.01], ddof=1), np.std([0, 0.011], ddof=1)])
    figure = style.save(sgd_spread.figure(spread_frame()), stored(spread_frame()))
    seeds, means = figure.axes[0].lines
    assert len(seeds.get_xdata()) == 4 and sorted(means.get_xdata()) == pytest.approx([0, 0.0015])
    assert [t.get_text() for t in figure.axes[0].get_yticklabels()] == ["fast", "sequential"] and labelled(figure)
