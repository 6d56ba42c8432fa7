"""Synthetic data sets and the published ones."""

import numpy as np
import pandas as pd
import pytest

from gpumf_study import schema
from gpumf_study.experiments.thesis import data_sets


def test_synthetic_data_sets_are_compared_with_what_is_published():
    published = dict.fromkeys(data_sets.COUNTS, 100.0) | {"user_max": np.nan}
    rows = [
        {"data": "a", "variant": "published", "density": 0.1, **published},
        {"data": "a", "variant": "synthetic", "density": 0.2, **published, "user_max": 7, "items": 90},
        {"data": "b", "variant": "real", "density": 0.3, **published},
    ]
    frame = pd.DataFrame(rows).assign(task="describe").melt(["data", "variant", "task"], var_name="metric")
    frame = schema.validated(frame.dropna(subset="value"))
    table = data_sets.summary(frame)
    assert list(table.index) == ["a"] and table.loc["a", "items"] == pytest.approx(-0.1)
    assert table.loc["a", "ratings"] == 0 and np.isnan(table.loc["a", "user_max"])
