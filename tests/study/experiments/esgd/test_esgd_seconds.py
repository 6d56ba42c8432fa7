"""Seconds of an iteration of ESGD."""

import pandas as pd
import pytest

from gpumf_study.experiments.esgd import esgd_seconds
from outcomes import assert_drawn, word


def measured(large=114.5, streamed=1.0, finite=True):
    """Parts of 0.25, 0.5 and 0.25 s of ml-100k, `large` times as much of ml-10m; shuffled, twice."""
    rows = [
        (data, 9, order, "cuda", part, repeat, scale * s * (2 if order != "esgd" else 1), finite or order != "esgd")
        for data, scale in (("ml-100k", 1), ("ml-10m-synthetic", large))
        for order in esgd_seconds.ORDERS
        for part, s in (*zip(esgd_seconds.PARTS, (0.25, 0.5, 0.25), strict=True), ("streamed", streamed))
        for repeat in (0, 1)
    ]
    columns = ["data", "nnz", "order", "device", "part", "repeat", "seconds", "finite"]
    return pd.DataFrame(rows, columns=columns)


@pytest.mark.parametrize(
    ("large", "expected"), [(114.5, "reproduced"), (60, "reproduced"), (20, "same direction"), (0.5, "contradicted")]
)
def test_growth_is_held_against_the_published(large, expected):
    assert word("esgd-section-4-growth", measured(large)) == expected


def test_questions_are_answered_by_an_order_that_converges():
    rules = {finding.id: finding for finding in esgd_seconds.FINDINGS}
    assert rules["esgd-section-4-since"].value(measured(1.0))[0] == pytest.approx(2.29)
    assert rules["esgd-section-4-since"].value(measured(1.0, finite=False))[0] == pytest.approx(2.29 / 2)
    assert rules["esgd-transfers-hidden"].value(measured(1.0, streamed=0.5))[0] == pytest.approx(1.5)
    assert word("esgd-transfers-hidden", measured()) == "answered"


def test_parts_are_summed_up_and_drawn(store):
    table = esgd_seconds.summary(measured(1.0))
    assert table.iteration["ml-100k", "esgd"] == 1 and table.published["ml-100k", "esgd"] == 0.02
    result = store("esgd_seconds", measured())
    assert_drawn(esgd_seconds.figure(result.frame), result, 1)
