"""Speed-ups of versions to the same error."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from gpumf import ALS, SGD
from gpumf_study import schema
from gpumf_study.experiments.thesis import speedups
from outcomes import CLAIMS, word
from support import ragged_ratings

SECONDS = {
    ("ALS", "sequential", None): 100.0,
    ("ALS", "parallel", None): 10.0,
    ("ALS", "thesis_shared", "32 x 128"): 1.0,
    ("ALS", "tensor_core", None): 0.1,
    ("SGD", "sequential", None): 100.0,
    ("SGD", "ordered", None): 10.0,
    ("SGD", "ordered_parallel", None): 1.0,
    ("SGD", "hogwild", "32 x 128"): 2.0,
    ("SGD", "hogwild", "128 x 128"): 0.5,
}
SOLVERS = {"ALS": ALS.solvers(), "SGD": SGD.solvers()}


def frame_of(seconds, least=None, data="jester-1", repeats=2):
    """Ten epochs of each version, that end at `least` of the solver, or else below the threshold; 5 s before."""
    lots = []
    for (model, solver, variant), of_epoch in seconds.items():
        for repeat in range(repeats):
            labels = {"data": data, "model": model, "solver": solver, "variant": variant, "repeat": repeat}
            labels |= {"device": SOLVERS[model][solver], "x_setting": "published"}
            epochs = np.arange(11)
            values = (least or {}).get(solver, 0.6995) + (10 - epochs) / 100
            course = {"epoch": epochs, "phase": "train", "seconds": epochs * of_epoch, "metric": "mae"}
            lots += [
                pd.DataFrame(labels | course | {"value": values}),
                pd.DataFrame(labels | {"phase": ["preprocess"], "seconds": 5.0}),
            ]
    return schema.validated(pd.concat(lots, ignore_index=True))


def test_versions_are_compared_at_the_threshold_or_at_what_all_reach():
    table = speedups.summary(frame_of(SECONDS, {"hogwild": 0.72})).set_index(["model", "solver", "variant"])
    als, sgd = table.loc[("ALS", "thesis_shared", "32 x 128")], table.loc[("SGD", "hogwild", "32 x 128")]
    assert (als.level, als.epoch, als.seconds, als.single, als.multi) == (0.71, 9, 9, 100, 10)
    assert als.end_to_end == 14 and als.single_end_to_end == 905 / 14
    assert (sgd.level, sgd.epoch, sgd.single) == (0.72, 10, 8 * 10 / 20)
    assert table.loc["SGD"].loc["sequential"].single.iloc[0] == 0.1, "shuffled epochs are the baseline"


def test_both_models_are_compared_at_one_level():
    found = speedups.reached_by_both(frame_of(SECONDS, {"hogwild": 0.72}))
    assert set(found.level) == {0.72} and set(found[found.model == "ALS"].epoch) == {8}
    assert word("thesis-fig-6.12-jester-1", frame_of(SECONDS, {"hogwild": 0.72})) == "replicated"


def test_the_least_speed_up_is_over_all_data_sets():
    slow = {("ALS", "thesis_shared", "32 x 128"): 200.0}
    both = pd.concat([frame_of(SECONDS), frame_of(SECONDS | slow, data="jester-synthetic")])
    found = CLAIMS["thesis-fig-6.11-als-one-core"].estimate(both)
    assert found.value == 0.5 and word("thesis-fig-6.11-als-one-core", frame_of(SECONDS)) == "replicated"


def test_the_rate_is_tuned_for_the_epochs_to_the_error(monkeypatch):
    courses = {0.1: [0.9, 0.7, 0.6, 0.6], 0.01: [0.9, 0.8, 0.65, 0.5], 0.001: [0.9, 0.9, 0.9, 0.9]}

    def trained(model, part, epochs, held_out, stop):
        return SimpleNamespace(history=pd.DataFrame({"epoch": range(4), "mae": courses[model.learning_rate]}))

    monkeypatch.setattr(speedups, "trained", trained)
    train = ragged_ratings(seed=0)
    assert speedups._fastest(train, [*courses], {"regularization": 0.1}, 3, 0.7) == 0.1
    assert speedups._fastest(train, [*courses], {"regularization": 0.1}, 3, None) == 0.01, "no error to reach"


@pytest.mark.slow
def test_the_figure_names_what_it_shows(stored):
    result = stored(frame_of(SECONDS), name="speedups")
    figure = speedups.figure(result.frame)
    names = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert names == ["ALS, Jester part 1,\nto MAE 0.71", "SGD, Jester part 1,\nto MAE 0.71"]
    assert "100" in {text.get_text() for text in figure.axes[0].texts}
