"""Rankings of implicit ALS."""

import pytest

from gpumf_study import schema
from gpumf_study.experiments.cumf import implicit_quality


@pytest.mark.slow
def test_the_most_popular_items_are_ranked_on_every_split():
    frame = schema.validated(implicit_quality.run(["ml-100k-synthetic"], 4, 1, 2, 5))
    popular = frame[(frame.model == "popularity") & (frame.metric == "ndcg")]
    assert list(popular.repeat) == [0, 1] and popular.value.nunique() == 2 and (popular.value > 0.05).all()
