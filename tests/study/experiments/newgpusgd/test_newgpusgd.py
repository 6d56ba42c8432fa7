"""What is read off the experiments on NewGPUSGD."""

import numpy as np
import pandas as pd
import pytest

from gpumf.ratings import Ratings
from gpumf_study import schema
from gpumf_study.experiments.newgpusgd import (
    blank_blocks,
    block_times,
    example_block,
)


def test_blocks_without_a_rating_are_counted(monkeypatch):
    # Two users by four items, full: two of the four square blocks are below the matrix.
    full = Ratings([0] * 4 + [1] * 4, [0, 1, 2, 3] * 2, [1.0] * 8, 2, 4)
    monkeypatch.setattr(blank_blocks, "load_ratings", lambda name: full)
    frame = schema.validated(blank_blocks.run(["x"], [2]))
    table = blank_blocks.summary(frame)
    assert table["blank"].iloc[0].to_dict() == {blank_blocks.RECTANGULAR: 0, blank_blocks.SQUARE: 0.5}
    assert table["busy"].iloc[0].to_dict() == {blank_blocks.RECTANGULAR: 1, blank_blocks.SQUARE: 0.5}
    assert blank_blocks.saved(frame).saved.tolist() == [0.5]
    assert blank_blocks.balance(frame)[["gain", "few"]].to_numpy().tolist() == [[2, 1]]


def test_blocks_outside_the_matrix_have_no_user_or_no_item():
    frame = pd.DataFrame({"data": ["ml-100k", "ml-100k", "ml-10m-synthetic"], "x_side": [64, 1024, 1024]})
    assert blank_blocks.outside(frame).outside.tolist() == [0, 1 - 943 / 1024, 0]


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


def of_block_times(seconds, repeats=2):
    """Trainings of two epochs each, of so many seconds an epoch by factors, as `block_times` stores them."""
    labels = {"data": "x", "phase": "train", "device": "cuda", "x_side": 64, "x_precision": 32}
    rows = [
        labels | {"repeat": repeat, "factors": factors, "epoch": epoch, "seconds": epoch * taken}
        for repeat in range(repeats) for factors, taken in seconds.items() for epoch in range(3)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_a_straight_line_has_one_slope_whatever_it_starts_from():
    """By hand: 3 s and 0.5 s a factor; then in proportion; then 0.5 s a factor to 8 factors and 0.1 s beyond."""
    line, proportional = ({f: a + 0.5 * f for f in (2, 4, 8, 16)} for a in (3, 0))
    assert np.allclose(block_times.slopes(of_block_times(line)).slope_over, 1)
    assert np.allclose(block_times.slopes(of_block_times(proportional))[["slope_over", "exponent"]], 1)
    bent = block_times.slopes(of_block_times(line | {16: 7 + 0.8}))
    assert np.allclose(bent.slope_over, 0.2) and bent.repeat.tolist() == [0, 1]


def test_a_slope_varies_with_its_times():
    seconds, off = {2: 1.0, 4: 2.0, 8: 3.0, 16: 4.5}, 1e-6
    found = block_times.slopes(of_block_times(seconds)).iloc[0]
    moved = [
        block_times.slopes(of_block_times(seconds | {f: seconds[f] * (1 + off)})).slope_over[0] for f in (2, 8, 16)
    ]
    expected = sum((np.log(of / found.slope_over) / off) ** 2 for of in moved)
    assert found.x_elasticities == pytest.approx(expected, rel=1e-4)


def test_sides_with_fewer_numbers_of_factors_have_no_slope():
    frame = of_block_times({2: 1.0, 4: 2.0, 8: 3.0})
    few = frame[frame.factors < 8].assign(x_side=16)
    assert set(block_times.slopes(pd.concat([frame, few])).x_side) == {64}
