"""Rankings of implicit ALS."""

import pandas as pd
import pytest

from gpumf_study import figure_style as style
from gpumf_study.experiments.cumf import implicit_quality
from outcomes import labelled, promise_words


def test_rankings_are_drawn_a_metric_and_a_set_each(stored):
    metrics = ["precision", "recall", "map", "ndcg"]
    kernels = ["cumf_cholesky", "tensor_core"]
    rows = [
        (d, k, "cuda", 16, seed, e, e, 0.1, 0.1 + 0.1 * seed, 0.3, 0.4)
        for d in ("a", "b") for k in kernels for e in (1, 2) for seed in (0, 1, 2)
    ]  # fmt: skip
    rows += [(d, "popularity", "cpu", 1, 0, 0, None, 0.1, 0.1, 0.1, 0.1) for d in ("a", "b")]
    result = stored(rows, ["data", "kernel", "device", "factors", "seed", "epoch", "seconds", *metrics])
    figure = style.save(implicit_quality.figure(result.frame), result)
    assert [list(axis.lines[1].get_ydata()) for axis in figure.axes] == [[0.4, 0.4], [0.2, 0.2]] * 2
    assert labelled(figure)


COLUMNS = ["data", "kernel", "seed", "epoch", "precision", "recall", "map", "ndcg"]


def ranks(half=0.3, exact=0.3, popular=0.2, apart=0.0):
    """Two sets of three seeds, the second of which is the better by 0.1 for all but the most popular items."""
    rows = []
    for d, more in (("a", 0.0), ("b", 0.1)):
        for seed in (0, 1, 2):
            rows.append((d, "popularity", seed, 0, 0, 0, 0, popular))
            for kernel, last in (("tensor_core", half + apart * seed), ("cumf_cholesky", exact)):
                rows += [(d, kernel, seed, e, e, e, e, ndcg + more) for e, ndcg in ((1, 0.9), (2, last))]
    return rows


def test_rankings_are_those_of_the_last_epoch_and_means_of_the_seeds():
    table = implicit_quality.summary(pd.DataFrame(ranks(apart=0.1), columns=COLUMNS))
    assert table.loc[("a", "tensor_core")].to_list() == pytest.approx([2, 2, 2, 0.4])
    assert table.ndcg["b", "popularity"] == pytest.approx(0.2)


def test_lists_are_held_to_the_most_popular_items_and_to_exact_ones_on_the_worst_set():
    for half, apart, expected in ((0.3, 0.0, "reproduced"), (0.15, 0.0, "contradicted"), (0.2, 0.1, "tie")):
        made = ranks(half=half - apart, apart=apart)
        assert promise_words("implicit-lists-popularity", COLUMNS, made) == expected
    assert promise_words("implicit-lists-exact", COLUMNS, ranks(half=0.298)) == "reproduced"
    assert promise_words("implicit-lists-exact", COLUMNS, ranks(half=0.28)) == "contradicted"
    without = [row for row in ranks() if row[1] != "popularity"]
    assert promise_words("implicit-lists-popularity", COLUMNS, without) == "missing"


@pytest.mark.slow
def test_the_most_popular_items_are_ranked_on_every_split():
    frame = implicit_quality.run(["ml-100k-synthetic"], 4, 1, 2, 5)
    popular = frame[frame.kernel == "popularity"]
    assert list(popular.seed) == [0, 1] and popular.ndcg.nunique() == 2 and (popular.ndcg > 0.05).all()
