"""Where workers put their ratings, and what they all know of them."""

import numpy as np
import pytest

from gpumf import ALS
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
        with pytest.raises(DataError, match="off the scale 1 to 4"):
            sources.facts_of(Alone(), ratings, ids, (1, 4))
        unknown = sources.facts_of(Alone(), ratings, ids, None)
        assert (facts.bounds, unknown.bounds, unknown.scale) == ((1, 5), ratings.bounds, None)


@pytest.mark.parametrize(("users", "named"), [([0, 3], 3), ([-1, 2], -1)])
def test_a_position_outside_the_shape_is_named(users, named):
    columns = np.array(users), np.array([0, 1]), np.ones(2, np.float32)
    with pytest.raises(DataError, match=f"user {named} is not a position below the 3 of the shape"):
        sources.numbered(Alone(), columns, (3, 2))
    ids, placed = sources.numbered(Alone(), (np.array([0, 2]), *columns[1:]), (3, 2))
    assert list(map(len, ids)) == [3, 2] and placed[0].dtype == np.int32
