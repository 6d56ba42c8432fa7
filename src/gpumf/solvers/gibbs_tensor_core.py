"""Launches kernels/als/tensor_core_draw.cu: Gibbs sampling with its products on the tensor cores."""

from typing import ClassVar

import numpy as np

from gpumf import backends
from gpumf.ratings.csr import CompressedRows
from gpumf.solvers.als_base import SEGMENTS
from gpumf.solvers.als_tensor_core import RatingRows, longest_segment
from gpumf.solvers.base import KernelSolver, Version, shape_of
from gpumf.solvers.gibbs import Gibbs
from gpumf.solvers.gibbs_cuda import OnDevice
from gpumf.solvers.half_rows import SOURCE as HALF_ROWS
from gpumf.solvers.half_rows import HalfRows

_LONGEST_OF_ALL = (
    2048  # ratings of a segment of the row with all columns: adding its parts takes about as long as one
)
_MAX_FACTORS = 128  # whose system fits the shared memory of every GPU with tensor cores


class _Rows(KernelSolver):
    """Draws rows given those of the other side in half precision, in one launch.

    longest : ratings of a segment, see `gpumf.solvers.als_base.segments_of`; by default by the number of all
    """

    source, entry = "als/tensor_core_draw.cu", "tensor_core_draw"
    variants: ClassVar = {"FACTORS": range(1, _MAX_FACTORS + 1)}

    def __init__(self, problem, longest=None):
        hyper, train, start = problem
        device, f = backends.device(hyper.device), hyper.factors
        names = self.entry, "tensor_core_moments"
        self._draw, self._sum = (device.kernel(self.source, name, FACTORS=f) for name in names)
        self._device, self._shape = device, shape_of(device, self.source, FACTORS=f)
        self._p, self._q = map(device.array, start)
        # Before the ratings, which take what is left or are streamed.
        self._half, self._rounded = HalfRows(device, f, max(train.n_users, train.n_items)), None
        self._least = device.zeros(1, np.float32)
        self._found, self._of_items = device.empty((f, f + 1), np.float32), device.empty(train.n_items, np.float64)
        longest = longest or longest_segment(train.nnz)
        ratings = [RatingRows(device, rows, longest) for rows in (train.by_user, train.by_item)]
        self._users, self._items = ([self._with_room(rows), self._half.largest_ratings(rows)] for rows in ratings)
        self._every = {n: self._with_room(self._of_all(n)) for n in {train.n_users, train.n_items}}

    def _of_all(self, columns):
        """The row that has all columns, with ratings of 1."""
        every, ones = np.arange(columns, dtype=np.int32), np.ones(columns, np.float32)
        row = CompressedRows(np.array([0, columns]), self._device.array(every), self._device.array(ones))
        return RatingRows(self._device, row, _LONGEST_OF_ALL)

    def _with_room(self, rows):
        """Rows, and room for the sums of the parts of long ones and for how many have arrived."""
        sums = self._device.empty(int(rows.slots) * self._shape.part_bytes, np.uint8)
        return rows, {"partial": sums, "arrived": self._device.zeros(int(rows.slots), np.int32)}

    def factors(self):
        return self._p, self._q

    def _launch(self, kernel, segments, indices, values, **given):
        segments, n = segments["all"]
        given |= {"segments": segments, "n_segments": n, "indices": indices, "values": values}
        given |= {"fixed": self._half.halves, "unit": self._half.unit}
        teams, shared = self._shape.teams, self._shape.teams * self._shape.team_bytes
        kernel(-(-int(n) // teams), self._shape.block, shared=shared, **given)

    def _round(self, factors):
        """Have the rows of a side in half precision; they were drawn since then, or the other side's are there."""
        if self._rounded is not factors:
            self._half.round(factors, self._least)
            self._rounded = factors

    def moments(self, factors):
        """As `gpumf.backends.cpu.gibbs.moments`, of the rows in half precision."""
        self._round(factors)
        rows, room = self._every[len(factors)]
        for _, segments, *ratings in rows:
            self._launch(self._sum, segments, *ratings, **room, moments=self._found)
        found = self._device.to_numpy(self._found).astype(np.float64)
        return found[:, -1], found[:, :-1]

    def draw(self, side, fixed, drawn, **given):
        """given : of the kernel, by name"""
        self._round(fixed)
        (rows, room), largest = side
        of_items = drawn is self._q
        for chosen, segments, *ratings in rows:
            of_rows = {"largest": largest[chosen], "solved": drawn[chosen], "first": chosen.start}
            of_rows |= {"errors": self._of_items[chosen if of_items else slice(1)], "adds_errors": int(of_items)}
            self._launch(self._draw, segments, *ratings, **room, **given, **of_rows)

    def errors(self):
        """Of the items that were drawn last, sum (r - p . q)^2 less sum r^2."""
        return float(self._device.to_numpy(self._of_items).sum())


class GibbsTensorCore(OnDevice, Gibbs):
    """Rows drawn given those of the other side rounded to 11 digits, sums in FP32."""

    versions: ClassVar = {"": Version("Gibbs sampling, tensor cores", "teal", "-v")}
    rows, max_factors = _Rows, _MAX_FACTORS

    @classmethod
    def sources(cls, hyper, train):
        of_factors = {"FACTORS": hyper.factors}
        return [(_Rows.source, of_factors), (HALF_ROWS, of_factors), (SEGMENTS, {})]
