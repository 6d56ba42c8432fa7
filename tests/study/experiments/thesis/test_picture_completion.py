"""Pictures completed by ALS from a fifth of their pixels."""

from functools import cache
from importlib import metadata
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from gpumf_study import schema
from gpumf_study.experiments.thesis import picture_completion

SMALLER = {"factors": [8], "regularizations": [5.0, 500.0], "epochs": 30}


@cache
def pixels():
    original = picture_completion.grey("grace_hopper.jpg", 85)
    return picture_completion.completed(original, 0.2, 0, **SMALLER)


def test_a_row_is_a_picture_a_seed_and_a_filling():
    small = picture_completion.PROFILES["smoke"] | {"repeats": 2}
    found = schema.validated(picture_completion.run(**small))
    assert len(found) == 10 and set(found.repeat) == {0, 1} and set(found.data) == {"grace_hopper.jpg"}
    shape = picture_completion.grey("grace_hopper.jpg", small["side"]).shape
    assert (found.x_rows == shape[0]).all() and (found.x_columns == shape[1]).all()
    assert (found.x_known == round(0.2 * shape[0] * shape[1])).all() and set(found.factors.dropna()) == {4}
    assert not np.isclose(*found.value[found.variant == "mean"]), "repeats choose other pixels"


def test_known_pixels_stay_and_the_others_are_grey_values():
    found, _ = pixels()
    rows, columns = found.row.max() + 1, found.column.max() + 1
    assert len(found) == rows * columns == len(found[["row", "column"]].drop_duplicates())
    assert (found.row * columns + found.column == np.arange(len(found))).all()
    assert found.known.sum() == round(0.2 * len(found)) and found.completed.between(0, 255).all()
    assert (found.completed == found.original)[found.known].all()


def test_the_parameters_are_chosen_without_the_answer():
    # With 500 nothing is left of the picture; held-out pixels tell.
    _, what = pixels()
    assert what["x_regularization"] == 5.0 and what["factors"] == 8 and what["solver"] and what["device"]


def test_als_restores_more_than_means_do():
    found, _ = pixels()
    worth = {
        name: picture_completion.psnr(found.original, f) for name, f in picture_completion.fillings(found).items()
    }
    assert worth["ALS"] > worth["row and column means"] + 0.5 > worth["mean"] + 0.5
    assert worth["linear interpolation"] > worth["nearest known pixel"] > worth["ALS"], "neighbors are alike"


def test_psnr_counts_decibels():
    a = np.array([0, 255, 100, 30])
    assert picture_completion.psnr(a, a) == float("inf")
    assert picture_completion.psnr(a, a + 255) == 0
    assert picture_completion.psnr(a, a + 25.5) == pytest.approx(20)


def test_a_row_without_known_pixels_is_filled_with_the_mean():
    four = pd.DataFrame(
        {"row": [0, 0, 1, 1], "column": [0, 1, 0, 1], "original": [10, 30, 99, 99],
         "known": [True, True, False, False], "completed": [10.0, 30.0, 50.0, 50.0]},
    )  # fmt: skip
    filled = picture_completion.fillings(four)
    assert filled["mean"].tolist() == [10, 30, 20, 20]
    assert filled["row and column means"].tolist() == [10, 30, 10, 30]
    assert filled["ALS"].tolist() == [10, 30, 50, 50]
    assert filled["nearest known pixel"].tolist() == filled["linear interpolation"].tolist() == [10, 30, 10, 30]


def test_three_pictures_are_shown_with_what_they_are_worth():
    found, _ = pixels()
    figure = picture_completion.pictures(found)
    for axis, name in zip(figure.axes[1:], ("mean", "ALS"), strict=True):
        worth = picture_completion.psnr(found.original, picture_completion.fillings(found)[name])
        assert f"PSNR {worth:.1f} dB" in axis.get_title()
    assert np.array_equal(figure.axes[0].images[0].get_array().ravel(), found.original)


def test_a_picture_of_a_package_is_read_in_grey_and_reduced_or_its_package_is_named(tmp_path, monkeypatch):
    (tmp_path / "skimage/data").mkdir(parents=True)
    Image.fromarray(np.full((40, 90, 3), 200, np.uint8)).save(tmp_path / "skimage/data/x.png")
    package = SimpleNamespace(locate_file=tmp_path.joinpath)
    monkeypatch.setattr(picture_completion.metadata, "distribution", lambda name: package)
    assert picture_completion.grey("x.png", 20).shape == (20, 45)
    whole = picture_completion.grey("x.png", 128)
    assert whole.shape == (40, 90) and set(whole.ravel()) == {200}

    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(picture_completion.metadata, "distribution", missing)
    with pytest.raises(FileNotFoundError, match="pip install scikit-image"):
        picture_completion.grey("x.png", 20)


def test_a_tenth_of_the_known_pixels_chooses(monkeypatch):
    parts, plain = [], picture_completion.Ratings.split

    def split(self, *arguments):
        parts.append((self, *plain(self, *arguments)))
        return parts[-1][1:]

    monkeypatch.setattr(picture_completion.Ratings, "split", split)
    original = np.random.default_rng(0).integers(0, 256, (20, 30)).astype(np.float32)
    picture_completion.completed(original, 0.2, 1, [2], [3.0], 1)
    ((known, train, held_out),) = parts
    assert (known.nnz, train.nnz, held_out.nnz) == (120, 108, 12) and abs(known.values.mean()) < 1e-4
