"""How many ratings users and items have."""

import pandas as pd

from gpumf_study.experiments.gpumf import rating_counts


def test_counts_are_summed_up_by_quantiles():
    counts = pd.DataFrame({"data": "a", "side": "users", "count": [1, 2, 9], "rank": [0.3, 0.6, 1.0]})
    assert rating_counts.summary(counts).loc[("a", "users")].to_list() == [1, 2, 9]
