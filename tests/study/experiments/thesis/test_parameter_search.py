"""The search for lambda and the learning rate."""

import numpy as np
import pandas as pd
import pytest

from frames import searched
from gpumf_study.experiments.thesis import parameter_search
from outcomes import assert_drawn, word


def test_optima_are_the_best_means_beside_the_published_ones():
    table = parameter_search.optima(searched(als=0.05)).set_index(["model", "varied"])
    als, rate = table.loc[("ALS", "regularization")], table.loc[("SGD", "learning_rate")]
    assert (als["value"], als.published, rate["value"], rate.published) == (0.05, 0.07, 0.016, 0.016)
    assert als.mae == pytest.approx(0.70025) and als.published_mae == pytest.approx(0.72025)
    assert als.deviation == pytest.approx(0.0005 / np.sqrt(2))


def test_the_best_is_that_of_the_held_out_ratings_and_its_error_that_of_the_test_set():
    frame = searched().assign(x_held_out_mae=lambda frame: 1 - frame.value)
    table = parameter_search.optima(frame).set_index(["model", "varied"])
    points = parameter_search.summary(frame).set_index(["model", "varied", "value"])
    assert list(table["value"]) == [0.05, 0.12, 0.032]
    assert list(table.mae) == [points.mae[(*key, value)] for key, value in table["value"].items()]


def test_an_optimum_at_the_end_of_its_grid_is_not_an_interior_one():
    inside, outside = (
        parameter_search.optima(searched(als=als)).set_index(["model", "varied"]).interior for als in (0.07, 0.05)
    )
    assert inside["ALS", "regularization"] and not outside["ALS", "regularization"]


def test_a_run_ends_when_it_has_gone_on_for_twice_as_long_as_to_its_best():
    stop = parameter_search.OverfittingStop()
    maes = [0.1, 0.9, 0.8, 0.7, *[0.75] * 60]
    ended = next(epoch for epoch, mae in enumerate(maes) if stop({"epoch": epoch, "mae": mae}))
    assert ended == 2 * 3 + 30 + 1, "the initial model counts for nothing"


def test_the_best_epoch_is_one_that_was_trained():
    history = pd.DataFrame({"epoch": [0, 1, 2], "mae": [0.1, 0.9, 0.8]})
    assert parameter_search.best_epoch(history).epoch == 2
    assert parameter_search.best_epoch(history.assign(mae=np.nan)).epoch == 2


def test_the_cost_is_over_the_best_value_of_each_training_set():
    costs = parameter_search.costs(searched(als=0.05)).set_index(["model", "varied", "repeat"]).x_cost
    assert costs["ALS", "regularization", 0] == pytest.approx(0.02 / 0.7)
    assert costs["ALS", "regularization", 1] == pytest.approx(0.02 / 0.7005) and (costs["SGD"] == 0).all()
    assert word("thesis-fig-6.3-jester", searched(als=0.05)) == "not replicated"
    assert word("thesis-fig-6.3-jester", searched()) == "replicated"


def test_the_figure_says_where_it_was_measured_and_what_its_axes_are(store):
    result = store("parameter_search", searched())
    assert_drawn(parameter_search.figure(result.frame, "SGD", "learning_rate"), result, 1)
