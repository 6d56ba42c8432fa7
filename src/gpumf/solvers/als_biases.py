"""Biases in a user or item update of ALS, whichever solver runs it."""

from contextlib import contextmanager

import numpy as np

from gpumf._util.jit import cached_njit, prange
from gpumf.backends import sources

SOURCE = "als/biases.cu"
sources.declare(SOURCE)

_BLOCK = 256  # CUDA threads


class Biases:
    """Takes the biases of the fixed side out of a user or item update, and puts them back.

    A solved row x has a 1 in the column c that meets the fixed side's biases q_c. With x_c = 1

        sum (r - q . x)^2 = sum ((r - q_c) - sum_(k != c) q_k x_k)^2,

    which any solver minimises for the targets r - q_c, with zeros in column c on both sides: their equation,
    ridge x_c = 0, has nothing to do with the others.

    rows : the most rows of a side
    ratings : the most that are subtracted from at a time
    device : of `gpumf.backends`; the CPU if None
    """

    def __init__(self, rows, ratings, device=None):
        empty = np.empty if device is None else device.empty
        self._memory, self._left = empty(rows, np.float32), empty(ratings, np.float32)
        names = "subtract_biases", "set_biases_aside", "put_biases_back"
        self._kernels = device and [device.kernel(SOURCE, name) for name in names]
        if device is None:
            _subtract(*(np.empty(0, kind) for kind in (np.int32, np.float32, np.float32, np.float32)))  # compiled

    @classmethod
    def of(cls, hyper, train, device=None, most=None):
        """Those of a training set, of which at most so many ratings are there at a time; None of a model without."""
        if not hyper.biases:
            return None
        return cls(max(train.n_users, train.n_items), train.nnz if most is None else most, device)

    @contextmanager
    def aside(self, fixed, solved, column):
        """Have zeros in this column of both sides; then biases again in the fixed side, and ones in the solved."""
        self._biases = self._memory[: len(fixed)]
        if self._kernels is None:
            self._biases[:] = fixed[:, column]
            fixed[:, column] = solved[:, column] = 0
            yield
            fixed[:, column], solved[:, column] = self._biases, 1
            return
        (n_fixed, width), n_solved = fixed.shape, len(solved)
        sides = fixed, n_fixed, solved, n_solved, width, column % width, self._biases
        _, set_aside, put_back = self._kernels
        blocks = max(-(-max(n_fixed, n_solved) // _BLOCK), 1)
        set_aside(blocks, _BLOCK, *sides)
        yield
        put_back(blocks, _BLOCK, *sides)

    def subtract(self, indices, values):
        """The ratings less the biases that were set aside, float32; the next call overwrites them."""
        left = self._left[: len(values)]
        if self._kernels is None:
            _subtract(indices, values, self._biases, left)
        else:
            given = {"indices": indices, "values": values, "biases": self._biases, "n": len(values), "left": left}
            self._kernels[0](max(-(-len(values) // _BLOCK), 1), _BLOCK, **given)
        return left


@cached_njit(nogil=True, parallel=True)
def _subtract(indices, values, biases, left):
    for t in prange(len(values)):
        left[t] = values[t] - biases[indices[t]]
