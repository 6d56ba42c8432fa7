"""Three models, until they have converged."""

import numpy as np
import pandas as pd
import pytest

from gpumf_study import schema
from gpumf_study.experiments.thesis import als_sgd_rbm
from outcomes import CLAIMS, assert_drawn


def raced(sgd=0.5):
    """Two versions of three models that take a half off the MAE in ten epochs, then nothing in ten more."""
    lots = []
    for model, seconds in {"ALS": 1.0, "SGD": sgd, "RBM": 100.0}.items():
        for variant, setting, faster in (("published", "published", 1), ("fastest", "tuned", 10)):
            for repeat in (0, 1):
                epochs = np.arange(21)
                labels = {"data": "jester-1", "model": model, "solver": "s", "variant": variant, "x_setting": setting}
                course = {
                    "epoch": epochs,
                    "seconds": epochs * seconds / faster,
                    "value": 1 - 0.05 * epochs.clip(0, 10),
                }
                labels |= {"repeat": repeat, "phase": "train", "metric": "mae"}
                lots.append(pd.DataFrame(labels | course))
    return schema.validated(pd.concat(lots, ignore_index=True))


def test_a_model_has_converged_when_a_hundredth_of_its_gain_is_to_come():
    table = als_sgd_rbm.summary(raced()).set_index(["model", "variant"])
    als = table.loc["ALS", "published"]
    assert als.epoch == 10 and als.x_reduction == pytest.approx(0.5 / 10) and table.x_certain.all()
    for model, factor in (("als", 100), ("sgd", 200)):
        found = CLAIMS[f"thesis-fig-6.13-{model}-fastest"].estimate(raced())
        assert found.value == pytest.approx(factor)


def test_convergence_is_certain_where_a_run_went_on_for_as_long_again():
    frame = raced()
    short = als_sgd_rbm.summary(frame[(frame.model != "SGD") | (frame.epoch < 20)])
    assert set(short.model[~short.x_certain]) == {"SGD"}
    assert set(als_sgd_rbm.summary(frame[frame.epoch <= 1]).epoch) == {1}, "one epoch alone has converged with it"


def test_the_figure_says_where_it_was_measured_and_what_its_axes_are(store):
    result = store("als_sgd_rbm", raced())
    assert_drawn(als_sgd_rbm.figure(result.frame), result, 1)
