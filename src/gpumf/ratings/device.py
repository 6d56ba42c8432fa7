"""Ratings on a device: put there once, as they are, and every order of them made there."""

from collections.abc import Collection
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np

from gpumf._util.counter_rng import splitmix64
from gpumf._util.forks import cached_property
from gpumf._util.sorting import stable_order
from gpumf.ratings.checks import DataError
from gpumf.ratings.csr import CompressedRows, row_offsets
from gpumf.ratings.damped import mean_of
from gpumf.ratings.ratings import Ratings

SOURCE, ORDER = "ratings/ratings.cu", "ratings/order.cu"  # of its kernels
_BLOCK, _MAX_BLOCKS = 256, 1024  # CUDA threads, and blocks of them that add up values
_KEY_BITS = 63
_COLUMNS = {"users": np.int32, "items": np.int32, "values": np.float32}

_BYTES_A_RATING = 48
"""Of the device's memory that have to be free for each: it, both its orders, and what an order is made with."""


@dataclass(frozen=True, eq=False, repr=False)
class DeviceRatings(Ratings):
    """`Ratings` whose columns are arrays on a device: what a model takes that is trained there.

    `by_user` and `by_item` have their offsets on the host, `indices` and `values` on the device; counts are on the
    host. All is the same, bit for bit, as of the same ratings on the host.

    users, items : int32 (nnz,) on the device, positions in 0..n_users-1 and 0..n_items-1
    values : float32 (nnz,) on the device
    device : of `gpumf.backends`

    The other fields are those of `Ratings`; of a `test_mask` and of times it knows nothing.

    Raises
    ------
    TypeError : columns of other types
    DataError : columns of unequal lengths, positions outside, dimensions that do not fit

    >>> from gpumf import backends
    >>> from gpumf.ratings import DeviceRatings, Ratings
    >>> ratings = Ratings([0, 1, 1], [0, 0, 2], [4, 3, 5], n_users=2, n_items=3)
    >>> there = DeviceRatings.of(ratings, backends.device("emulator"))
    >>> there.nnz, there.by_user.indptr, there.xp.flatnonzero(there.values > 3).tolist()
    (3, array([0, 1, 3]), [0, 2])
    >>> there.on_host().users, DeviceRatings.where_they_fit(there, there.device) is there
    (array([0, 1, 1], dtype=int32), True)
    """

    device: Any = None

    def __post_init__(self):
        if self.test_mask is not None:
            raise DataError(f"{self.name}: test_mask belongs to Ratings on the host; split them before")
        for name, dtype in _COLUMNS.items():
            column = getattr(self, name)
            if not isinstance(column, self.xp.ndarray) or column.dtype != dtype or column.ndim != 1:
                raise TypeError(f"{self.name}: {name} must be {dtype.__name__} (nnz,) on the device")
            object.__setattr__(self, name, self.xp.ascontiguousarray(column))
        if len({len(getattr(self, name)) for name in _COLUMNS}) > 1:
            raise DataError(f"{self.name}: the columns must be as long as each other")
        for side in ("user", "item"):
            positions, count = getattr(self, f"{side}s"), getattr(self, f"n_{side}s")
            if not 0 < count < 2**31:
                raise DataError(f"{self.name}: n_{side}s must be from 1 to {2**31 - 1}, not {count!r}")
            if self._outside(positions, count):
                raise DataError(f"{self.name}: {side}s must lie in 0..{count - 1}")
            if getattr(self, f"{side}_ids") is None:
                object.__setattr__(self, f"{side}_ids", np.arange(count))

    @classmethod
    def of(cls, ratings: Ratings, device: Any) -> Self:
        """A copy of `Ratings` on a device.

        Raises
        ------
        gpumf.backends.DeviceError : the device has not the memory
        """
        return cls._with_orders(ratings, device, ())

    @classmethod
    def _with_orders(cls, ratings: Ratings, device: Any, orders: Collection[str]) -> Self:
        """As `of`; what 'by_user' and 'by_item' are asked for, if named, is sorted while the values are copied."""
        given = {field.name: getattr(ratings, field.name) for field in fields(Ratings)}
        given |= {"test_mask": None, "times": None}
        with device.sending([given[name] for name in _COLUMNS]) as (columns, there):
            there(2)  # users and items
            made = cls(**given | dict(zip(_COLUMNS, columns, strict=True)), device=device)
            if orders:
                vars(made)["_begun"] = made._begin(orders)
        return made

    @classmethod
    def where_they_fit(cls, ratings: Ratings, device: Any) -> Ratings:
        """The ratings on a device, or on the host where they and their orders do not fit the device's free memory."""
        return cls._where_they_fit(ratings, device, ())

    @classmethod
    def _where_they_fit(cls, ratings: Ratings, device: Any, orders: Collection[str]) -> Ratings:
        """As `where_they_fit`, with orders as of `_with_orders`."""
        if ratings.device is device:
            return ratings
        ratings = ratings.on_host()
        if _BYTES_A_RATING * ratings.nnz > device.free_bytes():
            return ratings
        return cls._with_orders(ratings, device, orders) if orders else cls.of(ratings, device)

    def on_host(self) -> Ratings:
        """The same as `Ratings` on the host."""
        given = {field.name: getattr(self, field.name) for field in fields(Ratings)}
        return Ratings(**given | {name: self.device.to_numpy(given[name]) for name in _COLUMNS})

    @property
    def xp(self) -> Any:
        """What works on the columns, as NumPy does on the host."""
        return self.device.xp

    def _counted(self, name, n):
        return self._count(getattr(self, name), n)

    @cached_property
    def mean(self) -> float:
        return mean_of(self.values, self.device)

    def _range(self):
        blocks = max(min(-(-self.nnz // _BLOCK), _MAX_BLOCKS), 1)
        found = self.device.empty((2, blocks), np.float32)
        self.device.kernel(SOURCE, "range_of_values")(blocks, _BLOCK, self.values, self.nnz, found)
        lowest, highest = self.device.to_numpy(found)
        return float(lowest.min()), float(highest.max())

    def _launch(self, name, n, *arguments):
        """Launch a kernel with a thread for each of n."""
        self.device.kernel(SOURCE, name)(max(-(-n // _BLOCK), 1), _BLOCK, *arguments)

    def _outside(self, positions, n):
        found = self.device.zeros(1, np.int32)
        self._launch("count_outside", len(positions), positions, len(positions), n, found)
        return self.device.to_numpy(found)[0] > 0

    def _check_columns(self, *names):
        for side in {"users", "items"} & vars(self).keys():
            if self._outside(getattr(self, side), n := getattr(self, f"n_{side}")):
                raise DataError(f"{self.name}: {side} must lie in 0..{n - 1}; the Ratings were changed")

    def _count(self, keys, n):
        counts = self.device.zeros(n, np.int64)
        self._launch("count_keys", len(keys), keys, len(keys), counts)
        return self.device.to_numpy(counts)

    def _compress(self, rows, columns, counts, n_columns):
        n, begun = self.nnz, vars(self).get("_begun", {})
        side = "by_user" if rows is self.users else "by_item"
        order, positions = begun.pop(side, None) or self._sorted(side)
        if order is None:
            return CompressedRows(row_offsets(counts), columns, self.values)
        indices, values = self.device.empty(n, np.int32), self.device.empty(n, np.float32)
        self._launch("take_in_order", n, order, n, positions, columns, self.values, indices, values)
        return CompressedRows(row_offsets(counts), indices, values)

    def _begin(self, orders):
        """What `_sorted` gives for these orders, by their names; only the positions have to be there."""
        _ = self.user_counts, self.item_counts  # these wait for the device, where no sort is under way yet
        return {side: self._sorted(side) for side in orders}

    def _sorted(self, side):
        """(order, positions) of `take_in_order`; order is None where the ratings are in order as they are."""
        if self._in_order_already[side]:
            return None, None
        rows, columns, n_rows, n_columns = self.users, self.items, self.n_users, self.n_items
        if side == "by_item":
            rows, columns, n_rows, n_columns = columns, rows, n_columns, n_rows
        n = self.nnz
        bits = max(n - 1, 0).bit_length()
        if (n_rows * n_columns - 1).bit_length() + bits > _KEY_BITS:
            bits = 0  # the cells alone
        order = self.device.empty(n, np.int64)
        self._launch("pack_cells", n, rows, columns, n, n_columns, bits, order)
        if bits:
            order.sort()
        else:
            order = order.argsort(kind="stable")
        return order, (1 << bits) - 1 if bits else -1

    @cached_property
    def _in_order_already(self):
        """Of 'by_user' and 'by_item', whether the ratings come in that order."""
        n, found = self.nnz, self.device.zeros(2, np.int32)
        blocks = max(min(-(-n // _BLOCK), _MAX_BLOCKS), 1)
        self.device.kernel(SOURCE, "find_descents")(blocks, _BLOCK, self.users, self.items, n, found)
        return dict(zip(("by_user", "by_item"), self.device.to_numpy(found) == 0, strict=True))

    def order(self, keys: Any, n: int) -> Any:
        bits = max(len(keys) - 1, 0).bit_length()
        if keys.dtype != np.int32 or max(n - 1, 0).bit_length() + bits > _KEY_BITS:
            return stable_order(keys, n, self.xp)
        order = self.device.empty(len(keys), np.int64)
        self._launch("pack_cells", len(keys), keys, keys, len(keys), 0, bits, order)
        order.sort()
        self._launch("keep_positions", len(keys), order, len(keys), (1 << bits) - 1)
        return order

    def sorted_by(self, keys: Any, n: int) -> tuple[Any, np.ndarray]:
        return self.order(keys, n), row_offsets(self._count(keys.astype(np.int32, copy=False), n))

    def in_order(self, order: Any) -> tuple[Any, Any, Any]:
        columns = self.users, self.items, self.values
        ordered = [self.device.empty(len(order), dtype) for dtype in _COLUMNS.values()]
        self._launch("take_ratings", len(order), order, len(order), *columns, *ordered)
        return tuple(ordered)

    def take(self, table: Any, places: Any) -> Any:
        found = self.device.empty(len(places), table.dtype)
        name = "take" if table.dtype == np.int32 else "take_positions"
        self._launch(name, len(places), table, places, len(places), found)
        return found

    def _less(self, values, offset):
        left = self.device.empty(len(values), np.float32)
        self._launch("subtract", len(values), values, len(values), offset, left)
        return left

    def preferences(self) -> Self:
        values = self.device.empty(self.nnz, np.float32)
        self._launch("above_zero", self.nnz, self.values, self.nnz, values)
        return replace(self, values=values)

    def random_order(self, n: int, seed: int) -> Any:
        hashes, key, grid = self.device.empty(n, np.uint64), splitmix64(np.uint64(seed)), -(-n // _BLOCK)
        self.device.kernel(ORDER, "hash_positions")(grid, _BLOCK, hashes, np.int64(n), key)
        hashes.sort()
        self.device.kernel(ORDER, "positions_of_hashes")(grid, _BLOCK, hashes, np.int64(n), key)
        return hashes.view(np.int64)

    def select(self, chosen: Any, name: str | None = None) -> Self:
        return super().select(self.xp.asarray(chosen), name)
