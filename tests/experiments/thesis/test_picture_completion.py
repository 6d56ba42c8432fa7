"""A picture completed by ALS from a fifth of its pixels."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from gpumf import findings
from gpumf.experiments.thesis import picture_completion


@cache
def frame():
    smaller = {"reduction": 6, "factors": [8], "regularizations": [5.0, 500.0]}
    return picture_completion.run(**picture_completion.PROFILES["quick"] | smaller)


def test_a_row_is_a_pixel():
    pixels = frame()
    rows, columns = pixels.row.max() + 1, pixels.column.max() + 1
    assert list(pixels) == ["seed", "row", "column", "original", "known", "completed", "factors", "regularization"]
    assert len(pixels) == rows * columns == len(pixels[["row", "column"]].drop_duplicates())
    assert (pixels.row * columns + pixels.column == np.arange(len(pixels))).all()
    assert pixels.known.sum() == round(0.2 * len(pixels))
    assert pixels.completed.between(0, 255).all()
    assert (pixels.completed == pixels.original)[pixels.known].all()


def test_the_parameters_are_chosen_without_the_answer():
    # With 500 nothing is left of the picture; held-out pixels tell.
    assert set(frame().regularization) == {5.0}


def test_als_restores_more_than_means_do():
    decibels = picture_completion.summary(frame()).set_index("filling").psnr
    assert decibels["ALS"] > decibels["row and column means"] + 0.5 > decibels["mean"] + 0.5


def test_psnr_counts_decibels():
    a = np.array([0, 255, 100, 30])
    assert picture_completion.psnr(a, a) == float("inf")
    assert picture_completion.psnr(a, a + 255) == 0
    assert picture_completion.psnr(a, a + 25.5) == pytest.approx(20)


def test_a_row_without_known_pixels_is_filled_with_the_mean():
    pixels = pd.DataFrame(
        {
            "row": [0, 0, 1, 1],
            "column": [0, 1, 0, 1],
            "original": [10, 30, 99, 99],
            "known": [True, True, False, False],
            "completed": [10.0, 30.0, 50.0, 50.0],
        }
    )
    filled = picture_completion.fillings(pixels)
    assert filled["mean"].tolist() == [10, 30, 20, 20]
    assert filled["row and column means"].tolist() == [10, 30, 10, 30]
    assert filled["ALS"].tolist() == [10, 30, 50, 50]


def test_the_figure_shows_three_pictures_and_what_they_are_worth():
    figure = picture_completion.figure(frame())
    assert isinstance(figure, Figure) and len(figure.axes) == 3
    worth = picture_completion.summary(frame()).set_index("filling").psnr
    for axis, shown in zip(figure.axes[1:], ("mean", "ALS"), strict=True):
        assert f"PSNR {worth[shown]:.1f} dB" in axis.get_title()
    original = figure.axes[0].images[0].get_array()
    assert np.array_equal(original.ravel(), frame().original)


def test_questions_that_are_not_testable_say_what_is_missing():
    rows = {
        finding.id: findings.evaluate(finding, "picture_completion")
        for finding in picture_completion.FINDINGS
        if finding.rule.missing
    }
    assert set(rows) == {"thesis-document-clustering", "thesis-further-features"}
    assert all(row["word"] == "not testable" and "Missing: " in row["statement"] for row in rows.values())


def test_seeds_are_summed_up_one_by_one():
    worse = frame().assign(seed=1, completed=lambda pixels: 255 - pixels.completed)
    one, other, both = (
        picture_completion.summary(pixels).set_index("filling")
        for pixels in (frame(), worse, pd.concat([frame(), worse]))
    )
    apart = one.psnr["ALS"] - other.psnr["ALS"]
    assert apart > 1 and both.spread["ALS"] == pytest.approx(apart / 2) and both.spread["mean"] == 0
    assert both.psnr["ALS"] == pytest.approx((one.psnr["ALS"] + other.psnr["ALS"]) / 2)


def test_a_tenth_of_the_known_pixels_chooses(monkeypatch):
    parts, plain = [], picture_completion.Ratings.split

    def split(self, *arguments):
        parts.append((self, *plain(self, *arguments)))
        return parts[-1][1:]

    monkeypatch.setattr(picture_completion.Ratings, "split", split)
    original = np.random.default_rng(0).integers(0, 256, (20, 30)).astype(np.float32)
    picture_completion._completed(original, 0.2, 1, [2], [3.0], 1)
    ((pixels, train, held_out),) = parts
    assert (pixels.nnz, train.nnz, held_out.nnz) == (120, 108, 12) and abs(pixels.values.mean()) < 1e-4
