"""Rankings of implicit ALS."""

import pandas as pd
import pytest

from gpumf_study import figure_style as style
from gpumf_study import schema
from gpumf_study.experiments.cumf import implicit_quality
from outcomes import labelled, word


def ranks(half=0.3, exact=0.3, popular=0.2, apart=0.0):
    """Two data sets of three splits; on the second, all but popularity are better by 0.1."""
    rows = []
    for data, more in (("a", 0.0), ("b", 0.1)):
        for repeat in (0, 1, 2):
            rows.append((data, "popularity", None, repeat, 0, popular))
            for solver, last in (("tensor_core", half + apart * repeat), ("cumf_cholesky", exact)):
                rows += [(data, "ImplicitALS", solver, repeat, e, of + more) for e, of in ((1, 0.9), (2, last))]
    frame = pd.DataFrame(rows, columns=["data", "model", "solver", "repeat", "epoch", "value"])
    both = pd.concat([frame.assign(metric="ndcg"), frame.assign(metric="recall", value=0.5 * frame.value)])
    return schema.validated(both.assign(task="rank", seconds=1.0))


def test_rankings_are_drawn_a_metric_and_a_data_set_each(stored):
    result = stored(ranks())
    figure = style.save(implicit_quality.figure(result.frame), result)
    assert list(figure.axes[0].lines[2].get_ydata()) == [0.9, 0.3]
    assert list(figure.axes[1].lines[0].get_ydata()) == [0.1, 0.1] and labelled(figure)


def test_rankings_are_compared_after_the_last_epoch_on_the_worst_data_set():
    for half, apart, expected in (
        (0.3, 0.0, "replicated"),
        (0.15, 0.0, "not replicated"),
        (0.2, 0.1, "inconclusive"),
    ):
        assert word("implicit-lists-popularity", ranks(half=half - apart, apart=apart)) == expected
    assert word("implicit-lists-exact", ranks(half=0.298)) == "replicated"
    assert word("implicit-lists-exact", ranks(half=0.28)) == "not replicated"


@pytest.mark.slow
def test_the_most_popular_items_are_ranked_on_every_split():
    frame = schema.validated(implicit_quality.run(["ml-100k-synthetic"], 4, 1, 2, 5))
    popular = frame[(frame.model == "popularity") & (frame.metric == "ndcg")]
    assert list(popular.repeat) == [0, 1] and popular.value.nunique() == 2 and (popular.value > 0.05).all()
