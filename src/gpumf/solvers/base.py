"""What all solvers share: what they work on, one kernel at work on one training set, and the shape of a launch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import repeat
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from gpumf import backends
from gpumf.backends import sources

if TYPE_CHECKING:
    from gpumf.ratings import Ratings

MAX_FACTORS = 300
COLUMNS = range(1, MAX_FACTORS + 3)  # of rows of factors, two of them biases


class Version(NamedTuple):
    """A solver with some of its options, as studies compare it.

    label, colour, line : in figures; a name of `figure_style.COLOURS`, and Matplotlib's format of a line
    options : of the model, by name
    """

    label: str
    colour: str
    line: str
    options: Mapping = MappingProxyType({})


class Publication(NamedTuple):
    """Where a solver is published.

    key : of one of the five publications, as book/references.bib has it
    section : of it, with algorithms
    """

    key: str
    section: str


@dataclass(frozen=True)
class Hyperparameters:
    """What a solver is told of a model: checked values that do not change while it works.

    Each family of solvers adds its own fields.

    solver : its name
    device : 'cpu', 'cuda' or 'emulator'
    seed : int from 0
    """

    solver: str
    device: str
    seed: int

    @classmethod
    def of(cls, model: object, **given: Any) -> Self:
        """Those of a model, whose attributes have the fields' names, except for what is given."""
        names = cls.__dataclass_fields__.keys() - given.keys()
        return cls(**dict(zip(names, map(getattr, repeat(model), names), strict=True)), **given)


class Problem(NamedTuple):
    """All that a solver works on. It never sees the model.

    hyperparameters : Hyperparameters
    ratings : Ratings; of a model with biases counted from their mean
    start : arrays to start from, float32, in the order in which the model stores them, where the ratings are
    """

    hyperparameters: Hyperparameters
    ratings: Ratings
    start: tuple[np.ndarray, ...]


class Solver(ABC):
    """One kernel at work on one training set: holds the arrays where the kernel wants them.

    Constructed from a `Problem`, whose arrays it copies, and options for studies that its class describes.
    `epoch` may return before the work is done; `synchronize` waits.

    versions : dict of names -> `Version`, '' that of the solver itself
    from_device : whether it orders ratings that are on the device already, `DeviceRatings`, with its initial arrays
    orders : of 'by_user' and 'by_item', those that it always takes
    cases : options with which tests try the solver on small data sets
    publication : a `Publication`, or None where none of the five has it
    max_factors : of a `Factorization`
    layout : forms of the training set that it takes, with some of its options, beside its columns: 'by_user' and
        'by_item' of `Ratings`, and orders of `gpumf.solvers.sgd_partition` by their names there
    """

    device, from_device = "cpu", False
    versions: ClassVar[dict[str, Version]]
    cases: ClassVar[tuple] = ({},)
    publication: ClassVar[Publication | None] = None
    layout: ClassVar[tuple[str, ...]] = ()
    orders: ClassVar[tuple[str, ...]] = ()
    max_factors = 2**31 - 1

    if TYPE_CHECKING:

        def __init__(self, problem: Problem, **parts: Any) -> None: ...

    @classmethod
    @abstractmethod
    def compile(cls, hyper):
        """The kernel compiled for these hyperparameters, once; called before anything is timed."""

    @classmethod
    def runs_on(cls, device):
        """Whether a device of its kind, of `gpumf.backends.device`, has all instructions that it takes."""
        return True

    @classmethod
    def sources(cls, hyper, train):
        """What it compiles for a training set and is worth a start ahead: a list of (source, definitions)."""
        return []

    @abstractmethod
    def epoch(self, number):
        """Start epoch `number`, counted from 0."""

    def synchronize(self):  # noqa: B027 - what runs on the CPU has nothing to wait for
        """Wait for the started epochs."""

    def factors(self):
        """(user_factors, item_factors) of a `Factorization`, where the kernel has them."""
        return self._p, self._q

    def arrays(self):
        """What is learned, in the order of the model's `_arrays`, where the kernel has it."""
        return self.factors()


class KernelSolver(ABC):
    """For a `Solver` that launches the kernel `entry` of kernels/`source`: on a GPU, or on the CPU in its place.

    variants, races, groups : of the source, see `gpumf.backends.sources.Declared`
    """

    device, from_device = "cuda", True
    source: str
    entry: str
    variants: ClassVar[dict] = {}
    races: ClassVar[dict] = {}
    groups: ClassVar[dict] = {}

    def __init_subclass__(cls):
        if "source" in vars(cls):
            sources.declare(cls.source, races=cls.races, groups=cls.groups, **cls.variants)
            if "FACTORS" in cls.variants:
                cls.max_factors = min(max(cls.variants["FACTORS"]), MAX_FACTORS)

    @staticmethod
    def defines(hyper):
        """The preprocessor definitions that the source is compiled with for these hyperparameters."""
        return {"FACTORS": hyper.factors}

    @classmethod
    def compile(cls, hyper):
        return backends.device(hyper.device).kernel(cls.source, cls.entry, **cls.defines(hyper))

    @classmethod
    def geometry(cls, hyper):
        """The geometry of the source as it is compiled for these hyperparameters, see `shape_of`."""
        return shape_of(backends.device(hyper.device), cls.source, **cls.defines(hyper))

    def synchronize(self):
        self._device.synchronize()


_BLOCK = 128  # CUDA threads: the thesis's four warps (section 6.4)


def shape_of(device, source, **defines):
    """The geometry that a source derives from its definitions: int attributes.

    Its kernel `shape` writes each number to the parameter of its name, once for each compiled kernel.
    """
    kernel = device.kernel(source, "shape", **defines)
    if id(kernel) not in _SHAPES:
        names = kernel.signature.names
        numbers = device.empty(len(names), np.int32)
        kernel(1, 1, **{name: numbers[k : k + 1] for k, name in enumerate(names)})
        shape = SimpleNamespace(**dict(zip(names, device.to_numpy(numbers).tolist(), strict=True)))
        _SHAPES[id(kernel)] = kernel, shape  # which keeps the kernel, and with it its id
    return _SHAPES[id(kernel)][1]


_SHAPES: dict = {}


def whole_warps(threads):
    """As many CUDA threads, rounded up to whole warps."""
    return -(-threads // 32) * 32


def launch_shape(threads, groups, lanes, device):
    """(blocks, threads a block) of a grid in which a group of lanes takes a row or a rating at a time.

    As many CUDA threads as asked for, in whole groups; by default (None) those that `groups` need, at most what the
    device holds at once. lanes : of a group
    """
    if threads is None:
        resident = device.facts["multiprocessors"] * device.facts["threads_per_multiprocessor"]
        threads = min(groups * lanes, resident)
    block = min(_BLOCK, -(-threads // lanes) * lanes)
    return -(-threads // block), block
