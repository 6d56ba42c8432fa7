"""What is read off the experiments on NewGPUSGD."""

import numpy as np
import pandas as pd
import pytest

from gpumf.ratings import Ratings
from gpumf_study import schema
from gpumf_study.experiments.newgpusgd import (
    blank_blocks,
    block_errors,
    block_times,
    example_block,
    gpusgd_comparison,
)


def timed(seconds, **labels):
    """A training of two epochs that take so many seconds each, without metrics."""
    return pd.DataFrame({"epoch": [0, 1, 2], "phase": "train", "seconds": seconds * np.arange(3)} | labels)


def test_blocks_without_a_rating_are_counted(monkeypatch):
    # Two users by four items, full: two of the four square blocks are below the matrix.
    full = Ratings([0] * 4 + [1] * 4, [0, 1, 2, 3] * 2, [1.0] * 8, 2, 4)
    monkeypatch.setattr(blank_blocks, "load_ratings", lambda name: full)
    frame = schema.validated(blank_blocks.run(["x"], [2]))
    table = blank_blocks.summary(frame)
    assert table["blank"].iloc[0].to_dict() == {blank_blocks.RECTANGULAR: 0, blank_blocks.SQUARE: 0.5}
    assert table["busy"].iloc[0].to_dict() == {blank_blocks.RECTANGULAR: 1, blank_blocks.SQUARE: 0.5}
    assert blank_blocks.saved(frame).saved.tolist() == [0.5]


def test_the_phases_are_those_that_the_text_counts():
    for cells in example_block.blocks():
        assert len(cells) == 8 and {0, 5, 10, 15} <= set(cells)
        taken = example_block.turns("gpusgd", cells, 3)
        # Elements 1, 6 and 11 of the first phase at once, then 16; a turn for each of the other phases.
        first = taken[np.isin(cells, [0, 5, 10, 15])]
        assert sorted(first) == [0, 0, 0, 1] and sorted(set(taken)) == [0, 1, 2, 3, 4]
        assert sorted(example_block.turns("newgpusgd", cells, 3)) == list(range(8))
    assert len(example_block.blocks()) == 288
    table = example_block.summary(example_block.run([3]))
    assert table.loc[(3, example_block.PUBLISHED, "gpusgd")].tolist() == [15, 15]
    assert table.loc[(3, example_block.WITH_SUMS, "newgpusgd")].tolist() == [32, 32]


@pytest.mark.parametrize("gap", [0.25, -0.25])
def test_courses_are_as_far_apart_as_where_they_are_farthest(gap):
    """One epoch of the many blocks is off, on one of the data sets, twice as much in FP64."""
    rows = [
        (data, side, bits, repeat, epoch, 1 / (1 + epoch) + (gap * bits / 32 if off else 0))
        for data in ("a", "b")
        for side in (2, 8)
        for bits in (32, 64)
        for repeat in (0, 1)
        for epoch in range(3)
        for off in [(data, side, epoch) == ("b", 8, 1)]
    ]
    frame = pd.DataFrame(rows, columns=["data", "x_side", "x_precision", "repeat", "epoch", "value"])
    table = block_errors.gaps(frame.assign(metric="rmse"))
    assert set(table.data) == {"b"} and table.groupby("x_precision").gap.agg(list).to_dict() == {
        32: [0.25, 0.25],
        64: [0.5, 0.5],
    }


def test_steps_and_exponents_are_those_of_the_seconds():
    settings = {(side, f) for side in (16, 64, 1024) for f in (16, 32)} | {
        (s, f) for s in (64, 1024) for f in (64, 128)
    }
    lots = [
        timed(f**0.5 / side, data="x", x_side=side, x_precision=32, factors=f, repeat=repeat)
        for side, f in sorted(settings)
        for repeat in (0, 1)
    ]
    frame = schema.validated(pd.concat(lots))
    steps = block_times.steps(frame).query("factors == 16").groupby(["step", "which"]).seconds.median().unstack()
    assert (steps.before / steps.after).to_dict() == {"16 to 64": 4.0, "64 to 1024": 16.0}
    exponents = block_times.exponents(frame)
    assert set(exponents.x_side) == {64, 1024} and len(exponents) == 4
    np.testing.assert_allclose(exponents.exponent, 0.5)


def test_the_gain_of_factors_is_that_of_the_data_set_where_it_is_least():
    speed_ups = {("a", 16): 2.0, ("a", 256): 8.0, ("b", 16): 2.0, ("b", 256): 6.0}
    lots = [
        timed(seconds, data=data, x_side=1024, x_precision=32, factors=f, solver=solver, repeat=repeat)
        for (data, f), faster in speed_ups.items()
        for solver, seconds in (("gpusgd", faster), ("newgpusgd", 1.0))
        for repeat in (0, 1)
    ]
    found = gpusgd_comparison.gains(schema.validated(pd.concat(lots)))
    assert found.data.tolist() == ["b", "b"] and found.gain.tolist() == [3.0, 3.0]
