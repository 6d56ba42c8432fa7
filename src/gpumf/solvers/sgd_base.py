"""What the versions of SGD share: the steps of an update, and the versions that run on the CPU."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gpumf import backends
from gpumf._util import threads
from gpumf._util.counter_rng import splitmix64
from gpumf.backends import compile, sources
from gpumf.backends.cpu import sgd as cpu_sgd
from gpumf.solvers.base import COLUMNS, Hyperparameters, KernelSolver, Solver, Version, shape_of
from gpumf.solvers.chunks import Chunks

SHAPE = "sgd/launch_config.cu"
sources.declare(SHAPE, FACTORS=COLUMNS)

ROWS = "sgd/stored_rows.cu"
_BLOCK = 256  # CUDA threads

REGULARIZATIONS = "regularization", "item_regularization", "bias_regularization", "item_bias_regularization"
SMALL = np.float32(0.1)  # standard deviation of initial factors of models with biases


@dataclass(frozen=True)
class SGDHyperparameters(Hyperparameters):
    """Those of SGD; see its parameters.

    columns : of the factors, two more than `factors` with biases
    bias_kind : BIASES of kernels/common/sgd.cuh
    options : of the solver alone, by name
    """

    factors: int
    columns: int
    biases: bool | str
    bias_kind: int
    regularization: float
    item_regularization: float
    bias_regularization: float
    item_bias_regularization: float
    learning_rate: float
    threads: int | None
    chunk: int | None
    options: Mapping[str, Any]


def draw_key(hyper):
    """The stream of the draws."""
    return splitmix64(np.uint64(hyper.seed))


def kernel_steps(rate, regularization, dtype=np.float32):
    """`Steps` of kernels/common/sgd.cuh: the learning rate, and 1 - rate lambda of each lambda, (5,)."""
    return np.array([rate, *(1 - rate * np.asarray(regularization, np.float64))], dtype)


def in_turn(ratings, blocks, members):
    """`DescentKernel.order` of ratings that are dealt, one after another, to all members of all blocks."""
    workers = blocks * members
    for t, rating in enumerate(ratings):
        yield *divmod(t % workers, members), t // workers, int(rating), "both"


class Descent(Solver):
    """A version of SGD.

    options : parameters of this solver alone, which `SGD` takes by name: a dict name -> `Option`
    streams : whether it takes ratings a chunk after another
    learning_rate : of the next epoch
    regularization : float64 (4,), lambda of the users, of the items, of the users' biases and of the items' biases
    """

    streams, max_factors = False, COLUMNS[-1]
    options: ClassVar[dict] = {}

    @classmethod
    def chosen(cls, hyper, given):
        """The values of the options, those given and the defaults of the others, by name.

        hyper : SGDHyperparameters, whose options are not known yet
        Raises TypeError: an option that the solver has not
        Raises ValueError: a value that is not allowed
        """
        if unknown := set(given) - set(cls.options):
            raise TypeError(
                f"the solver {hyper.solver!r} has no options {sorted(unknown)}; it has {sorted(cls.options)}"
            )
        for name, value in given.items():
            cls.options[name].check(hyper.solver, name, value)
        return {name: given.get(name, option.default) for name, option in cls.options.items()}

    @staticmethod
    def draw(hyper, train):
        """Initial factors of a model with biases where the solver has its own: what `with_bias_columns` takes, on the
        host, (user_factors, user_biases) and (item_factors, item_biases). None where they are those of all solvers.
        """

    def set_factors(self, user_factors, item_factors):
        """Go on from these factors, as large as those before, where the kernel has its own."""
        self._p[...], self._q[...] = user_factors, item_factors

    def set_counts(self, users, items):
        """Have rates of rows go by these numbers of ratings, where a training set has a part of them."""

    def shrink(self, users, items):
        """Multiply the factors of each user and of each item by a number, float32 (n_users,) and (n_items,)."""
        for factors, by in ((self._p, users), (self._q, items)):
            factors *= by[:, None]

    def share_memory(self, other):
        """Have the factors where another solver of this class has its own: one of them is at work at a time.

        Either is given factors by `set_factors` each time. other : solver, or None of the first one
        """

    def set_steps(self, hyper):
        """Take the sizes of the steps from the hyperparameters."""
        self.learning_rate = hyper.learning_rate
        self.regularization = np.array([getattr(hyper, name) for name in REGULARIZATIONS])


class DescentKernel(KernelSolver):
    """For a `Descent` by a kernel of kernels/sgd.

    Factors have 64 bits where the source is compiled with REAL and the option `precision` says so, else 32.
    """

    streams = True
    variants: ClassVar = {"FACTORS": COLUMNS, "BIASES": range(3)}

    @classmethod
    def defines(cls, hyper):
        real = {"REAL": "double" if cls._is_double(hyper) else "float"} if "REAL" in cls.variants else {}
        return {"FACTORS": hyper.columns, "BIASES": hyper.bias_kind} | real

    @classmethod
    def _is_double(cls, hyper):
        return "REAL" in cls.variants and hyper.options["precision"] == 64

    @classmethod
    def compile(cls, hyper):
        return cls.kernel(hyper, cls.entry)

    @classmethod
    def geometry(cls, hyper):
        """The geometry of the kernels of kernels/sgd for the model's columns, by the names in launch_config.cu."""
        return shape_of(backends.device(hyper.device), SHAPE, FACTORS=hyper.columns)

    @classmethod
    def kernel(cls, hyper, entry):
        """A kernel of the source, compiled for the model."""
        return backends.device(hyper.device).kernel(cls.source, entry, **cls.defines(hyper))

    def __init__(self, hyper, user_factors, item_factors):
        self._device, real = backends.device(hyper.device), np.float32
        if self._is_double(hyper):
            real, user_factors, item_factors = np.float64, user_factors.astype("f8"), item_factors.astype("f8")
        self._kernel = self.compile(hyper)
        self._p, self._q = self._device.array(user_factors), self._device.array(item_factors)
        self.set_steps(hyper)
        self._steps, self._rate = self._device.empty(5, real), None
        self._learned = {"user_factors": self._p, "item_factors": self._q, "steps_now": self._steps}

    @staticmethod
    @abstractmethod
    def order(hyper, train, epoch=0, blocks=1, members=1):
        """Who makes which update when, where each makes one a turn: a pace that on a device is left to chance.

        model : SGD, or what has its seed, columns, biases and options
        train : Ratings on the host
        epoch : int, counted from 0
        blocks, members : thread blocks at work, and those in each that update at the same time
        Yields (block, member, turn, position of the rating, which vectors move: 'both', 'user' or 'item'), in the
            order of the updates where one block has one member
        """

    def shrink(self, users, items):
        for rows, by in ((self._p, users), (self._q, items)):
            by = self._device.array(by)
            if rows.ndim == 2 and rows.dtype in (np.float16, np.float32):
                n_rows, width = rows.shape
                kernel = self._device.kernel(ROWS, "multiply_half" if rows.itemsize == 2 else "multiply_float")
                kernel(-(-rows.size // _BLOCK), _BLOCK, rows=rows, n_rows=n_rows, width=width, by=by)
            else:
                rows *= by.reshape(-1, *[1] * (rows.ndim - 1))  # of cu2rec, which has each item twice

    def rate(self):
        """The learning rate of what is launched next."""
        return self.learning_rate

    def steps(self):
        """`Steps` of kernels/common/sgd.cuh for this rate: an array on the device, always the same one."""
        if self._rate != self.rate():
            self._rate = self.rate()
            self._steps[:] = self._device.array(kernel_steps(self._rate, self.regularization, self._steps.dtype))
        return self._steps

    def learned(self):
        """What every kernel takes, by name: the factors, and `steps()`."""
        self.steps()
        return self._learned

    def factors(self):
        if self._p.dtype != np.float64:
            return self._p, self._q
        with np.errstate(over="ignore"):  # what has diverged is infinite, as it is in FP32
            return self._p.astype(np.float32), self._q.astype(np.float32)


class PieceKernel(ABC):
    """For a `DescentKernel` whose ratings come in pieces, as batches, or blocks that share no row and no column.

    Where all ratings are on the device the launches of an epoch are recorded once and started as one: else Python
    would take longer to launch a piece than the device to work on it.
    """

    def set_pieces(self, arrays, pieces, most):
        """Take the ratings in their order, see `Chunks`; the last thing to do before `launch` works."""
        self._chunks = Chunks(self._device, arrays, pieces, most)
        self._launches = self._device.recorded(self._launch) if self._chunks.resident else self._launch

    def epoch(self, number):
        self.steps()
        self._launches()

    def _launch(self):
        for first, end, first_rating, (users, items, values) in self._chunks:
            ratings = {"users": users, "items": items, "values": values}
            self.launch(range(first, end), first_rating, ratings | self._learned)

    @abstractmethod
    def launch(self, pieces, first_rating, arrays):
        """Launch these pieces: their ratings, from `first_rating` of the order on, and the factors are `arrays`."""


class Updates(ABC):
    """For a `Descent`: an epoch is an update a rating, of which number t draws its rating by the hash of t."""

    def epoch(self, number):
        self.updates(number * self._nnz, self._nnz)

    @abstractmethod
    def updates(self, first, count):
        """Start the updates first, first + 1, ..., first + count - 1."""


class _Sampling(Updates):
    """Numba, Hogwild on as many threads as there are chunks of updates."""

    parallel: bool

    @classmethod
    def compile(cls, hyper):
        return cpu_sgd.hogwild(hyper.columns, hyper.bias_kind, cls.parallel)

    def __init__(self, problem):
        hyper, train, (user_factors, item_factors) = problem
        self._hogwild = self.compile(hyper)
        self._ratings = train.users, train.items, train.values
        self._nnz = train.nnz
        self._p, self._q = compile.aligned(user_factors), compile.aligned(item_factors)
        self._key = draw_key(hyper)
        self._chunks = threads.count() if self.parallel else 1
        self.set_steps(hyper)

    def updates(self, first, count):
        steps = tuple(np.float32([self.learning_rate, *self.regularization]))
        self._hogwild(*self._ratings, self._p, self._q, steps, self._key, first, count, self._chunks)


class Sequential(_Sampling, Descent):
    """Numba on one thread, one update after another: the convergence reference."""

    versions: ClassVar = {"": Version("1 thread, sampling", "red", "--")}
    parallel = False


class Parallel(_Sampling, Descent):
    """Numba, Hogwild over all threads."""

    versions: ClassVar = {"": Version("all threads, sampling", "orange", "--")}
    parallel = True


def with_quads(factors, quads, dtype):
    """Factors as rows of so many quads, zeros in the padding."""
    return np.pad(factors, ((0, 0), (0, 4 * quads - factors.shape[1]))).astype(dtype)
