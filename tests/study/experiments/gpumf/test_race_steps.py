"""The outcomes of a race."""

import pandas as pd

from gpumf_study.experiments.gpumf import race_steps


def test_outcomes_are_counted_in_shares():
    outcomes = pd.DataFrame({"repeat": [0, 0, 1, 2, 3], "x_outcome": ["b", "b", "a", "b", "b"]})
    assert race_steps.summary(outcomes).to_dict() == {"a": 0.25, "b": 0.75}
