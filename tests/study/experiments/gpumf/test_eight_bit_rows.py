"""Factors in eight bits as the kernel rounds them, and what they cost."""

import numpy as np
import pandas as pd
import pytest

from gpumf import Ratings
from gpumf.solvers.half_rows import HalfRows
from gpumf_study.experiments.gpumf import eight_bit_rows

FACTORS = 81


def test_factors_are_rounded_as_by_the_kernel(host):
    factors = np.random.default_rng(0).normal(size=(300, FACTORS)).astype(np.float32)
    rows = HalfRows(host, FACTORS, len(factors), rows_of_bytes=len(factors))
    rows.round_to_bytes(host.array(factors), host.array(np.float32([1e-6])))
    stored, unit = host.to_numpy(rows.bytes), host.to_numpy(rows.unit)[0, 0]
    byte = np.arange(stored.shape[1])
    column = byte // 16 * 16 + byte % 2 * 8 + byte % 16 // 2  # see half_rows.cuh
    kept = column < FACTORS
    expected = stored[:, kept][:, np.argsort(column[kept])] * unit
    assert eight_bit_rows.in_bytes(factors) == pytest.approx(expected, rel=1e-6)
    assert abs(expected).max() == pytest.approx(abs(factors).max())


def test_nothing_rounds_to_nothing():
    assert not eight_bit_rows.in_bytes(np.zeros((2, 3), np.float32)).any()


@pytest.mark.parametrize(
    ("options", "chosen"), [({}, True), ({"biases": True}, False), ({"regularization": 1e-2}, False)]
)
def test_bytes_are_taken_where_the_library_takes_them(options, chosen):
    rng = np.random.default_rng(1)
    pairs = rng.permutation(200 * 60)[:10_000]
    ratings = Ratings(pairs // 60, pairs % 60, rng.integers(1, 6, 10_000), n_users=200, n_items=60)
    exact, rounded = (
        model(FACTORS, solver="parallel_cg", device="cpu", **options).fit(ratings, 2).item_factors
        for model in eight_bit_rows.VARIANTS.values()
    )
    assert not np.array_equal(exact, rounded)
    assert eight_bit_rows._InBytes.chosen is chosen


def test_changes_are_those_of_means_from_fp32():
    rows = [("ml-100k", share, "default", variant, repeat, 0.9 + repeat / 10 + change, change > 0)
            for share, rounded in ((1, -0.002), (0.5, 0.001))
            for variant, change in zip(eight_bit_rows.VARIANTS, (0, rounded), strict=True)
            for repeat in (0, 1)]  # fmt: skip
    columns = ["data", "x_share", "x_setting", "variant", "repeat", "value", "x_chosen"]
    table = eight_bit_rows.changes(pd.DataFrame(rows, columns=columns)).set_index("x_share")
    assert dict(table.change) == pytest.approx({1: -0.002, 0.5: 0.001})
    assert dict(table["size"]) == pytest.approx({1: 0.002, 0.5: 0.001})
    assert dict(table.chosen) == {1: False, 0.5: True}
