"""The example of eight units against fifteen."""

import numpy as np
import pandas as pd

from gpumf_study.experiments.newgpusgd import example_block
from outcomes import word


def test_the_phases_are_those_that_the_text_counts():
    for cells in example_block.blocks():
        assert len(cells) == 8 and {0, 5, 10, 15} <= set(cells)
        taken = example_block.turns("gpusgd", cells, 3)
        # Elements 1, 6 and 11 of the first phase at once, then 16; a turn for each of the other phases.
        first = taken[np.isin(cells, [0, 5, 10, 15])]
        assert sorted(first) == [0, 0, 0, 1] and sorted(set(taken)) == [0, 1, 2, 3, 4]
        assert sorted(example_block.turns("newgpusgd", cells, 3)) == list(range(8))
    assert len(example_block.blocks()) == 288


def test_units_are_counted_with_and_without_the_product_and_drawn():
    frame = example_block.run([3])
    table = example_block.summary(frame)
    assert table.loc[(3, example_block.PUBLISHED, "gpusgd")].tolist() == [15, 15]
    assert table.loc[(3, example_block.WITH_SUMS, "newgpusgd")].tolist() == [32, 32]
    figure = example_block.figure(frame)
    assert len(figure.axes) == 4 and all("8 units" in axis.get_xlabel() for axis in figure.axes[::2])


def test_words_follow_from_the_units():
    def frame(old, new):
        rows = [(3, 0, s, c, 1, u) for c in (example_block.PUBLISHED, example_block.WITH_SUMS)
                for s, u in (("gpusgd", old), ("newgpusgd", new))]  # fmt: skip
        return pd.DataFrame(rows, columns=["factors", "layout", "solver", "count", "turns", "units"])

    assert word("newgpusgd-fig-8", frame(15, 8)) == "reproduced"
    assert word("newgpusgd-fig-8", frame(9, 8)) == "same direction"
    assert word("newgpusgd-fig-8", frame(7, 8)) == "contradicted"
    assert word("newgpusgd-fig-8-sums", frame(7, 8)) == "contradicted"
    assert word("newgpusgd-fig-8-sums", frame(9, 8)) == "reproduced"
