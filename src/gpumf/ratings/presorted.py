"""Ratings that come in both orders: none is made again, and no column is stored twice."""

from typing import Any

import numpy as np

from gpumf._util.forks import cached_property
from gpumf.ratings.checks import DataError
from gpumf.ratings.csr import CompressedRows
from gpumf.ratings.device import DeviceRatings
from gpumf.ratings.ratings import Ratings

_PIECE = 1 << 26
"""Ratings whose users are told at a time: positions of 64 bits are made of them on the way."""


class _Ordered:
    """By user, then item."""

    @cached_property
    def users(self):
        ends, found = self.xp.asarray(self.by_user.indptr[1:]), self.xp.empty(self.nnz, np.int32)
        for begin in range(0, self.nnz, _PIECE):
            end = min(begin + _PIECE, self.nnz)
            found[begin:end] = self.xp.searchsorted(ends, self.xp.arange(begin, end), side="right")
        return found

    def _changed(self, values_of, order_of):
        return presort(order_of("by_user"), order_of("by_item"), device=self.device, **self._facts)

    @property
    def _facts(self):
        """What `presort` takes beside orders and device."""
        return {"scale": self.scale, "name": self.name, "sha256": self.sha256}


class _OnHost(_Ordered, Ratings):
    pass


class _OnDevice(_Ordered, DeviceRatings):
    def on_host(self):
        def copied(rows):
            return CompressedRows(rows.indptr, *map(self.device.to_numpy, (rows.indices, rows.values)))

        return presort(copied(self.by_user), copied(self.by_item), **self._facts)


def presort(
    by_user: CompressedRows,
    by_item: CompressedRows,
    *,
    device: Any = None,
    scale: tuple[float, float] | None = None,
    name: str = "ratings",
    sha256: str | None = None,
) -> Ratings:
    """`Ratings` of which both orders are there; with a device, `DeviceRatings`.

    Its items and values are those of `by_user`, without a copy; the users, 4 bytes a rating, are told when somebody
    asks for them, which training and recommending do not. What the orders hold is not checked.

    Parameters
    ----------
    by_user, by_item : CompressedRows of the same ratings, offsets on the host, the rest there or on the device
    device : of `gpumf.backends`, where they are on one
    scale, name, sha256 : as of `Ratings`

    Raises
    ------
    DataError : orders of other numbers of ratings

    >>> from gpumf.ratings import Ratings, presort
    >>> ratings = Ratings([1, 0, 1], [2, 0, 0], [5, 4, 3], n_users=2, n_items=3)
    >>> again = presort(ratings.by_user, ratings.by_item)
    >>> again.users, again.items
    (array([0, 1, 1], dtype=int32), array([0, 0, 2], dtype=int32))
    """
    if len({len(array) for rows in (by_user, by_item) for array in (rows.indices, rows.values)}) > 1:
        raise DataError(f"{name}: both orders must hold the same ratings")
    made: Any = object.__new__(_OnHost if device is None else _OnDevice)
    vars(made).update(
        items=by_user.indices,
        values=by_user.values,
        n_users=by_user.n_rows,
        n_items=by_item.n_rows,
        scale=scale,
        user_ids=np.arange(by_user.n_rows),
        item_ids=np.arange(by_item.n_rows),
        name=name,
        sha256=sha256,
        test_mask=None,
        device=device,
        by_user=by_user,
        by_item=by_item,
        user_counts=by_user.counts,
        item_counts=by_item.counts,
    )
    return made
