"""Launches kernels/als/tensor_core.cu, or warpgroups.cu, and, for rows with few ratings, short_rows.cu."""

from typing import Any, ClassVar, NamedTuple

import numpy as np

from gpumf import backends
from gpumf._util.forks import cached_property
from gpumf.backends import sources
from gpumf.ratings.csr import CompressedRows
from gpumf.solvers.als_base import SEGMENTS, ALSSolver, segments_on
from gpumf.solvers.als_biases import SOURCE as BIASES
from gpumf.solvers.als_biases import Biases
from gpumf.solvers.base import KernelSolver, Version, shape_of
from gpumf.solvers.chunks import Chunks
from gpumf.solvers.half_rows import MAX_BLOCKS, HalfRows, padded
from gpumf.solvers.half_rows import SOURCE as HALF_ROWS

_MAX_PARTS = 1 << 17  # of all rows: the sums of each take about 2 f^2 bytes
_SHORT = "als/short_rows.cu"
_SHORT_LIMITS = 32, 64, 96, 128  # ratings of rows that it solves, compiled side by side
WARPGROUPS = "als/warpgroups.cu"
FEWEST_SHORT = 1 << 15  # rows that fill the GPU, several times: fewer are solved faster beside the others

sources.declare(_SHORT, FACTORS=range(1, 257), LIMIT=_SHORT_LIMITS)


def longest_segment(nnz):
    """Ratings of a segment: 8,192, and more where the sums of long rows' many parts would take much of the memory."""
    longest = 1 << 13
    while nnz > longest * _MAX_PARTS:
        longest *= 2
    return longest


def _longest_of_gram(wgmma):
    """Ratings of a segment of the row that has all columns: enough segments for the whole GPU.

    Its last block adds the sums of them all, which takes longest where blocks are fastest.
    """
    return 4096 if wgmma else 512


def warpgroups_defines(hyper, in_bytes=False):
    """Those of warpgroups.cu."""
    implicit = int(hyper.alpha is not None)
    return {"FACTORS": hyper.columns, "IMPLICIT": implicit, "WGMMA": 1, "BYTES": int(in_bytes)}


BYTES_FACTORS = range(81, 105)
"""With which warpgroups.cu can gather rows in eight bits."""
_MAX_BYTES_LENGTH = 1 << 16  # ratings of a segment whose sums of products of bytes, and of digits, fit 32 bits


def fits_bytes(hyper, longest):
    """Whether warpgroups.cu can gather rows in eight bits. With learned biases ones would set their unit."""
    explicit = hyper.alpha is None and not hyper.biases
    return explicit and hyper.columns in BYTES_FACTORS and longest <= _MAX_BYTES_LENGTH


def takes_bytes(facts, hyper, n_fixed):
    """Whether rows in eight bits pay: so many in half precision exceed the L2 cache, which their gather waits for."""
    return n_fixed * padded(hyper.columns) * 2 > facts.get("l2_bytes", np.inf)


_MOST_ABOVE_MEAN = 8  # the largest rating of a row, over the mean of those of all rows
_LEAST_RIDGE = 0.006  # of a rating, over the same mean: 0.03 where the largest are 5


def bear_bytes(hyper, most, mean, length):
    """Whether eight bits change test RMSE little: by at most 0.0003 in the study's experiment eight_bit_rows.

    No row's largest rating may be far above others': its factors would be, too, and set the unit of all. In rows with
    few ratings beside the factors rounding errors do not cancel, and with a small ridge they grow.

    most, mean : of all rows of the fixed side, their largest ratings in magnitude
    length : mean number of ratings of a solved row
    """
    ridge = hyper.regularization / (1 if hyper.weighted else hyper.columns)
    return most <= _MOST_ABOVE_MEAN * mean and length >= 2 * hyper.columns and ridge >= _LEAST_RIDGE * mean


def _max_shared_bytes(factors, stage_rows, ahead=3, wgmma=False):
    """Work of the source, at the most: stages of rows in half precision, the ratings of these and of one stage more.

    With more than 192 factors so many stages are copied `ahead`, and the solver has memory of its own.
    """
    width = padded(factors)
    if wgmma:
        width = 256 if width > 128 else 128
    stages, vectors = (ahead + 2, 11 if wgmma else 7) if width > 192 else (3, 0)
    stages, row, numbers = (stages + 1, width, 20) if wgmma else (stages, width + 8, 10)
    of_ratings = stages + 1 + (wgmma and width > 192)
    return stage_rows * (2 * stages * row + numbers * of_ratings) + vectors * 4 * width + (64 if vectors else 0)


def is_hopper(facts):
    """Whether a device has the instructions of the target sm_90a."""
    return facts.get("compute_capability") == "9.0"


def takes_warpgroups(facts, factors, implicit):
    """Whether a GPU takes less time with warpgroups.cu than with tensor_core.cu, measured by als_ladder."""
    return is_hopper(facts) and (factors > 64 if implicit else 80 < factors <= 104 or factors > 128)


def of_device(facts, factors, implicit):
    """The definitions of the source that pay on a GPU, measured by the experiment als_ladder: a dict.

    Hopper's own products, copies that bypass L1, and small stages are faster with some numbers of factors alone.
    There are 32 ratings a stage where 64 do not fit the shared memory.
    """
    wgmma = is_hopper(facts) and not implicit and (112 < factors <= 128 or factors > 192)
    small = 48 < factors <= 64
    fits = _max_shared_bytes(factors, 64, wgmma=wgmma) <= facts["shared_bytes_per_block"]
    return {
        "WGMMA": int(wgmma),
        "THROUGH_L1": int(factors > 64 and not wgmma),
        "STAGE_ROWS": 64 if fits and not small else 32,
    }


def _max_short(factors):
    """Ratings of a row up to which short_rows.cu takes less time than the kernel that forms matrices."""
    return 128 if factors > 64 else 0


class _Short:
    """Which rows kernels/als/short_rows.cu solves, and how it is launched for them.

    most : ratings of a row, at the most; by default as many as pay, on sides with enough such rows
    """

    def __init__(self, device, factors, most=None):
        self._device, self._factors = device, factors
        self._fewest = FEWEST_SHORT if most is None else 1
        most = _max_short(factors) if most is None else most
        self._limits = [n for n in _SHORT_LIMITS if n <= most]

    @cached_property
    def _shapes(self):
        return {n: shape_of(self._device, _SHORT, FACTORS=self._factors, LIMIT=n) for n in self._limits}

    @cached_property
    def _shared(self):
        """Bytes of shared memory of a block, by the most ratings of a row."""
        return {n: shape.bytes for n, shape in self._shapes.items()}

    def limits(self, counts, longest):
        """Ratings up to which rows are launched together, of a side whose rows have `counts`, ascending."""
        if not self._limits or np.count_nonzero(counts <= self._limits[-1]) < self._fewest:
            return []
        has = self._device.facts["shared_bytes_per_block"]
        found = [n for n, shared in self._shared.items() if shared <= has and n <= longest]
        return found if found and np.count_nonzero(counts <= found[-1]) >= self._fewest else []

    def _resident(self, most):
        """Blocks that a multiprocessor has room for, of rows of at most `most` ratings."""
        facts, shape = self._device.facts, self._shapes[most]
        has, reserved = facts["shared_bytes_per_multiprocessor"], facts.get("reserved_shared_bytes", 1024)
        return max(min(shape.resident // shape.warps, has // (shape.bytes + reserved)), 1)

    def solve(self, most, segments, *arguments):
        """Launch it for rows of at most `most` ratings, one of the `limits`."""
        kernel = self._device.kernel(_SHORT, "short_rows", FACTORS=self._factors, LIMIT=most)
        blocks = min(int(segments[1]), self._device.facts["multiprocessors"] * self._resident(most))
        kernel(blocks, 32 * self._shapes[most].warps, *segments, *arguments, shared=self._shared[most])


class RatingRows:
    """The ratings of rows, on the device whole or a chunk of rows after another, and the chunks' work lists there.

    rows : CompressedRows
    short : `_Short`, or None where all rows are solved by tensor_core.cu
    chunk : most ratings on the device at a time; by default all that fit
    beside : as of `Chunks`
    """

    def __init__(self, device, rows, longest, short=None, chunk=None, beside=0):
        self._chunks = Chunks(device, (rows.indices, rows.values), rows.indptr, chunk, beside)
        self._segments, slots = [], 1
        limits = short.limits(np.diff(rows.indptr), longest) if short else []
        for first, end, _ in self._chunks.places:
            indptr = rows.indptr[first : end + 1]
            segments, of_chunk = segments_on(device, indptr, longest)
            self._segments.append(_by_length(segments, np.diff(indptr), limits))
            slots = max(slots, of_chunk)
        self.n_rows, self.most, self.slots = rows.n_rows, self._chunks.most, np.int32(slots)
        self.has_short = any(of_chunk.keys() - {"all", None} for of_chunk in self._segments)

    def __iter__(self):
        """Yield (slice of the rows, work lists, indices, values) of each chunk, for what is launched next.

        Work lists : dict of the most ratings of a row -> its segments and their number, None of those of longer rows,
        'all' of all rows
        """
        for segments, (first, end, _, ratings) in zip(self._segments, self._chunks, strict=True):
            yield slice(first, end), segments, *ratings


def _by_length(segments, counts, limits):
    """The work lists of `RatingRows.__iter__`, of segments whose last ones are of short rows, longest first."""
    every, n = segments
    bounds = [int(n) - int(np.count_nonzero(counts <= limit)) for limit in limits]
    found = {"all": segments}
    for limit, first, end in zip([*limits, None], [*bounds, 0], [int(n), *bounds], strict=True):
        if end > first:
            found[limit] = every[first:end], np.int32(end - first)
    return found


class _Team(NamedTuple):
    """A compiled kernel that solves rows, and how it is launched."""

    kernel: Any
    block: int
    teams: int
    shared: int
    part_bytes: int


class Gathering(KernelSolver):
    """For an `ALSSolver` whose kernel gathers factors in half precision and takes segments of rows, see `TensorCore`.

    Explicit ratings of rows that have few are left to kernels/als/short_rows.cu. `_parameters` says what arguments of
    its own the kernel takes, after the ridges.

    longest : ratings of a segment, see `gpumf.solvers.als_base.segments_of`; by default by the number of all
    short : most ratings of a row that short_rows.cu solves; by default as many as pay
    in_bytes : whether warpgroups.cu gathers rows in eight bits, where it can and all rows of a side are its own; by
        default where `takes_bytes` and `bear_bytes` say so
    systems : hyperparameters of models without `biases`, of the same shape, on the same ratings, that train together.
        Each has its own start: the problem's arrays are (systems, rows, factors), on the device, and trained in place
    **defines : in the place of those of the source that `defines` would choose; `launched` has no say then
    """

    cg_steps, streams = 4, True
    _gathered = False  # whether what the next update of a side takes as fixed is there in half precision

    @classmethod
    def launched(cls, hyper):
        """What solves the rows of a model that trains alone: (source, kernel, definitions)."""
        return cls.source, cls.entry, cls.defines(hyper)

    @classmethod
    def compile(cls, hyper):
        source, entry, defines = cls.launched(hyper)
        return backends.device(hyper.device).kernel(source, entry, **defines)

    @classmethod
    def sources(cls, hyper, train):
        source, _, defines = cls.launched(hyper)
        found = [(source, defines)]
        if source == WARPGROUPS and fits_bytes(hyper, longest_segment(train.nnz)):
            facts, sizes = backends.device(hyper.device).facts, (train.n_users, train.n_items)
            if any(takes_bytes(facts, hyper, n) for n in sizes):
                found.append((source, warpgroups_defines(hyper, in_bytes=True)))
        if hyper.alpha is None and max(train.n_users, train.n_items) >= FEWEST_SHORT:
            most = _max_short(hyper.columns)
            found += [(_SHORT, {"FACTORS": hyper.columns, "LIMIT": n}) for n in _SHORT_LIMITS if n <= most]
        rest = (HALF_ROWS, {"FACTORS": hyper.columns}), (SEGMENTS, {}), *[(BIASES, {})] * hyper.biases
        return [*found, *rest]

    def __init__(self, problem, longest=None, short=None, in_bytes=None, systems=None, **defines):
        hyper, train, (user_factors, item_factors) = problem
        device = self._device = backends.device(hyper.device)
        implicit = hyper.alpha is not None
        if systems is not None:
            defines |= {"BATCHED": 1}
        if defines:
            defines = self.defines(hyper) | defines
        else:
            self.source, self.entry, defines = self.launched(hyper)
        names = self.entry, *["gram"] * implicit
        shape = shape_of(device, self.source, **defines)
        self._entry = {name: self._team(name, shape, defines) for name in names}
        part_bytes = shape.part_bytes
        self._max_blocks = {self.entry: device.facts["multiprocessors"]} if shape.persistent else {}

        start, self._n = (user_factors, item_factors), 1 if systems is None else len(systems)
        self._p, self._q = start if systems else map(device.array, start)
        sides, longest = (train.by_user, train.by_item), longest or longest_segment(train.nnz)
        # Before the ratings, which take what is left or are streamed.
        roots = [np.sqrt(one.confidence or 1) for one in systems or [hyper]]
        fixed, eight = (train.n_items, train.n_users), [False, False]
        if self.source == WARPGROUPS and fits_bytes(hyper, longest):
            eight = [takes_bytes(device.facts, hyper, n) if in_bytes is None else in_bytes for n in fixed]
        of_bytes = max((n for n, chosen in zip(fixed, eight, strict=True) if chosen), default=0)
        self._half = HalfRows(device, hyper.columns, max(fixed), roots, of_bytes)
        self._halves, self._unit = self._half.halves, self._half.unit
        self._gram = device.empty(self._n * part_bytes if implicit else part_bytes, np.uint8)
        if of_bytes:
            defines = warpgroups_defines(hyper, in_bytes=True)
            shape = shape_of(device, self.source, **defines)
            self._entry["bytes"] = self._team(self.entry, shape, defines)
            part_bytes = max(part_bytes, shape.part_bytes)
        beside = np.dtype(np.float32).itemsize if hyper.biases else 0
        self._short = None if implicit or systems else _Short(device, hyper.columns, short)
        of_gram = _longest_of_gram(defines["WGMMA"]) if implicit else None
        key = self.source, hyper.columns, of_gram, longest, short, hyper.chunk, beside, systems is None, any(eight)
        parts = [self._short, hyper.chunk, beside]
        made = train._once(key, lambda: self._work_lists(train, longest, of_gram, parts, any(eight)))
        ratings, largest, grams, of_fixed = made
        # Which sides' updates gather bytes: those of which short_rows.cu, which gathers halves, has no rows.
        self._in_bytes = {
            rows: chosen and not rows.has_short and (in_bytes or bear_bytes(hyper, *of, train.nnz / rows.n_rows))
            for rows, chosen, of in zip(ratings, eight, of_fixed, strict=True)
        }
        self._biases = Biases.of(hyper, train, device, max(rows.most for rows in ratings))
        self._meeting = {rows: self._room(rows, part_bytes) for rows in (*ratings, *grams) if rows}
        # Of a row of one rating, the least there can be, whichever rows are here.
        ridges, least = (
            [
                device.array(np.concatenate([one.ridges(counts, n) for one in systems or [hyper]]))
                for counts, n in zip(of_sides, (self._q.shape[-2], self._p.shape[-2]), strict=True)
            ]
            for of_sides in ([rows.counts for rows in sides], [np.ones(1, np.int64)] * 2)
        )
        self._users, self._items = zip(ratings, largest, grams, ridges, least, strict=True)
        self._weighted = np.float32(hyper.regularization), np.int32(hyper.weighted)
        self._steps = np.int32(hyper.cg_steps), np.float32(hyper.cg_tolerance)
        self._root_of_alpha = np.float32(np.sqrt(hyper.confidence or 1))

    def _work_lists(self, train, longest, of_gram, parts, in_bytes):
        """(ratings, largest, grams, of_fixed) of both sides: what all trainings on these ratings share.

        of_gram : ratings of a segment of all columns, None with explicit ratings
        in_bytes : whether to find what `bear_bytes` asks for of the fixed sides: `of_fixed`
        """
        ratings = [RatingRows(self._device, rows, longest, *parts) for rows in (train.by_user, train.by_item)]
        largest, grams = list(map(self._half.largest_ratings, ratings)), [None, None]
        if of_gram:
            for k, n in enumerate((train.n_items, train.n_users)):  # rows of all columns, each with a weight of 1
                every, ones = np.arange(n, dtype=np.int32), np.ones(n, np.float32)
                row = CompressedRows(np.array([0, n]), self._device.array(every), self._device.array(ones))
                grams[k] = RatingRows(self._device, row, of_gram)
        of_fixed = [in_bytes and (float(of.max()), float(of.mean(dtype=np.float64))) for of in largest[::-1]]
        return ratings, largest, grams, of_fixed

    def _room(self, rows, part_bytes):
        """Of one chunk's long rows at a time: the parts, and how many of a row's have arrived, 0 between launches."""
        slots = self._n * int(rows.slots)
        return self._device.empty(slots * part_bytes, np.uint8), self._device.zeros(slots, np.int32)

    def gather_users(self, carrier, bounds):
        """As of `ALSSolver`, but in half precision: half the bytes. Biases are set aside before they are rounded."""
        if self._biases:
            ALSSolver.gather_users(self, carrier, bounds)
            return
        own = slice(*map(int, bounds[carrier.rank : carrier.rank + 2]))
        self._half.round(self._p[own], self._items[-1], self._halves[own], carrier)
        carrier.all_gather(self._halves[: len(self._p)], bounds)
        self._gathered = True

    def _team(self, name, shape, defines):
        kernel = self._device.kernel(self.source, name, **defines)
        return _Team(kernel, shape.block, shape.teams, shape.teams * shape.team_bytes, shape.part_bytes)

    def _launch(self, name, segments, indices, values, *arguments, in_bytes=False):
        team = self._entry["bytes" if in_bytes else name]
        blocks, ratings = -(-segments[1] // team.teams), (indices, values)
        team.kernel(
            (min(blocks, self._max_blocks.get(name, blocks)), self._n),
            team.block,
            *segments,
            *ratings,
            self._half.bytes.view(np.uint16) if in_bytes else self._halves,
            *arguments,
            shared=team.shared,
        )

    def _solve(self, side, fixed, solved):
        (rows, largest, every, ridges, least), n_fixed = side, np.int32(fixed.shape[-2])
        in_bytes = self._in_bytes[rows] and not self._gathered
        if in_bytes:
            self._half.round_to_bytes(fixed, least)
        elif not self._gathered:
            self._half.round(fixed, least)
        self._gathered = False
        if every is not None:
            ((_, segments, *given),) = every
            of_systems = () if self.source == WARPGROUPS else (n_fixed, every.slots)
            self._launch("gram", segments["all"], *given, *self._meeting[every], self._gram, *of_systems)
        parameters = self._parameters(rows, n_fixed)
        for chosen, segments, indices, values in rows:
            chosen = chosen if self._n == 1 else ...  # one chunk
            targets = self._targets(indices, values)
            if targets is not values:
                largest[chosen] = 0
                self._half.add_largest(segments["all"], targets, largest[chosen])
            of_chunk = self._unit, largest[chosen], solved[chosen]
            for limit, of_length in segments.items():
                if limit is None:
                    of_rows = *of_chunk, *self._meeting[rows], ridges[chosen]
                    self._launch(self.entry, of_length, indices, targets, *of_rows, *parameters, in_bytes=in_bytes)
                elif limit != "all":
                    given = self._halves, *of_chunk, *self._weighted, *self._steps
                    self._short.solve(limit, of_length, indices, targets, *given)


class TensorCore(Gathering, ALSSolver):
    """kernels/als/tensor_core.cu: FP16 factors, products on the tensor cores, the solve fused behind them.

    Where `takes_warpgroups` says so, kernels/als/warpgroups.cu, which does the same, solves the rows of a model that
    trains alone, unless definitions of tensor_core.cu are given. It gathers a side in eight bits where `takes_bytes`
    says so.
    """

    source, entry = "als/tensor_core.cu", "tensor_core"
    versions: ClassVar = {"": Version("tensor cores", "black", "-D")}
    variants: ClassVar = {"FACTORS": range(1, 257), "IMPLICIT": range(2), "STAGE_ROWS": [64, 32], "BATCHED": range(2)}
    variants |= {"WGMMA": range(2), "THROUGH_L1": range(2)}

    @staticmethod
    def defines(hyper):
        implicit = hyper.alpha is not None
        chosen = of_device(backends.device(hyper.device).facts, hyper.columns, implicit)
        return {"FACTORS": hyper.columns, "IMPLICIT": int(implicit), "BATCHED": 0} | chosen

    @classmethod
    def launched(cls, hyper):
        facts = backends.device(hyper.device).facts
        if takes_warpgroups(facts, hyper.columns, hyper.alpha is not None):
            return WARPGROUPS, "warpgroups", warpgroups_defines(hyper)
        return super().launched(hyper)

    @classmethod
    def system_bytes(cls, hyper, train):
        """Memory that each of several `systems` takes on the device."""
        sizes, longest = (train.n_users, train.n_items), longest_segment(train.nnz)
        parts = [-(-of // longest) for of in (train.user_counts, train.item_counts)]
        slots = sum(max(int(of[of > 1].sum()), 1) for of in parts)
        if hyper.alpha is not None:
            longest = _longest_of_gram(cls.defines(hyper)["WGMMA"])
            slots += 1 + sum(max(-(-n // longest), 1) for n in sizes)
        taken = slots * (cls.geometry(hyper).part_bytes + 4) + (MAX_BLOCKS + 5) * 4
        return taken + sum(sizes) * (hyper.columns + 1) * 4 + max(sizes) * padded(hyper.columns) * 2

    def _parameters(self, rows, n_fixed):
        of_systems = () if self.source == WARPGROUPS else (n_fixed, np.int32(rows.n_rows), rows.slots)
        return *self._steps, self._root_of_alpha, self._gram, *of_systems
