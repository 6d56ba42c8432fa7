"""Ids that are large, long, floats or no text: exact in training, files and predictions, or refused by the row."""

import os

import numpy as np
import pandas as pd
import pytest

import gpumf
from gpumf import ALS
from gpumf._util.validation import brief
from gpumf.ratings import DataError, Ratings

VALUES = [1.0, 2.0, 3.0, 4.0]
LARGE = [2**63 + 1, 2**63 + 2, 2**64 - 1, 5]


def fitted(users, items=("x", "y", "x", "y")):
    return ALS(2, device="cpu").fit((users, list(items), VALUES), 1)


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_ids_beyond_63_bits_are_exact(suffix, tmp_path):
    for given in (LARGE, np.array(LARGE, np.uint64), pd.Series(LARGE), np.array(LARGE, object)):
        model = fitted(given)
        model.save(tmp_path / f"m.{suffix}")
        loaded = gpumf.load(tmp_path / f"m.{suffix}", "cpu")
        assert sorted(LARGE) == model.user_ids.tolist() == loaded.user_ids.tolist()
        wanted = model.predict(np.arange(4), 0, ids=False)
        assert np.array_equal(loaded.predict(sorted(LARGE), ["x"]), wanted), "5 beside 2**63 + 1 in a list"
        assert loaded.predict(2**64 - 1, "x") == wanted[3]
        for wrong in (2**63, -1, 10**400, "5", float(2**63), pd.NA):
            with pytest.raises(KeyError, match="no user of the training set"):
                loaded.predict(wrong, "x")
            with pytest.raises(KeyError, match="no user of the training set"):
                loaded.predict([5, wrong], "x")


@pytest.mark.parametrize("kind", [np.uint64, "UInt64", "uint64[pyarrow]"])
def test_frames_have_ids_of_64_bits_without_a_sign(kind):
    for users, wanted in ((LARGE, np.uint64), ([1, 2, 3, 2**63 - 1], np.int64)):
        frame = pd.DataFrame(
            {"user": pd.array(np.array(users, np.uint64), kind), "item": [1, 2, 1, 2], "rating": VALUES}
        )
        model = ALS(2, device="cpu").fit(frame, 1)
        assert model.user_ids.tolist() == sorted(users) and model.user_ids.dtype == wanted
        assert model.score(frame) and model.predict(max(users), 1) == model.predict([max(users)], [1])[0]


def test_one_long_id_takes_no_room_for_the_others(tmp_path):
    long = "l" * 2048
    users = [long, *(f"u{k}" for k in range(5000))]
    model = ALS(2, device="cpu").fit((users, [f"i{k % 9}" for k in range(5001)], np.arange(5001) % 5), 1)
    for suffix in ("npz", "safetensors"):
        path = tmp_path / f"m.{suffix}"
        model.save(path, seen=True)
        assert os.path.getsize(path) < 500_000
        assert long in gpumf.load(path, "cpu").user_ids.tolist()


@pytest.mark.parametrize("kind", [np.float64, np.float32, object, "Float64"])
def test_whole_floats_are_integers_everywhere(kind, tmp_path):
    frame = pd.DataFrame({"user": pd.Series([7.0, 9.0, 7.0, 11.0]).astype(kind), "item": [1, 1, 2, 2]})
    model = ALS(2, device="cpu").fit(frame.assign(rating=VALUES), 1)
    assert model.user_ids.tolist() == [7, 9, 11] and model.user_ids.dtype == np.int64
    model.save(tmp_path / "m.npz")
    for one in (model, gpumf.load(tmp_path / "m.npz", "cpu")):
        wanted = one.predict([7, 11], 1)
        for given in (
            [7.0, 11.0],
            np.array([7.0, 11.0]),
            pd.Series([7.0, 11.0]),
            np.array([7, 11.0], object),
            [7, 11.0],
        ):
            assert np.array_equal(one.predict(given, 1), wanted)
        assert np.array_equal(one.recommend(7.0, 1, seen=())[0], one.recommend(7, 1, seen=())[0])
        for wrong in (7.5, np.nan, np.inf, [7, 7.5], np.array([7.0, 7.5])):
            with pytest.raises(KeyError, match=r"has the id (7\.5|nan|inf);"):
                one.predict(wrong, 1)
    ids = Ratings([0, 1, 2, 0], [0, 1, 0, 1], VALUES, 3, 2, user_ids=np.array([7.0, 9, 11]))
    assert ALS(2, device="cpu").fit(ids, 1, ids=True).predict(9, 0).shape == ()


NO_IDS = {
    "an integer of many bits": ([1, 2, 10**400, 3], r"row 2: user id an integer of 1329 bits"),
    "an integer that Python makes no text of": ([1, 2, 3, 10**5000], r"row 3: user id an integer of 16610 bits"),
    "one beyond 64 bits": ([1, 2**64, 2, 3], r"row 1: user id 18446744073709551616 among others"),
    "one below and one beyond 63 bits": ([1, -1, 2**63, 3], "row 1: negative user id -1|row [12]: user id"),
    "a lone surrogate": (["a", "b\ud800", "c", "d"], r"row 1: user id 'b\\ud800' has no UTF-8"),
    "a lone surrogate in an array": (np.array(["a", "b", "c\udcff", "d"], object), r"row 2: .*has no UTF-8"),
    "a fraction": ([1.0, 2.0, 2.5, 3.0], r"row 2: user id 2.5 among others"),
    "a large float": ([1.0, 2.0, 1e300, 3.0], r"row 2: user id 1e\+300 among others"),
    "nan": ([1.0, np.nan, 2.0, 3.0], r"row 1: the user id is missing"),
    "a complex number": (np.array([1, 2, 3j, 4]), r"row \d: user id"),
    "truth": ([True, False, True, True], r"row \d: user id"),
    "a word among numbers": ([1, "two", 3, 4], r"row 0: user id 1 among others"),
}


@pytest.mark.parametrize("what", NO_IDS)
def test_what_is_no_id_is_refused_by_its_row(what):
    users, words = NO_IDS[what]
    with pytest.raises(DataError, match=words) as caught:
        Ratings.from_arrays(users, ["x", "y", "x", "y"], VALUES)
    assert len(str(caught.value)) < 300
    with pytest.raises(DataError, match=words):
        Ratings.from_pandas(
            pd.DataFrame({"user": pd.Series(users, dtype=object), "item": list("xyxy"), "rating": VALUES})
        )


@pytest.mark.parametrize("ids", [[1, 2, 3, 3], list("abca")])
def test_ids_that_come_twice_in_a_file_are_refused(ids, tmp_path):
    from gpumf.models.stored_ids import packed_ids

    fitted([1, 2, 3, 4] if ids[0] == 1 else list("abcd")).save(tmp_path / "m.npz")
    arrays = dict(np.load(tmp_path / "m.npz"))
    ids = np.array(ids) if ids[0] == 1 else np.array(ids, object)
    np.savez(tmp_path / "m.npz", **arrays | packed_ids("user_ids", ids))
    with pytest.raises(ValueError, match=r"damaged.*user_ids comes twice"):
        gpumf.load(tmp_path / "m.npz")


def test_a_text_is_cut_where_it_has_more_than_200_characters():
    assert brief("x" * 198) == repr("x" * 198)
    assert brief("x" * 199) == f"{repr('x' * 199)[:200]}.. (str)"


def test_no_message_has_all_of_a_long_id():
    long, model = "l" * 2048, fitted(["a", "b", "c", "d"])
    for use in (
        lambda: fitted([long] * 4, list("wxyz")),
        lambda: model.score(([long], ["x"], [1])),
        lambda: model.predict(long, "x"),
        lambda: fitted([1, 2, 3, 4]).partial_fit(([long], ["x"], [1])),
    ):
        with pytest.raises((DataError, KeyError), match=r"l{100}") as caught:
            use()
        assert len(str(caught.value)) < 600
