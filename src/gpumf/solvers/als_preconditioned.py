"""Launches kernels/als/preconditioned_cg.cu: implicit feedback with many factors."""

from typing import ClassVar, NamedTuple

import numpy as np

from gpumf import backends
from gpumf.backends import triangles
from gpumf.ratings.csr import row_offsets
from gpumf.solvers.als_base import ALSSolver
from gpumf.solvers.base import KernelSolver, Version, whole_warps

_BLOCK = 256  # CUDA threads
_FLOATS = 3 << 27  # of each of four vectors for every row of a chunk: cuBLAS is ten times slower from 2 GiB
_LONGEST = 4096  # ratings that a block sums up: few enough that the last block does not keep a GPU waiting
_COLUMNS = 1024, 2048  # of a block of U, and of G: sums over all rows fill a GPU only if a block has many
_ONE_CHUNK = 2048  # factors up to which a thread has eight of them, else twice as many


class _Rows(NamedTuple):
    """Rows that are solved together.

    chosen : slice of them
    of_ratings : dict of their ratings as the kernels take them
    order : int32 (rows,) on the device, longest first
    slots : int32 (rows + 1,) on the device, where the parts of each begin; of rows that have several
    long_rows : int32 on the device, the row of each part
    ridges : float32 (rows,) on the device; least : of them, of rows with ratings
    """

    chosen: slice
    of_ratings: dict
    order: np.ndarray
    slots: np.ndarray
    long_rows: np.ndarray
    ridges: np.ndarray


class PreconditionedCg(KernelSolver, ALSSolver):
    """Conjugate gradient, preconditioned by Y^T Y + lambda I, for all rows at once.

    An update starts from the factors before, and ends a row at `cg_tolerance`, the length of its preconditioned
    residual relative to the right side's, or after `cg_steps`. On a GPU products with the matrix that all rows share
    are of TF32; factors of the fixed side are rounded to FP16 for those of rated pairs. Of many factors, triangular
    systems are solved by the inverse. Both operands then have two parts of TF32: without either second part, errors
    are larger than those of FP16.

    longest : ratings that a block sums up; floats : of each of four arrays that all rows of a chunk have
    columns : of a block of a triangular matrix, and of G; a triangular matrix of one block is not inverted
    """

    source, entry = "als/preconditioned_cg.cu", "step_rows"
    versions: ClassVar = {"": Version("preconditioned CG", "magenta", "-")}
    variants: ClassVar = {"VECTORS": [1, 2]}
    max_factors = 8192
    cg_steps = 4

    @staticmethod
    def defines(hyper):
        return {"VECTORS": 1 if hyper.columns <= _ONE_CHUNK else 2}

    def __init__(self, problem, longest=_LONGEST, floats=_FLOATS, columns=_COLUMNS):
        self._hyper, train, factors = problem
        device = self._device = backends.device(self._hyper.device)
        self._p, self._q = map(device.array, factors)
        chunks = -(-self._hyper.columns // 8)
        self._threads = whole_warps(-(-chunks // self.defines(self._hyper)["VECTORS"]))
        self._shape, sizes, self._width = {"chunks": chunks}, (train.n_users, train.n_items), 8 * chunks
        floats = min(floats, device.free_bytes() // 32)  # four arrays in half of the memory
        self._at_a_time = min(max(floats // self._width, 1), max(sizes))
        vectors = (self._at_a_time, self._width)
        self._vectors = {
            name: device.empty(vectors, np.float32) for name in ("x", "residual", "direction", "product")
        }
        self._of_rows = {name: device.empty(self._at_a_time, np.float32) for name in ("squares", "least")}
        self._fixed = device.empty((max(sizes), self._width), np.uint16)
        self._columns, self._gram_columns = columns
        matrices = 4 if self._width > self._columns else 2
        self._upper, self._shared, *self._inverse = (
            device.empty((self._width, self._width), np.float32) for _ in range(matrices)
        )
        self._shared_ridge = device.empty(1, np.float32)
        self._users, self._items = (
            self._side(rows, columns, longest)
            for rows, columns in zip((train.by_user, train.by_item), sizes[::-1], strict=True)
        )
        slots = max([1, *(len(rows.long_rows) for side in (self._users, self._items) for rows in side[1])])
        self._sums = {name: device.empty((slots, self._width), np.float32) for name in ("parts", "rights")}

    def _slices(self, n):
        """Yield slices of n rows, each of as many as are worked on at a time."""
        for first in range(0, n, self._at_a_time):
            yield slice(first, min(first + self._at_a_time, n))

    def _side(self, rows, columns, longest):
        array, found = self._device.array, []
        ridges, indptr = self._hyper.ridges(rows.counts, columns), rows.indptr
        indices, values = map(array, (rows.indices, rows.values))
        for chosen in self._slices(rows.n_rows):
            counts = rows.counts[chosen]
            parts = -(-counts // longest)
            slots = row_offsets(np.where(parts > 1, parts, 0)).astype(np.int32)
            arrays = np.argsort(-counts, kind="stable").astype(np.int32), slots
            long_rows = np.repeat(np.arange(len(counts), dtype=np.int32), np.diff(slots))
            of_ratings = {
                "indptr": array(indptr[chosen.start : chosen.stop + 1]),
                "indices": indices,
                "values": values,
            }
            found.append(_Rows(chosen, of_ratings, *map(array, (*arrays, long_rows, ridges[chosen]))))
        return float(ridges[rows.counts > 0].min(initial=np.inf)), found

    def _launch(self, name, blocks, threads=_BLOCK, **given):
        self._device.kernel(self.source, name, **self.defines(self._hyper))(blocks, threads, **given)

    def _copy(self, rows, made):
        """Copy rows to other ones, of more or fewer columns."""
        shape = {"columns": rows.shape[1], "n": made.size, "made_columns": made.shape[1]}
        self._launch("copy_columns", -(-made.size // _BLOCK), rows=rows, **shape, made=made)

    def _padded(self, rows):
        """Yield (slice, its rows with whole chunks of columns, in the memory of `residual`)."""
        for chosen in self._slices(len(rows)):
            made = self._vectors["residual"][: chosen.stop - chosen.start]
            self._copy(rows[chosen], made)
            yield chosen, made

    def _split(self, rows, low):
        """Leave in rows what products have of them in TF32, and what that leaves out in `low`."""
        self._launch("split_rows", -(-rows.size // _BLOCK), rows=rows, n=rows.size, low=low)

    def _precondition(self, fixed, ridge):
        """Have U, its inverse and K; and the fixed side as `self._fixed`."""
        blas, upper, cross = self._device.blas, self._upper, self._shared
        blocks = -(-upper.size // _BLOCK)
        for chosen, rows in self._padded(fixed):
            low = self._vectors["direction"][: len(rows)]
            self._split(rows, low)
            triangles.gram(blas, rows, upper, self._gram_columns, add=chosen.start > 0)
            blas.cross(rows, low, cross)
            self._launch("add_both", blocks, gram=upper, cross=cross, width=self._width)
        shape = {"width": self._width, "factors": self._hyper.columns}
        self._launch("regularize", 1, gram=upper, **shape, ridge=ridge, shared_ridge=self._shared_ridge)
        blas.factor(upper)
        self._invert(blocks)
        for chosen, rows in self._padded(fixed):
            rows = self._solved(rows, self._vectors["direction"], self._vectors["product"])
            pairs = self._fixed[chosen].view(np.uint32)
            self._launch("round_rows", -(-pairs.size // _BLOCK), rows=rows, n=pairs.size, made=pairs)

    def _invert(self, blocks):
        """Have K; and, where U has several blocks, its inverse in two parts, of which K is the product."""
        blas, upper, shared = self._device.blas, self._upper, self._shared
        identity = self._inverse[0] if self._inverse else shared
        self._launch("clear_lower", blocks, upper=upper, width=self._width, identity=identity)
        if not self._inverse:
            blas.solve(shared, upper, transposed=True)
            blas.solve(shared, upper)
            return
        high, low = self._inverse
        blas.solve(high, upper)
        self._split(high, low)
        for k, pair in enumerate([(high, low), (low, high), (high, high)]):
            blas.cross(*pair, shared, add=k > 0)

    def _solved(self, rows, spare, made, transposed=False):
        """Return X of X U = rows; of X U^T if transposed. It is in the place of rows, or in that of `made`."""
        if not self._inverse:
            self._device.blas.solve(rows, self._upper, transposed=transposed)
            return rows
        (high, low), left, made = self._inverse, spare[: len(rows)], made[: len(rows)]
        self._split(rows, left)
        self._multiply([(left, high), (rows, low), (rows, high)], made, transposed)
        return made

    def _multiply(self, pairs, made, transposed):
        """Write the sum of products with triangular matrices, see `triangles.product`."""
        triangles.product(self._device.blas, pairs, made, self._columns, transposed)

    def _solve(self, side, fixed, solved):
        least, chunks = side
        self._precondition(fixed, least)
        for rows in chunks:
            self._solve_rows(rows, solved[rows.chosen])

    def _solve_rows(self, rows, solved):
        n, blas, shared = len(solved), self._device.blas, self._shared
        vectors, of_rows = ({k: v[:n] for k, v in one.items()} for one in (self._vectors, self._of_rows))
        ridges = {"ridges": rows.ridges, "shared_ridge": self._shared_ridge}
        given = rows.of_ratings | self._shape | {"fixed": self._fixed, "confidence": self._hyper.confidence}
        given["slots"] = rows.slots
        parts, n_parts = {"long_rows": rows.long_rows}, len(rows.long_rows)
        own = {"order": rows.order, "tolerance": self._hyper.cg_tolerance}
        self._copy(solved, vectors["residual"])
        self._multiply([(vectors["residual"], self._upper)], vectors["x"], transposed=True)
        blas.product(vectors["x"], shared, vectors["product"])
        self._launch("start_parts", n_parts, self._threads, **given, **parts, x=vectors["x"], **self._sums)
        self._launch("start_rows", n, self._threads, **given, **own, **ridges, **self._sums, **vectors, **of_rows)
        given["parts"] = self._sums["parts"]
        for _ in range(self._hyper.cg_steps):
            direction = {"direction": vectors["direction"]}
            blas.product(vectors["direction"], shared, vectors["product"])
            self._launch("step_parts", n_parts, self._threads, **given, **parts, **direction, **of_rows)
            self._launch("step_rows", n, self._threads, **given, order=rows.order, **ridges, **vectors, **of_rows)
        made = self._solved(vectors["x"], vectors["residual"], vectors["product"], transposed=True)
        self._copy(made, solved)
