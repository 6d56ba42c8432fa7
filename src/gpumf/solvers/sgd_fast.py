"""Launches kernels/sgd/fast.cu."""

from itertools import chain, pairwise
from typing import ClassVar

import numpy as np

from gpumf import backends
from gpumf._util.counter_rng import splitmix64
from gpumf.ratings.device import ORDER
from gpumf.solvers.base import Version, whole_warps
from gpumf.solvers.chunks import Chunks
from gpumf.solvers.options import Option
from gpumf.solvers.sgd_base import ROWS, SHAPE, Descent, DescentKernel
from gpumf.solvers.sgd_partition import SOURCE as TILES
from gpumf.solvers.sgd_partition import tiled

_BLOCK = 256  # CUDA threads that convert rows

# Users for each group of lanes in flight: with fewer, two blocks often hold the same user's row, and lose a run.
_USERS_A_GROUP = 16
_GROUPS_AN_ITEM = 8  # at most, on average: with more, those of a block often write to the same item's row
_MIN_THREADS = 128  # of a block, before it is worth another multiprocessor
_PART_BYTES = 32 << 20  # of users' rows in a part: most of them stay in the L2 cache of a large GPU


class Fast(DescentKernel, Descent):
    """kernels/sgd/fast.cu: a block owns a tile of items in shared memory, users' rows are in registers for a run.

    Few users with many items change places with them: then a block owns a tile of users, and items' rows come by.
    """

    source, entry = "sgd/fast.cu", "fast"
    versions: ClassVar = {
        "": Version("fast", "black", "-"),
        "FP32": Version("fast, FP32", "black", "--", {"precision": 32}),
    }
    layout: ClassVar = ("tiled",)
    cases: ClassVar = (
        {"tiles": 3},
        {"tiles": 3, "precision": 32},
        {"tiles": 3, "locked": True},
        {"tiles": 3, "locked": True, "precision": 32},
        {"tiles": 3, "row_rates": True},
    )
    variants: ClassVar = DescentKernel.variants | {
        "STORED": ["half_bits", "float"],
        "LOCKED": range(2),
        "ROW_RATES": range(2),
        "BATCHED": range(2),
    }
    races: ClassVar = {"fast": {"user_factors"}}
    # resident : whose rows stay on the chip, 'items' or 'users'; by default the fewer ones, and items where `tiles`
    #     is given. Below, and in the kernel, they are called items, and the others users
    # tiles, parts : by default as many as the device, the memory of a multiprocessor and the number of users ask for
    # longest : ratings of a segment, which a group takes at a time
    # precision : bits of a user's factor in memory, 16 or 32
    # reread : whether an item's row is read once more before it is written: fewer of its updates are lost
    # locked : whether an item's row is locked while it is written: none of its updates is lost
    # row_rates : whether each user and each item has a rate of its own, see `gpumf.solvers.sgd_ordered.row_rates`
    options: ClassVar = {
        "resident": Option(None, choices=("items", "users")),
        "tiles": Option(None),
        "parts": Option(None),
        "longest": Option(32),
        "precision": Option(16, choices=(16, 32)),
        "reread": Option(True, choices=(True, False)),
        "locked": Option(False, choices=(True, False)),
        "row_rates": Option(False, choices=(True, False)),
    }

    @classmethod
    def defines(cls, hyper):
        stored = {16: "half_bits", 32: "float"}[hyper.options["precision"]]
        whether = {name.upper(): int(hyper.options[name]) for name in ("locked", "row_rates")}
        return super().defines(hyper) | {"STORED": stored, "BATCHED": 0} | whether

    @classmethod
    def sources(cls, hyper, train):
        of_factors = (cls.source, cls.defines(hyper)), (SHAPE, {"FACTORS": hyper.columns})
        return [*of_factors, *((source, {}) for source in (ROWS, TILES, ORDER))]

    def __init__(self, problem):
        hyper, train, (user_factors, item_factors) = problem
        stored = {16: np.float16, 32: np.float32}[hyper.options["precision"]]
        self._turned, self._columns = self.turned(hyper, train), hyper.columns
        self._exchanged = int(self._turned and bool(hyper.bias_kind))
        self._device = device = backends.device(hyper.device)
        if self._turned:
            train = train.transposed()
        shape = self.geometry(hyper)
        super().__init__(
            hyper,
            device.empty((train.n_users, 4 * shape.quads), stored),
            device.empty((train.n_items, hyper.columns), np.float32),
        )
        self.set_factors(user_factors, item_factors)
        blocks, self._groups, n_tiles, most, n_parts = self.shape(hyper, train, self._device)
        key = n_tiles, most, n_parts, hyper.options["longest"], hyper.seed
        self._chunks, lists, longest = problem.ratings._once(
            ("tiled", self._turned, hyper.chunk, *key), lambda: self._work_lists(tiled(train, *key), hyper.chunk)
        )
        self._blocks = (blocks, 1)
        # Whole warps, as the groups of a warp go in step; those that are too many have nothing to do.
        self._block = whole_warps(self._groups * shape.quad_lanes)
        self._shared = _item_bytes(hyper, shape) * longest
        self._tiles = lists | {
            "n_tiles": n_tiles,
            "groups": self._groups,
            "reread": int(hyper.options["reread"]),
            "n_users": train.n_users,
            "n_items": train.n_items,
        }
        counts = (train.user_counts, train.item_counts) if hyper.options["row_rates"] else np.zeros((2, 1))
        self._tiles |= self._counts_there(counts)
        self._seed, self._layers, self._others = hyper.seed, {}, []
        self._defined = self.defines(hyper)

    @classmethod
    def system_bytes(cls, hyper, train):
        """Memory that each of several problems takes on the device, see `layered`."""
        rows = (train.n_items, train.n_users) if cls.turned(hyper, train) else (train.n_users, train.n_items)
        of_user = 4 * cls.geometry(hyper).quads * hyper.options["precision"] // 8
        return rows[0] * of_user + 4 * rows[1] * hyper.columns + 4 * hyper.options["row_rates"] * sum(rows)

    @staticmethod
    def turned(hyper, train):
        """Whether users and items change places for this training set."""
        resident, tiles = hyper.options["resident"], hyper.options["tiles"]
        if resident is None:
            return tiles is None and train.n_users < train.n_items
        return resident == "users"

    def _in_places(self, p, q):
        """Factors of users and items, or of items and users where these change places; and back."""
        return (q, p) if self._turned else (p, q)

    def _convert(self, pad, factors, rows):
        """Write factors to rows as the kernel has them, or the other way round, both on the device."""
        kind = "half" if rows.dtype == np.float16 else "float"
        kernel = self._device.kernel(ROWS, f"{'pad' if pad else 'unpad'}_{kind}")
        (n_rows, columns), width = factors.shape, rows.shape[1]
        given = {"n_rows": n_rows, "columns": columns, "width": width, "exchanged": self._exchanged}
        blocks = -(-(rows if pad else factors).size // _BLOCK)
        kernel(blocks, _BLOCK, factors=factors, rows=rows, **given)

    def set_steps(self, hyper):
        super().set_steps(hyper)
        if self._turned:
            self.regularization = self.regularization[[1, 0, 3, 2]]

    @staticmethod
    def in_flight(passing, resident):
        """How many groups of lanes may be at work without many lost updates, given the rows that pass and that stay.

        Their number is the speed on a small set, where an update takes as long as its instructions wait for each
        other: about a microsecond on an H100.
        """
        return max(min(passing // _USERS_A_GROUP, resident * _GROUPS_AN_ITEM), 1)

    @classmethod
    def shape(cls, hyper, train, device):
        """How the kernel is launched, for a model and a training set in which users and items have their places.

        Returns
        -------
        (blocks, groups of a block, tiles, most items of a tile, parts)

        Raises
        ------
        ValueError : more items than the tiles that were asked for have room for
        """
        shape, n_items, n_tiles = cls.geometry(hyper), train.n_items, hyper.options["tiles"]
        lanes = shape.quad_lanes
        max_groups = min(shape.fast_threads, device.facts["threads_per_multiprocessor"]) // lanes
        if hyper.threads:
            groups, least = -(-hyper.threads // lanes), max_groups
        else:
            groups, least = cls.in_flight(train.n_users, train.n_items), _MIN_THREADS // lanes
        blocks = min(device.facts["multiprocessors"], -(-groups // least), n_items, n_tiles or n_items)
        most = (device.facts["shared_bytes_per_multiprocessor"] - 1024) // _item_bytes(hyper, shape)
        if n_tiles is None:
            n_tiles = -(-n_items // (most * blocks)) * blocks  # as many for each block
        n_tiles = min(n_tiles, n_items)
        if n_tiles * most < n_items:
            raise ValueError(
                f"tiles of the solver 'fast' must be at least {-(-n_items // most)} for {n_items} rows of "
                f"{hyper.columns} factors in the shared memory of this device, not {n_tiles}"
            )
        row_bytes = shape.quads * hyper.options["precision"] // 2
        n_parts = hyper.options["parts"] or -(-train.n_users * row_bytes // _PART_BYTES)
        return blocks, min(max_groups, round(groups / blocks)), n_tiles, most, n_parts

    @staticmethod
    def rotation(number, seed):
        """Where in their parts the tiles begin in epoch `number`, in turns of 2^-32, and the key of its roundings."""
        with np.errstate(over="ignore"):
            draw = int(splitmix64(splitmix64(np.uint64(seed)) + np.uint64(number)))
        return np.uint32(draw >> 32), np.uint32(draw & 0xFFFFFFFF)

    @staticmethod
    def start(tile, n_tiles, rotation, count):
        """Which of its `count` segments of a part a tile begins with, as the kernel reckons."""
        return ((0xFFFFFFFF // n_tiles * tile + int(rotation)) % 2**32 * int(count)) >> 32

    @classmethod
    def order(cls, hyper, train, epoch=0, blocks=1, members=1):
        if cls.turned(hyper, train):
            train = train.transposed()
        n_tiles, n_parts = hyper.options["tiles"] or blocks, hyper.options["parts"] or 1
        tiles = tiled(train, n_tiles, train.n_items, n_parts, hyper.options["longest"], hyper.seed)
        (rotation, _), turns = cls.rotation(epoch, hyper.seed), np.zeros((blocks, members), int)
        for number, (first, end) in enumerate(pairwise(tiles.tile_segments.tolist())):
            tile = number % n_tiles
            block = tile % blocks
            if tile == 0:
                turns[:] = turns.max()  # a launch for each part
            turns[block] = turns[block].max()
            start = cls.start(tile, n_tiles, rotation, end - first)
            for s, segment in enumerate(np.roll(np.arange(first, end), -start)):
                for rating in tiles.order[tiles.segments[segment] : tiles.segments[segment + 1]]:
                    yield block, s % members, int(turns[block, s % members]), int(rating), "both"
                    turns[block, s % members] += 1

    def epoch(self, number):
        rotation, key = self.rotation(number, self._seed)
        for one in self._others:
            one.steps()
        for first_part, end_part, first_rating, (users, items, values) in self._chunks:
            for part in range(first_part, end_part):
                self._kernel(
                    self._blocks,
                    self._block,
                    **self._tiles,
                    **self.learned() | self._layers,
                    part=part,
                    users=users,
                    items=items,
                    values=values,
                    first_rating=first_rating,
                    epochs=number + 0.5,
                    rotation=rotation,
                    key=key,
                    shared=self._shared,
                )

    def _work_lists(self, tiles, chunk):
        """(`Chunks`, what the kernel takes of the tiles by name, items of the longest): what trainings share."""
        arrays = tiles.segments, tiles.tile_segments, tiles.items, tiles.tile_rows
        names = "segments", "tile_segments", "tile_items", "tile_rows"
        chunks = Chunks(self._device, (tiles.users, tiles.rows, tiles.values), tiles.parts, chunk)
        lists = dict(zip(names, map(self._device.array, arrays), strict=True))
        return chunks, lists, int(np.diff(tiles.tile_rows).max())

    def layered(self, problems, n):
        """Have a layer of the next epochs' grids for this problem, and for n others of the same training set.

        Returns
        -------
        list of trainers, this one first, each for the steps and factors of a problem; `epoch` of this one is of all
        """
        self._kernel = self._device.kernel(self.source, self.entry, **self._defined | {"BATCHED": 1})
        self._layers = {
            name: self._device.empty((n + 1, *array.shape), array.dtype) for name, array in self._learned.items()
        }
        for k, one in enumerate(chain([self], map(type(self), problems))):
            for name, every in self._layers.items():
                every[k][...] = one._learned[name]
                one._learned[name] = every[k]
            one._p, one._q, one._steps = one._learned.values()
            self._others += [one] * (k > 0)
        self._blocks = self._blocks[0], n + 1
        return [self, *self._others]

    def _counts_there(self, counts):
        names = "user_counts", "item_counts"
        return {name: self._device.array(of.astype(np.float32)) for name, of in zip(names, counts, strict=True)}

    def set_counts(self, users, items):
        self._tiles |= self._counts_there((items, users) if self._turned else (users, items))

    def shrink(self, users, items):
        super().shrink(*((items, users) if self._turned else (users, items)))

    def share_memory(self, other):
        if other is not None and len(other._p) >= len(self._p):
            self._p = self._learned["user_factors"] = other._p[: len(self._p)]

    def set_factors(self, user_factors, item_factors):
        for factors, rows in zip(self._in_places(user_factors, item_factors), (self._p, self._q), strict=True):
            self._convert(True, self._device.array(factors), rows)

    def factors(self):
        learned = []
        for rows in (self._p, self._q):
            factors = self._device.empty((len(rows), self._columns), np.float32)
            self._convert(False, factors, rows)
            learned.append(factors)
        return self._in_places(*learned)


def _item_bytes(hyper, shape):
    """Shared memory of an item: its row, its lock and its rate."""
    options = hyper.options
    return shape.fast_row + shape.fast_lock * options["locked"] + shape.fast_rate * options["row_rates"]
