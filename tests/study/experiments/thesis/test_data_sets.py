"""The twins beside the published sets."""

import numpy as np
import pandas as pd
import pytest

from gpumf_study.experiments.thesis import data_sets
from outcomes import lines


def test_twins_are_compared_with_what_is_published():
    published = dict.fromkeys(data_sets.COUNTS, 100.0) | {"user_max": np.nan}
    rows = [
        {"data": "a", "source": "published", "density": 0.1, **published},
        {"data": "a", "source": "twin", "density": 0.2, **published, "user_max": 7, "items": 90},
        {"data": "b", "source": "real", "density": 0.3, **published},
    ]
    frame = pd.DataFrame(rows)
    table = data_sets.summary(frame)
    assert list(table.index) == ["a"] and table.loc["a", "items"] == pytest.approx(-0.1)
    assert table.loc["a", "ratings"] == 0 and np.isnan(table.loc["a", "user_max"])
    drawn = lines(data_sets.figure(frame).axes[0])
    assert drawn["twin"] == ([100], [20]) and drawn["real"] == ([100], [30])
