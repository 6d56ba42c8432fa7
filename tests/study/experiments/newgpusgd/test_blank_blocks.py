"""Blank blocks of two partitions."""

import pandas as pd
import pytest

from gpumf.ratings import Ratings
from gpumf_study.experiments.newgpusgd import blank_blocks
from outcomes import assert_drawn, word


def shares(rectangular, square=0.5):
    rows = [("a", 9, side, p, share, 0.5) for side in (16, 1024)
            for p, share in ((blank_blocks.RECTANGULAR, rectangular), (blank_blocks.SQUARE, square))]  # fmt: skip
    return pd.DataFrame(rows, columns=["data", "nnz", "side", "partition", "blank", "busy"])


def test_blocks_without_a_rating_are_counted(monkeypatch):
    # Two users by four items, full: two of the four square blocks are below the matrix.
    full = Ratings([0] * 4 + [1] * 4, [0, 1, 2, 3] * 2, [1.0] * 8, 2, 4)
    monkeypatch.setattr(blank_blocks, "load_ratings", lambda name: full)
    table = blank_blocks.summary(blank_blocks.run(["x"], [2]))
    assert table["blank"].iloc[0].to_dict() == {blank_blocks.RECTANGULAR: 0, blank_blocks.SQUARE: 0.5}
    assert table["busy"].iloc[0].to_dict() == {blank_blocks.RECTANGULAR: 1, blank_blocks.SQUARE: 0.5}


@pytest.mark.parametrize(
    ("share", "words"), [(0.0, ("reproduced", "reproduced")), (0.3, ("contradicted", "reproduced")),
                         (0.6, ("contradicted", "contradicted"))]
)  # fmt: skip
def test_words_follow_from_the_shares(share, words):
    names = "newgpusgd-no-blank-blocks", "newgpusgd-fewer-blank-blocks"
    assert tuple(word(name, shares(share)) for name in names) == words


def test_shares_are_drawn(store):
    result = store("blank_blocks", shares(0.2))
    assert_drawn(blank_blocks.figure(result.frame), result, 1)
