"""What is read off the experiments on NewGPUSGD."""

import numpy as np

from gpumf.ratings import Ratings
from gpumf_study import schema
from gpumf_study.experiments.newgpusgd import (
    blank_blocks,
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
