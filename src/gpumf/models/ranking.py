"""The best items of users, and how many of them are test items: where the factors are, or on the CPU."""

from abc import ABC, abstractmethod
from typing import NamedTuple, Protocol

import numpy as np

from gpumf import backends
from gpumf.backends import sources
from gpumf.backends.cpu import metrics as cpu_metrics
from gpumf.backends.cpu import ranking as cpu_ranking
from gpumf.ratings.csr import CompressedRows, row_offsets
from gpumf.solvers.base import COLUMNS, shape_of

SOURCE, SCREENED = "metrics/ranking.cu", "metrics/screened.cu"
sources.declare(SOURCE, FACTORS=COLUMNS, WARPS=[4, 2])
_SCREENED_FACTORS = 256  # at most, for which there are registers
sources.declare(SCREENED, FACTORS=range(1, _SCREENED_FACTORS + 1), WARPS=[8, 4])

METRICS = ("precision", "recall", "map", "ndcg")
MAX_ITEMS = 128  # of the longest list of a kernel
_METRICS_BLOCK = 128  # CUDA threads, a warp a user
_SCREENED_USERS = 40  # at a time, for each multiprocessor, from which screening pays
_MAX_CELLS = 1 << 24  # users at a time, times items, of lists that are limited user by user
_NATIVE_BATCH, _MAX_ENTRIES = 1 << 16, 1 << 20  # users at a time in C++, and entries of their lists


class Ranking(Protocol):
    """The items with the largest scores among the candidates that a user has not seen.

    Of equal scores the lower item position comes first; a score that is NaN or minus infinity never comes.
    """

    @abstractmethod
    def top_items(self, users, k):
        """(items, scores) of users at positions (n,), best first: int64 and float32 (n, k); -1, NaN for no item."""

    @abstractmethod
    def metrics(self, test, users, k):
        """METRICS of each user's k best items, float64 (n, 4); test : CompressedRows, with items of these users."""


class ByUser(Ranking):
    """One ranking for some users, another one for the others; each is constructed when it is first wanted.

    first : bool (n_users,), who belongs to the first one
    make, make_others : functions without arguments that return a Ranking; the first one knows all users
    """

    def __init__(self, first, make, make_others):
        self._first, self._makers = first, (make, make_others)

    def top_items(self, users, k):
        return self._joined(lambda ranking, chosen: ranking.top_items(chosen, k), users)

    def metrics(self, test, users, k):
        (result,) = self._joined(lambda ranking, chosen: (ranking.metrics(test, chosen, k),), users)
        return result

    def _joined(self, ask, users):
        """The arrays that `ask(ranking, its users)` gives, in the order of all users.

        The first ranking makes lists for all: to put two parts together takes longer than a few lists too many.
        """
        (make, make_others), first = self._makers, self._first[users]
        if len(users) and not first.any():
            return ask(make_others(), users)
        found = ask(make(), users)
        if not first.all():
            for array, rows in zip(found, ask(make_others(), users[~first]), strict=True):
                array[~first] = rows
        return found


class Limits(NamedTuple):
    """The items that lists may have.

    allowed : bool (n_items,), those of all lists
    candidates, left_out : CompressedRows without values, row r the items that list r chooses from, or that it leaves
        out; None where these are not limited list by list
    """

    allowed: np.ndarray
    candidates: CompressedRows | None = None
    left_out: CompressedRows | None = None

    @property
    def of_each(self):
        """Whether lists are limited each by itself."""
        return not (self.candidates is None and self.left_out is None)

    def of(self, lists):
        """Those of some lists, int (n,)."""
        if not self.of_each:
            return self
        return Limits(self.allowed, *(rows and _selected(rows, lists) for rows in self[1:]))


class Limited(Ranking):
    """A ranking whose lists are limited each by itself: made for some users at a time, with what they leave out.

    make : function of CompressedRows, the items that users leave out, and of a mask of the items of all lists, that
        gives a Ranking
    seen : CompressedRows of the users, on the host, or None for nothing seen
    n_users : int
    limits : Limits of the lists of the users that are asked for, in their order
    """

    def __init__(self, make, seen, n_users, limits):
        self._make, self._seen, self._n_users, self._limits = make, seen, n_users, limits

    def top_items(self, users, k):
        found = np.full((len(users), k), -1, np.int64), np.full((len(users), k), np.nan, np.float32)
        for lists, ranking in self._rounds(users):
            for array, part in zip(found, ranking.top_items(users[lists], k), strict=True):
                array[lists] = part
        return found

    def metrics(self, test, users, k):
        result = np.empty((len(users), len(METRICS)))
        for lists, ranking in self._rounds(users):
            result[lists] = ranking.metrics(test, users[lists], k)
        return result

    def _rounds(self, users):
        """Yield the lists, int (n,), that are made at a time, no two of one user, and a ranking for them."""
        at_a_time = max(1, _MAX_CELLS // len(self._limits.allowed))
        for first in range(0, len(users), at_a_time):
            lists = np.argsort(users[first : first + at_a_time], kind="stable") + first
            new = np.diff(users[lists], prepend=-1) != 0
            starts = np.flatnonzero(new)
            turns = np.arange(len(lists)) - np.repeat(starts, np.diff(starts, append=len(lists)))
            for turn in range(turns.max() + 1):
                chosen = lists[turns == turn]
                yield chosen, self._make(self._left_out(chosen, users[chosen]), self._limits.allowed)

    def _left_out(self, lists, users):
        """What these lists, of as many different users in ascending order, leave out, as CompressedRows of all."""
        allowed, candidates, left_out = self._limits
        out = np.full((len(lists), len(allowed)), candidates is not None)
        for rows, which, value in ((candidates, lists, False), (left_out, lists, True), (self._seen, users, True)):
            if rows is not None:
                out[_entries(rows, which)] = value
        out &= allowed
        counts = np.zeros(self._n_users, np.int64)
        counts[users] = out.sum(axis=1)
        return CompressedRows(row_offsets(counts), np.nonzero(out)[1].astype(np.int32), None)


def _entries(rows, which):
    """(place in `which`, column) of every entry of these CompressedRows."""
    counts = rows.counts[which]
    places = np.repeat(np.arange(len(which)), counts)
    before = rows.indptr[which] - row_offsets(counts)[:-1]
    return places, rows.indices[before[places] + np.arange(len(places))]


def _selected(rows, which):
    """These rows, one after another, as CompressedRows without values."""
    return CompressedRows(row_offsets(rows.counts[which]), _entries(rows, which)[1], None)


class InBatches(ABC):
    """A `Ranking` by p_u . q_i, some users at a time.

    user_factors, item_factors : float32 (n_users, f) and (n_items, f), NumPy arrays or, of a kernel, on its device
    candidates : bool (n_items,); of a kernel also as bytes on its device
    seen : CompressedRows of the users, or None for nothing seen
    """

    _batch: int  # users ranked at a time, which bounds the memory
    _mark = staticmethod(lambda: None)  # what to wait for before lists are read that are made up to now

    def top_items(self, users, k):
        # New memory is what takes the time here: each list is copied to its place, and items become wider on the way.
        result = np.empty((len(users), k), np.int64), np.empty((len(users), k), np.float32)
        found = [(batch, self._top_items(self._array(some), k), self._mark()) for batch, some in self._batches(users)]
        for batch, lists, done in found:
            for array, part in zip(result, lists, strict=True):
                self._to_numpy(part, out=array[batch], after=done)
        return result

    def metrics(self, test, users, k):
        result = np.empty((len(users), len(METRICS)))
        indptr, indices = self._array(test.indptr), self._array(test.indices)
        for batch, chosen in self._batches(users):
            chosen = self._array(chosen)
            items, _ = self._top_items(chosen, k)
            result[batch] = self._to_numpy(self._metrics(chosen, indptr, indices, items))
        return result

    def _batches(self, users):
        for first in range(0, max(len(users), 1), self._batch):
            batch = slice(first, first + self._batch)
            yield batch, users[batch].astype(np.int32)

    @abstractmethod
    def _top_items(self, users, k):
        """(items, scores) of a batch, as of `top_items`."""

    @abstractmethod
    def _metrics(self, users, indptr, indices, items):
        """Metrics of a batch against the rows of test items."""


class ScoresRanking(InBatches):
    """The items with the largest of scores that subclasses compute on the CPU, by Numba over all threads.

    shape : (users, items)
    candidates, seen : as of `InBatches`
    cells : scores at a time
    """

    _array = staticmethod(lambda values: values)

    @staticmethod
    def _to_numpy(values, out=None, after=None):
        if out is None:
            return values
        out[...] = values
        return out

    def __init__(self, shape, candidates, seen, cells=1 << 24):
        self._candidates, self._seen = candidates, _rows(seen, shape[0])
        self._batch = max(1, cells // shape[1])

    def _top_items(self, users, k):
        items, best = np.empty((len(users), k), np.int32), np.empty((len(users), k), np.float32)
        cpu_metrics.top_items(self._scores(users), users, *self._seen, self._candidates, items, best)
        return items, best

    @abstractmethod
    def _scores(self, users):
        """Of all items, float32 (len(users), n_items), which may be overwritten."""

    def _metrics(self, users, indptr, indices, items):
        result = np.empty((len(users), len(METRICS)))
        cpu_metrics.ranking_metrics(users, indptr, indices, items, result)
        return result


class CpuRanking(ScoresRanking):
    """By inner products of the factors, in C++; where it does not compile, by a matrix product for the scores."""

    def __init__(self, user_factors, item_factors, candidates, seen):
        super().__init__((len(user_factors), len(item_factors)), candidates, seen)
        self._p, self._q, self._native = user_factors, item_factors, cpu_ranking.native_top_items()
        if self._native:
            self._batch = _NATIVE_BATCH

    def _top_items(self, users, k):
        if self._native is None:
            return super()._top_items(users, k)
        items, best = np.empty((len(users), k), np.int32), np.empty((len(users), k), np.float32)
        at_a_time = max(1, _MAX_ENTRIES // k)
        for first in range(0, len(users), at_a_time):
            part = slice(first, first + at_a_time)
            arrays = users[part], *self._seen, self._p, self._q, self._candidates
            self._native(*arrays, items[part], best[part])
        return items, best

    def _scores(self, users):
        return self._p[users] @ self._q.T


class PredictedRanking(ScoresRanking):
    """The items with the highest scores of anything that scores them.

    score : function of positions of users and items, which it broadcasts
    shape : (users, items)
    candidates, seen : as of `InBatches`
    """

    def __init__(self, score, shape, candidates, seen):
        super().__init__(shape, candidates, seen, 1 << 18)
        self._score, self._items = score, np.arange(shape[1])

    def _scores(self, users):
        return self._score(users[:, None], self._items)


class LaunchedRanking(InBatches):
    """Lists that a kernel of kernels/metrics/ranking.cu makes, up to MAX_ITEMS items each, and their metrics."""

    def __init__(self, device, entry, defines, candidates, seen, n_users):
        self._device, self._array, self._to_numpy, self._mark = device, device.array, device.to_numpy, device.mark
        self._kernels = [device.kernel(SOURCE, name, **defines) for name in (entry, "ranking_metrics")]
        indptr, items = map(device.array, _rows(seen, n_users))
        self._given = {
            "seen_indptr": indptr,
            "seen_items": items,
            "candidates": device.array(candidates.view(np.uint8)),
            "n_items": len(candidates),
        }

    def list_of(self, user, k):
        """(items, scores) of one user, whose position is int32 (1,) on the device: int64 and float32 (<= k,)."""
        items, scores = (self._to_numpy(found)[0] for found in self._top_items(user, k))
        there = items >= 0
        return items[there].astype(np.int64), scores[there]

    def _lists(self, blocks, block, users, k, shared, parts=1, kernel=None, common=None, **more):
        """Launch it: (items, scores) of these users, on the device, for one part of the items after another.

        kernel, common : another one, and what it is given for all lists
        """
        n = len(users)
        items, scores = (self._device.empty((parts * n, k), dtype) for dtype in (np.int32, np.float32))
        lists = {"users": users, "n_users": n, "k": k, "items": items, "scores": scores}
        kernel, common = (kernel, common) if kernel else (self._kernels[0], self._given)
        kernel(blocks, block, **lists, **common, **more, shared=shared)
        return items, scores

    def _metrics(self, users, indptr, indices, items):
        n, k = items.shape
        result = self._device.empty((n, len(METRICS)), np.float64)
        lists = {"users": users, "n_users": n, "k": k, "items": items}
        test = {"test_indptr": indptr, "test_items": indices}
        blocks = -(-n * 32 // _METRICS_BLOCK)
        self._kernels[1](blocks, _METRICS_BLOCK, **lists, **test, metrics=result)
        return result


def screening(device, factors, n_users):
    """The definitions of screened.cu if it makes lists of so many users at a time faster, else None."""
    facts = {"compute_capability": "8.0"} | device.facts  # which the emulator does not have
    shared = facts["shared_bytes_per_block"]
    many = n_users >= _SCREENED_USERS * facts["multiprocessors"]
    if not many or factors > _SCREENED_FACTORS or shared < 97 << 10 or float(facts["compute_capability"]) < 8:
        return None
    return {"FACTORS": factors, "WARPS": 8 if shared >= 163 << 10 else 4}


class ScreenedItems:
    """Item factors as kernels/metrics/screened.cu takes them, on a device.

    rows : float32 (n_items, ..), padded with zeros
    """

    def __init__(self, item_factors, device, defines):
        self.shape, self._device = shape_of(device, SCREENED, **defines), device
        measure, self._arrange, self.kernel = (
            device.kernel(SCREENED, name, **defines)
            for name in ("measure_items", "arrange_items", "top_items_screened")
        )
        n_items, factors = len(item_factors), device.array(item_factors)
        self.rows = device.empty((n_items, self.shape.padded), np.float32)
        self._given = {"n_items": n_items, "inverses": device.empty(n_items, np.float32), "rows": self.rows}
        measure(-(-n_items // 256), 256, factors=factors, **self._given)
        keys = device.to_numpy(self._given["inverses"])
        keys[np.isnan(keys)] = 0  # of rows that are not screened, which come first
        self._given["order"] = device.array(np.argsort(keys, kind="stable").astype(np.int32))

    def records(self, candidates):
        """Of all items in half precision, by descending norm, of which lists have candidates: uint16 (.., ..)."""
        width = -(-len(self.rows) // self.shape.tile) * self.shape.tile
        records = self._device.empty((width, self.shape.record), np.uint16)
        given = self._given | {"candidates": candidates, "width": width, "records": records}
        self._arrange(-(-records.size // 256), 256, **given)
        return records


class ItemColumns:
    """Item factors as the kernels take them, on a device: transposed, and padded with zeros; on demand, screened."""

    def __init__(self, item_factors, device):
        self._factors, self._device, self._screened = item_factors, device, None
        n_items, factors = item_factors.shape
        # The widest block whose users and lists of MAX_ITEMS fit the shared memory.
        for warps in (4, 2):
            self.defines = {"FACTORS": factors, "WARPS": warps}
            self.shape = shape_of(device, SOURCE, **self.defines)
            if self.shared(MAX_ITEMS) <= device.facts["shared_bytes_per_block"]:
                break
        self.n_tiles = -(-n_items // self.shape.tile)
        width = self.n_tiles * self.shape.tile
        self.columns = device.empty((self.shape.padded, width), np.float32)
        transpose = device.kernel(SOURCE, "transpose_items", **self.defines)
        given = {"factors": device.array(item_factors), "n_items": n_items, "width": width}
        transpose(-(-self.columns.size // 256), 256, **given, columns=self.columns)

    def shared(self, k):
        """Bytes of shared memory of a block with lists of k items."""
        return self.shape.work_bytes + self.shape.users * k * self.shape.entry_bytes

    def screened(self, n_users):
        """`ScreenedItems` of them if these make lists of so many users at a time faster, else None."""
        defines = screening(self._device, self._factors.shape[1], n_users)
        if defines and self._screened is None:
            self._screened = ScreenedItems(self._factors, self._device, defines)
        return self._screened if defines else None


class KernelRanking(LaunchedRanking):
    """By inner products of the factors, a tile of items at a time; of many users, of screened items: the same bits.

    item_factors : as of `InBatches`, or `ItemColumns` of them
    keep : function that is given the users' factors on the device once they are all there, of NumPy arrays. They are
        copied to the device while lists of the users before are made
    """

    _batch = 1 << 16  # lists of some are copied to the host while those of others are made
    _records = None  # of screened items

    def __init__(self, user_factors, item_factors, candidates, seen, device, keep=None):
        device = backends.device(device)
        there = isinstance(item_factors, ItemColumns)
        self._items = items = item_factors if there else ItemColumns(item_factors, device)
        super().__init__(device, "top_items", items.defines, candidates, seen, len(user_factors))
        self._merge = device.kernel(SOURCE, "merge_lists", **items.defines)
        self._keep, self._n_users = keep, len(user_factors)
        if keep is None or self._n_users <= self._batch:
            self._here, self._given["user_factors"] = self._n_users, device.array(user_factors)
        else:
            bounds = [*range(0, self._n_users, self._batch), self._n_users]
            self._here = 0  # users that are on the device for what is launched next
            self._given["user_factors"], self._steps = device.array_in_parts(user_factors, bounds)

    def _batches(self, users):
        for batch, some in super()._batches(users):
            self._bring(some.max(initial=-1) + 1)
            yield batch, some
        self._bring(self._n_users)
        if self._keep:
            self._keep(self._given["user_factors"])

    def _bring(self, users):
        """Have the first so many users on the device for what is launched next.

        The iterator is not run to its end, where it waits for copies, and these for kernels.
        """
        while self._here < users:
            self._here = next(self._steps)

    def list_of(self, user, k):
        self._bring(self._n_users)
        return super().list_of(user, k)

    def _top_items(self, users, k):
        if screened := self._items.screened(len(users)):
            if self._records is None:
                self._records = screened.records(self._given["candidates"])
            shape, given = screened.shape, {"item_records": self._records, "item_rows": screened.rows}
            given |= {name: value for name, value in self._given.items() if name != "candidates"}
            blocks = -(-len(users) // shape.users)
            return self._lists(blocks, shape.block, users, k, shape.work_bytes, 1, screened.kernel, given)
        items, shape, shared = self._items, self._items.shape, self._items.shared(k)
        blocks = -(-len(users) // shape.users)
        # Of few users, parts of the items: two blocks a multiprocessor.
        parts = max(min(items.n_tiles, 2 * self._device.facts["multiprocessors"] // max(blocks, 1)), 1)
        part_tiles = -(-items.n_tiles // parts)
        parts = -(-items.n_tiles // part_tiles)
        given = {"n_tiles": items.n_tiles, "part_tiles": part_tiles, "item_columns": items.columns}
        found = self._lists((blocks, parts), shape.block, users, k, shared, parts, **given)
        if parts == 1:
            return found
        lists = dict(zip(("part_items", "part_scores"), found, strict=True)) | {"parts": parts, "n_users": len(users)}
        merged = [self._device.empty((len(users), k), part.dtype) for part in found]
        lists |= dict(zip(("items", "scores"), merged, strict=True))
        self._merge(len(users), 32, k=k, **lists, shared=k * shape.entry_bytes)
        return merged


class ScoresKernelRanking(ABC):
    """For a `LaunchedRanking` by other scores: subclasses compute them on the device, some users at a time."""

    def __init__(self, shape, candidates, seen, device):
        device, defines = backends.device(device), {"FACTORS": 1, "WARPS": 4}
        super().__init__(device, "top_scores", defines, candidates, seen, shape[0])
        self._batch = max(1, (1 << 24) // shape[1])
        self._entry_bytes = shape_of(device, SOURCE, **defines).entry_bytes

    @abstractmethod
    def _scores(self, users):
        """Of all items, float32 (len(users), n_items) on the device; users are there too."""

    def _top_items(self, users, k):
        warps = _METRICS_BLOCK // 32
        blocks, shared = -(-len(users) // warps), warps * k * self._entry_bytes
        return self._lists(blocks, _METRICS_BLOCK, users, k, shared, given=self._scores(users))


class ProductRanking(ScoresKernelRanking, LaunchedRanking):
    """By a product of matrices, cuBLAS's, for more factors than `KernelRanking` keeps in shared memory."""

    def __init__(self, user_factors, item_factors, candidates, seen, device):
        super().__init__((len(user_factors), len(item_factors)), candidates, seen, device)
        self._p, self._q = map(self._device.array, (user_factors, item_factors))

    def _scores(self, users):
        return self._p[users] @ self._q.T


def ranking_of(user_factors, item_factors, candidates, seen, k, device):
    """An `InBatches` for lists of k items, where the device is or on the CPU."""
    if device == "cpu" or k > MAX_ITEMS:
        return CpuRanking(user_factors, item_factors, candidates, seen)
    kernel = KernelRanking if user_factors.shape[1] <= COLUMNS[-1] else ProductRanking
    return kernel(user_factors, item_factors, candidates, seen, device)


def popular_items(counts, n_users, seen, k, device, candidates=None):
    """A ranking of the items by their number of ratings, counts (n_items,), the same for every user.

    candidates : bool (n_items,), the items to rank; those with a rating by default
    """
    candidates = counts > 0 if candidates is None else candidates
    _, places = np.unique(
        counts, return_inverse=True
    )  # which float32 holds exactly, where the counts may be too large
    users = np.ones((n_users, 1), np.float32)
    return ranking_of(users, places[:, None].astype(np.float32), candidates, seen, k, device)


def _rows(seen, n_users):
    return (np.zeros(n_users + 1, np.int64), np.zeros(0, np.int32)) if seen is None else (seen.indptr, seen.indices)
