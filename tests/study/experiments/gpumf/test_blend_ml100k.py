"""Blends of three models, whose parameters and weights held-out ratings choose."""

import numpy as np
import pandas as pd
import pytest

from gpumf_study import figure_style as style
from gpumf_study.experiments.gpumf import blend_ml100k
from outcomes import labelled


@pytest.fixture(scope="module")
def blends():
    grids = {
        "RBM": {"hidden": [8], "learning_rate": [0.05, 1e-6]},
        "SGD": {"factors": [4], "regularization": [0.1], "beta": [0.01]},
        "ALS": {"factors": [4], "regularization": [0.1, 50.0]},
    }
    kernels = dict.fromkeys(blend_ml100k.MODELS, "sequential")
    return blend_ml100k.run("ml-100k-synthetic", 2, grids, {"RBM": 6, "SGD": 8, "ALS": 4}, kernels, 2)


def test_blends_are_summed_up_over_folds_and_seeds_and_drawn(blends, stored):
    table = blend_ml100k.summary(blends).set_index(["metric", "model"])
    names = [*blend_ml100k.MODELS, *(" + ".join(names) for names in blend_ml100k.BLENDS)]
    tests = blends[blends.x_step == "test"]
    gains = blend_ml100k.gains(blends).groupby("metric").mean()
    for metric in ("rmse", "mae"):
        of = table.loc[metric]
        assert list(of.index) == names and pd.isna(of.weight_ALS["RBM + SGD"]) and of.spread["SGD"] > 0
        for name in ("RBM", "RBM + SGD"):
            assert of["mean"][name] == pytest.approx(
                tests[(tests.model == name) & (tests.metric == metric)].value.mean()
            )
        everything, best = of["mean"]["RBM + SGD + ALS"], of["mean"][["RBM", "SGD", "ALS"]].min()
        expected = [everything, best - everything, of["mean"]["SGD + ALS"] - everything]
        assert gains.loc[metric, ["x_error", "x_gain", "x_machine"]].to_list() == pytest.approx(expected)
    figure = style.save(blend_ml100k.figure(blends), stored(blends))
    for axis, metric in zip(figure.axes, ("rmse", "mae"), strict=True):
        points, means = axis.lines[:2]
        assert len(points.get_xdata()) == 2 * len(names)
        np.testing.assert_allclose(means.get_xdata(), table.loc[metric]["mean"])
    assert labelled(figure)
