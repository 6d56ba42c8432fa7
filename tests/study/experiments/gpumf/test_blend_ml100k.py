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


@pytest.mark.slow
def test_models_and_weights_are_chosen_on_held_out_training_ratings_alone(blends):
    assert set(blends.fold) == {0, 1}
    for _, fold in blends.groupby("fold"):
        choices, tests = (fold[fold.step == step] for step in ("choice", "test"))
        for name in blend_ml100k.MODELS:
            best = choices.loc[choices[choices.model == name].rmse.idxmin()]
            judged = tests[tests.model == name]
            assert len(judged) == 2 and (judged.epochs == best.epochs).all()
            keys = ["learning_rate"] if name == "RBM" else ["regularization"]
            assert (judged[keys] == best[keys]).all(axis=None)
        for names in blend_ml100k.BLENDS:
            blended = fold[fold.model == " + ".join(names)]
            weights = blended[[f"weight_{name}" for name in names]]
            assert weights.sum(axis=1).to_numpy() == pytest.approx(1)
            assert len(blended) == 3 and (weights.nunique() == 1).all(), "of the held-out ratings"
            of_parts = choices[choices.model.isin(names)].groupby("model")
            best = choices.loc[of_parts.rmse.idxmin(), "rmse"].min()
            assert blended[blended.step == "choice"].rmse.item() <= best + 1e-6


def test_blends_are_summed_up_over_folds_and_seeds_and_drawn(blends, stored):
    table = blend_ml100k.summary(blends).set_index(["measure", "model"])
    names = [*blend_ml100k.MODELS, *(" + ".join(names) for names in blend_ml100k.BLENDS)]
    tests = blends[blends.step == "test"]
    for measure in ("rmse", "mae"):
        of = table.loc[measure]
        assert list(of.index) == names and pd.isna(of.weight_ALS["RBM + SGD"]) and of.spread["SGD"] > 0
        assert of["mean"]["RBM"] == pytest.approx(tests[tests.model == "RBM"][measure].mean())
        both = tests[tests.model == "RBM + SGD"]
        assert of["mean"]["RBM + SGD"] == pytest.approx(both[measure].mean())
        found = {finding.id: finding.value(blends)[0] for finding in blend_ml100k.FINDINGS}
        best = of["mean"][["RBM", "SGD", "ALS"]].min()
        assert found[f"blend-ml100k-{measure}"] == of["mean"]["RBM + SGD + ALS"]
        assert found[f"blend-ml100k-{measure}-gain"] == pytest.approx(best - of["mean"]["RBM + SGD + ALS"])
        machine = of["mean"]["SGD + ALS"] - of["mean"]["RBM + SGD + ALS"]
        assert found[f"blend-ml100k-{measure}-machine"] == pytest.approx(machine)
    figure = style.save(blend_ml100k.figure(blends), stored(blends))
    for axis, measure in zip(figure.axes, ("rmse", "mae"), strict=True):
        points, means = axis.lines[:2]
        assert len(points.get_xdata()) == 2 * len(names)
        np.testing.assert_allclose(means.get_xdata(), table.loc[measure]["mean"])
    assert labelled(figure)


def test_a_blend_is_held_to_its_best_part_and_to_the_blend_without_the_machine():
    names = [*blend_ml100k.MODELS, "SGD + ALS", " + ".join(blend_ml100k.MODELS)]

    def words(blend, apart=0.0, fitted_to="rmse"):
        rows = [
            (
                fold,
                "test",
                seed,
                name,
                np.nan if " + " not in name else fitted_to,
                error + seed * apart * ("+" in name),
            )
            for fold in (0, 1)
            for seed in (0, 1)
            for name, error in zip(names, (0.93, 0.91, 0.92, 0.905, blend), strict=True)
        ]
        frame = pd.DataFrame(rows, columns=["fold", "step", "seed", "model", "fitted_to", "rmse"])
        frame = frame.assign(mae=frame.rmse)
        frame[[f"weight_{name}" for name in blend_ml100k.MODELS]] = 0.3
        found = {f.id: f.rule.word(*f.value(frame)[:2]) for f in blend_ml100k.FINDINGS}
        return [found[f"blend-ml100k-{key}"] for key in ("rmse-gain", "mae-gain", "rmse-machine", "mae-machine")]

    assert words(0.90) == ["reproduced"] * 4 and words(0.912) == ["contradicted"] * 4
    assert words(0.91) == ["tie"] * 2 + ["contradicted"] * 2
    assert words(0.9, apart=0.05)[:2] == ["tie"] * 2, "the seeds are further apart"
