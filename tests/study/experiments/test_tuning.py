"""Tuned parameters: where they come from, and what does not change them."""

import pandas as pd
import pytest

from frames import searched
from gpumf_study import experiments, results
from gpumf_study.experiments import tuning
from gpumf_study.experiments.gpumf import als_convergence


def test_tuned_parameters_are_those_of_the_recorded_search_and_others_serve_sets_without_one():
    recorded = results.load("parameter_search")
    assert tuning.tuned()["from"]["commit"] == recorded.provenance["commit"]
    assert tuning.chosen(tuning.PARAMETERS, "ml-100k", "ALS") == {"regularization": 0.1}
    with pytest.raises(ValueError, match="none of SGD for 'jester-1'"):
        tuning.chosen({"jester-1": {"ALS": {}}}, "jester-1", "SGD")


def test_what_was_measured_since_changes_no_run(store):
    before = {name: experiments.module(name).PROFILES for name in experiments.names()}
    store("parameter_search", searched(als=0.09), live=True)
    store("parameter_search", searched(als=0.05))
    frame = als_convergence.run(["ml-100k-synthetic"], 4, 1, {"ml-100k-synthetic": {"ALS": {"regularization": 0.1}}})
    again = als_convergence.run(["ml-100k-synthetic"], 4, 1, tuning.PARAMETERS)
    pd.testing.assert_frame_equal(frame.drop(columns="seconds"), again.drop(columns="seconds"))
    assert before == {name: experiments.module(name).PROFILES for name in experiments.names()}
