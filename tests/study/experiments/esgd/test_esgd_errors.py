"""Errors of ESGD."""

import numpy as np
import pandas as pd
import pytest

from gpumf_study.experiments.esgd import esgd_errors
from outcomes import assert_drawn, word

SHAPE = {"users": 943, "items": 1683, "nnz": 90000, "test_nnz": 10000}


def courses(least=0.9378, at=8, lie=0.0, diverged=False, **shape):
    """Two repeats in both orders, whose RMSE is least, and how much, after `at`; `lie` more as the ratings lie."""
    rows = []
    for order in esgd_errors.ORDERS:
        for repeat in (0, 1):
            for epoch in range(12):
                wild = diverged and order == "esgd"
                rmse = least + abs(epoch - at) / 100 + (lie if order == "esgd" else 0)
                rows.append({"data": "ml-100k", "order": order, "repeat": repeat, "epoch": epoch, "diverged": wild,
                             "rmse": np.nan if wild and epoch > 2 else rmse, **(SHAPE | shape)})  # fmt: skip
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("name", "made", "expected"),
    [
        ("esgd-table-1", {}, "reproduced"),
        ("esgd-table-1", {"items": 1500}, "contradicted"),
        ("esgd-table-2-ml-100k", {}, "reproduced"),
        ("esgd-table-2-ml-100k", {"least": 0.96}, "contradicted"),
        ("esgd-table-2-ml-100k", {"least": 0.91}, "contradicted"),
        ("esgd-table-2-ml-100k-iterations", {"at": 5}, "reproduced"),
        ("esgd-table-2-ml-100k-iterations", {"at": 3}, "same direction"),
        ("esgd-table-2-ml-100k-iterations", {"at": 0}, "contradicted"),
        ("esgd-table-2-ml-1m-synthetic", {}, "missing"),
        ("esgd-order", {}, "reproduced"),
        ("esgd-order", {"lie": 0.02}, "contradicted"),
        ("esgd-order", {"diverged": True}, "contradicted"),
    ],
)
def test_words_follow_from_the_courses(name, made, expected):
    assert word(name, courses(**made)) == expected


def test_what_the_twins_reach_counts_for_nothing():
    assert word("esgd-table-2-ml-1m-synthetic", courses().assign(data="ml-1m-synthetic")) == "by construction"


def test_where_the_published_order_diverges_the_other_one_is_judged():
    table = esgd_errors.summary(courses(diverged=True))
    assert np.isnan(table.least_rmse["ml-100k", "esgd"]) and table.iterations["ml-100k", "esgd, shuffled"] == 8
    assert word("esgd-table-2-ml-100k", courses(diverged=True)) == "reproduced"


def test_courses_are_drawn(store):
    result = store("esgd_errors", courses())
    assert_drawn(esgd_errors.figure(result.frame), result, 1)
    assert esgd_errors.rates("ml-10m-synthetic") == {"regularization": 0.05, "learning_rate": 0.05}
