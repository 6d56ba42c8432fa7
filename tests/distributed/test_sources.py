"""Where workers put their ratings, and what they all know of them."""

import numpy as np
import pandas as pd
import pytest

from gpumf import ALS, read_ratings
from gpumf.distributed import sources
from gpumf.ratings import DataError, DeviceRatings, Ratings


class Alone:
    """The communicator of a worker whose word is that of all, with one more who says `other`."""

    size = 1

    def __init__(self, other=True):
        self._other = other

    def all_gather_object(self, thing):
        return [thing, self._other] if isinstance(thing, bool) else [thing]

    def all_reduce(self, array):
        """One worker's sums are those of all."""


RATINGS = Ratings([2, 0, 1], [0, 1, 1], [4.0, 3.0, 5.0], 3, 2)


@pytest.mark.emulator
@pytest.mark.parametrize("other", [True, False])
def test_ratings_are_on_devices_where_all_have_room(host, other):
    model = ALS(2, solver="tensor_core", device="emulator")
    there = sources.placed(Alone(other), model, RATINGS)
    assert isinstance(there, DeviceRatings) == other and np.array_equal(there.values, RATINGS.values)
    assert not isinstance(sources.placed(Alone(), model, RATINGS.select(slice(0))), DeviceRatings), "CuPy counts none"


@pytest.mark.emulator
def test_what_is_known_is_the_same_of_ratings_on_a_device(host):
    ids = np.array(["a", "b", "c"]), np.arange(2)
    for ratings in (RATINGS, DeviceRatings.of(RATINGS, host)):
        facts = sources.facts_of(Alone(), ratings, ids, (1, 5))
        assert (facts.nnz, facts.mean) == (3, 4.0) and facts.user_ids[0] == "a"
        assert facts.user_counts.tolist() == [1, 1, 1] and facts.item_counts.tolist() == [1, 2]
        facts.user_counts[:] = 9
        assert ratings.user_counts.tolist() == [1, 1, 1], "others' are added to a copy"
        unknown = sources.facts_of(Alone(), ratings, ids, None)
        assert (facts.bounds, unknown.bounds, unknown.scale) == ((1, 5), ratings.bounds, None)


def test_what_is_read_lies_in_the_shape_and_on_the_scale():
    def frame(users=(0, 2)):
        return pd.DataFrame({"user": users, "item": [0, 1], "rating": [1.0, 5.0]})

    for users, named in (
        ([0, 3], "user 3 is not a position below the 3 of the shape"),
        ([-1, 2], "negative user id -1"),
    ):
        with pytest.raises(DataError, match=f"partition 0 of those of worker 7, row [01]: {named}"):
            sources.load([frame(users)], 7, (3, 2))
    with pytest.raises(DataError, match="off the scale 1 to 4"):
        sources.load([frame()], 0, None, (1, 4))
    ids, placed = sources.numbered(Alone(), sources.load([frame(), frame()[:0]], 0, (3, 2)), (3, 2))
    assert list(map(len, ids)) == [3, 2] and placed.users.tolist() == [0, 2] and placed.users.dtype == np.int32


def test_ids_beyond_64_bits_with_a_sign_are_told_apart():
    large = np.array([2**63 + 1, 2**63 + 2], np.uint64)
    frames = [
        pd.DataFrame({"user": users, "item": ["a", "b"], "rating": [1.0, 5.0]})
        for users in (np.array([2**53, 2**53 + 1]), large)
    ]
    ids, placed = sources.numbered(Alone(), sources.load(frames, 0), None)
    assert ids[0].tolist() == [2**53, 2**53 + 1, 2**63 + 1, 2**63 + 2] and placed.users.tolist() == [0, 1, 2, 3]
    placed = sources.of_known(sources.load(frames[::-1], 0), ids)
    assert placed.users.tolist() == [2, 3, 0, 1]
    text = frames[0].assign(user=["u", "v"])
    for parts in ([frames[0], text], [text, frames[1]]):
        with pytest.raises(DataError, match="user ids are integers in some parts and strings in others"):
            sources.numbered(Alone(), sources.load(parts, 0), None)


def test_blanks_around_ids_of_files_are_left_out_as_read_ratings_does(tmp_path):
    file = tmp_path / "all.parquet"
    frame = pd.DataFrame({"user": [" u0", "u0", "u1\t"], "item": ["b", " a", "a"], "rating": [1.0, 2.0, 3.0]})
    frame.to_parquet(file)
    ids, placed = sources.numbered(Alone(), sources.load([str(file)], 0), None)
    whole = read_ratings(file)
    for side, found in zip(("user", "item"), ids, strict=True):
        assert found.tolist() == getattr(whole, f"{side}_ids").tolist()
        assert np.array_equal(getattr(placed, f"{side}s"), getattr(whole, f"{side}s"))
    frame.assign(item=["b", "a", " "]).to_parquet(file)
    with pytest.raises(DataError, match=r"all.parquet \(read by worker 0\), row 2: the item id is missing"):
        sources.load([str(file)], 0)


def test_positions_follow_known_ids_and_only_ids_that_rate_have_to_be_known():
    given = Ratings(
        [2, 0], [0, 1], [4.0, 3.0], 3, 2, user_ids=np.array([5, 7, 9]), item_ids=np.array(["a", "b"], object)
    )
    known = np.array([1, 5, 9]), np.array(["a", "b"], object)
    placed = sources.of_known([given], known)
    assert placed.users.tolist() == [2, 1] and placed.items.tolist() == [0, 1]
    for ids, named in (((known[0][:2], known[1]), "user 9"), ((known[0], np.arange(2)), "item a")):
        with pytest.raises(DataError, match=f"{named} has no rating in the training set"):
            sources.of_known([given], ids)
