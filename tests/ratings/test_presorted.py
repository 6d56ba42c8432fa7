"""Ratings of which both orders are there: the same set as from columns, trained on and used alike."""

import numpy as np
import pytest

from gpumf import ALS
from gpumf.ratings import CompressedRows, DataError, DeviceRatings, Ratings, presort, presorted
from support import ragged_ratings

PLAIN = ragged_ratings(n_users=50, n_items=30, longest=25, seed=3)
ROW_LESS = Ratings([1, 3, 3], [2, 0, 2], [1.0, 2.0, 3.0], 6, 4)  # users and items without a rating, the last too


def there(rows, device):
    return CompressedRows(rows.indptr, device.array(rows.indices), device.array(rows.values))


def on(device, ratings):
    return presort(there(ratings.by_user, device), there(ratings.by_item, device), device=device, name="both")


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(presorted, "_PIECE", 7)


@pytest.mark.parametrize("ratings", [PLAIN, ROW_LESS], ids=["ragged", "empty rows"])
def test_it_is_the_set_of_its_ratings(ratings, launcher):
    given = on(launcher, ratings)
    assert isinstance(given, DeviceRatings) and given.n_users == ratings.n_users and given.nnz == ratings.nnz
    for rows in (given.on_host(), presort(ratings.by_user, ratings.by_item)):
        order = np.lexsort((ratings.items, ratings.users))
        for name in ("users", "items", "values"):
            found = getattr(rows, name)
            assert isinstance(found, np.ndarray) and np.array_equal(found, getattr(ratings, name)[order])
        assert np.array_equal(rows.user_counts, ratings.user_counts) and rows.users.dtype == np.int32
        assert np.array_equal(rows.item_counts, ratings.item_counts) and rows.mean == ratings.mean
    assert np.array_equal(launcher.to_numpy(given.users), ratings.users[order])


def test_no_order_and_no_column_is_made_to_train_and_recommend(launcher, tmp_path, monkeypatch):
    """Here, or in chunks from the host; the model is that of the ratings in columns."""
    given = on(launcher, PLAIN)
    host = given.on_host()
    options = {"solver": "tensor_core", "device": launcher.name}
    expected = ALS(8, **options).fit(PLAIN, 2)
    picks = expected.recommend(np.arange(5), k=3)[0]
    monkeypatch.setattr(Ratings, "_compress", None)
    monkeypatch.setattr(DeviceRatings, "_compress", None)
    for ratings, chunk in ((given, None), (host, 100)):
        model = ALS(8, chunk=chunk, **options).fit(ratings, 2)
        assert np.array_equal(model.recommend(np.arange(5), k=3)[0], picks)
        assert "users" not in vars(ratings)
        for one, other in zip(model._learned, expected._learned, strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)
        model.save(tmp_path / "model.npz")
        loaded = ALS.load(tmp_path / "model.npz", device=launcher.name)
        assert np.array_equal(loaded.predict([0, 1], [2, 3]), model.predict([0, 1], [2, 3]))


def test_a_choice_of_it_is_a_set_of_its_own(launcher):
    few = on(launcher, PLAIN).on_host().select(np.arange(20))
    assert few.nnz == 20 and few.user_counts.sum() == 20 and len(few.by_item.values) == 20


def test_orders_of_other_ratings_are_refused():
    with pytest.raises(DataError, match="both orders"):
        presort(PLAIN.by_user, ROW_LESS.by_item)
