import numpy as np
import pytest

from gpumf.ratings import Ratings, describe, published_shapes


def test_describe():
    tiny = Ratings([0, 0, 2], [0, 1, 1], [1, 2, 5], 3, 2, scale=(1, 5), name="tiny")
    table = describe(tiny, tiny.select([0, 1], name="part"))
    assert table.index.tolist() == ["tiny", "part"]
    assert table.loc["tiny"].to_dict() == pytest.approx(
        dict(zip(table.columns, [3, 2, 3, 0.5, 0, 1, 2, 1, 1.5, 2, 1, 5, 8 / 3], strict=True))
    )


def test_published_statistics_are_the_theses():
    table = published_shapes()
    assert table.columns.tolist() == describe().columns.tolist()
    douban, jester = table.loc["douban"], table.loc["jester"]
    for row, known in ((douban, (129.98, 287.51, 0.22)), (jester, (56.34, 41363.6, 56.34))):
        assert (round(row.user_mean, 2), round(row.item_mean, 2), round(100 * row.density, 2)) == known
    assert np.isnan(table.loc["hugewiki", "user_min"])


def test_those_without_a_rating_count_too_wherever_they_are_numbered():
    for users, items in (([0, 0, 1], [0, 1, 1]), ([1, 1, 2], [1, 2, 2])):
        row = describe(Ratings(users, items, [1, 2, 5], 3, 3, name="few")).loc["few"]
        for side in ("user", "item"):
            assert row[[f"{side}_min", f"{side}_mean", f"{side}_max"]].to_list() == [0, 1, 2]
