"""RMSE of NewGPUSGD with few and with many blocks."""

import pandas as pd
import pytest

from gpumf_study.experiments.newgpusgd import block_errors
from outcomes import assert_drawn, word


def curves(gap, at=1):
    """Two repeats on two sets; the curve of many blocks is apart by `gap` after one epoch, on one of the sets."""
    rows = [
        (
            data,
            side,
            repeat,
            epoch,
            1 / (1 + epoch) + repeat / 100 + (gap if (data, side, epoch) == ("b", 8, at) else 0),
        )
        for data in ("a", "b")
        for side in (2, 8)
        for repeat in (0, 1)
        for epoch in range(4)
    ]
    return pd.DataFrame(rows, columns=["data", "side", "repeat", "epoch", "rmse"])


@pytest.mark.parametrize(("gap", "expected"), [(0.0, "reproduced"), (0.009, "reproduced"), (-0.02, "contradicted")])
def test_the_largest_distance_of_the_curves_is_judged(gap, expected):
    assert word("newgpusgd-fig-9", curves(gap)) == expected


def test_curves_are_summed_up_and_drawn(store):
    table = block_errors.summary(curves(0.5)).set_index(["data", "side"])
    assert table.gap.to_dict() == {("a", 2): 0, ("a", 8): 0, ("b", 2): 0, ("b", 8): pytest.approx(0.5)}
    result = store("block_errors", curves(0.1))
    assert_drawn(block_errors.figure(result.frame), result, 2)
