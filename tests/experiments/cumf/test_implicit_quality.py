"""Rankings of implicit ALS."""

import pandas as pd

from gpumf import figure_style as style
from gpumf.experiments.cumf import implicit_quality
from outcomes import labelled


def test_rankings_are_drawn_a_metric_and_a_set_each(stored):
    metrics = ["precision", "recall", "map", "ndcg"]
    kernels = ["cumf_cholesky", "tensor_core"]
    rows = [(d, k, "cuda", 16, e, e, 0.1, 0.2, 0.3, 0.4) for d in ("a", "b") for k in kernels for e in (1, 2)]
    result = stored(rows, ["data", "kernel", "device", "factors", "epoch", "seconds", *metrics])
    figure = style.save(implicit_quality.figure(result.frame), result)
    assert [list(axis.lines[1].get_ydata()) for axis in figure.axes] == [[0.4, 0.4], [0.2, 0.2]] * 2
    assert labelled(figure)


def test_rankings_are_those_of_the_last_epoch():
    ranks = pd.DataFrame(
        [("a", "k", e, e, e, e, e) for e in (1, 2)],
        columns=["data", "kernel", "epoch", "precision", "recall", "map", "ndcg"],
    )
    assert implicit_quality.summary(ranks).loc[("a", "k")].to_list() == [2] * 4
